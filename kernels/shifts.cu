// Threshold shifts of tracked cells under the model `facelift`: which cells fail, and how many have
// shifted how far. The reference is `TrackedSeconds` of mcage/engines/stress.py. The model
// takes only operations that IEEE 754 rounds correctly, so that shifts are equal to the last bit.

constexpr int THREADS = 256;  // of a block
constexpr int WORDS = 5;      // of a cell that fails
constexpr double LEAST = 2.2250738585072014e-308;  // the least double that is normal

// How the transistors of the instances shift; of each instance, or of all if a stride is 0.
struct Shift {
    const double *stress;      // growth of the fourth power of the shift in a second
    const double *diffusion;   // weight of a second in the recovery term
    const double *activity;    // fraction of the time in which cells are busy
    const double *eta;         // recoverable part
    long long stress_stride, diffusion_stride, activity_stride, eta_stride;
    double least_recovery;
};

__device__ __forceinline__ double shift_of(const Shift &shift, long long instance, double busy,
                                           double age) {
    const double activity = shift.activity[instance * shift.activity_stride];
    const double stressed = __dmul_rn(activity, busy);
    double recovered = __dsub_rn(age, stressed);
    if (!(recovered > __dmul_rn(shift.least_recovery, age))) recovered = 0;
    const double stress = __dmul_rn(shift.stress[instance * shift.stress_stride], stressed);
    const double diffusion = shift.diffusion[instance * shift.diffusion_stride];
    recovered = __dmul_rn(diffusion, recovered);
    const double total = __dadd_rn(__dmul_rn(diffusion, stressed), recovered);
    const double eta = shift.eta[instance * shift.eta_stride];
    const double part = __dsqrt_rn(__ddiv_rn(__dmul_rn(eta, recovered), max(total, LEAST)));
    return __dmul_rn(__dsqrt_rn(__dsqrt_rn(stress)), __dsub_rn(1.0, part));
}

__device__ __forceinline__ double between(double before, double after, double part) {
    return __dadd_rn(before, __dmul_rn(__dsub_rn(after, before), part));
}

// List the sound cells of the tail that fail at the end of the latest epochs of instances.
//
// ages[instance]               their ages then, negative for those that are not looked at
// instance_of[], vmin[2][tail] the tail: the first of the tracked cells; `sound`: not faulty yet
// before, now[2][tracked]      seconds at both ends of the epochs
// coefficients                 growth of Vmin per shift, of each instance, or of all if the stride is 0
// found                        result: their number, in a row of five words, zero before; then a row
//                              for each in any order: place, seconds before and after at '0' and '1'
extern "C" __global__ void __launch_bounds__(THREADS)
list_failing(const Shift *shifts, const double *ages, const int *instance_of, const double *vmin,
             const unsigned char *sound, int tail, int tracked, const double *before,
             const double *now, const double *coefficients, long long coefficient_stride,
             double lowest_vdd, unsigned long long *found) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tail || !sound[i]) return;
    const int instance = instance_of[i];
    const double age = ages[instance];
    if (age < 0) return;
    const Shift &shift = *shifts;
    double seconds[4], dvth[2];
#pragma unroll
    for (int which = 0; which < 2; which++) {
        const long long at = static_cast<long long>(which) * tracked + i;
        seconds[which] = before[at];
        seconds[2 + which] = now[at];
        const double busy = between(seconds[which], seconds[2 + which], 1.0);
        dvth[which] = shift_of(shift, instance, busy, age);
    }
    const double coefficient = coefficients[instance * coefficient_stride];
    bool fails = false;
#pragma unroll
    for (int which = 0; which < 2; which++) {
        const double start = vmin[static_cast<long long>(which) * tail + i];
        fails |= __dadd_rn(start, __dmul_rn(coefficient, dvth[which])) > lowest_vdd;
    }
    if (!fails) return;
    unsigned long long *row = found + WORDS * (1 + atomicAdd(found, 1ull));
    row[0] = i;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        row[1 + k] = static_cast<unsigned long long>(__double_as_longlong(seconds[k]));
    }
}

// Count sampled cells by their shifts, in bins of which `per_volt` are a volt.
//
// instance_of_row[], parts[], ages[]  a moment of each instance: the part of its latest epoch that has
//                              passed, its age
// first, sampled               of the tracked cells, the first that is sampled; of each instance
// counts[2][bins]              result, zero before: a shift beyond the last border is in the last bin
//
// Grid: rows; shared memory for 2 x bins integers.
extern "C" __global__ void __launch_bounds__(THREADS)
count_shifts(const Shift *shifts, const int *instance_of_row, const double *parts,
             const double *ages, long long first, int sampled, int tracked, const double *before,
             const double *now, double per_volt, int bins, unsigned long long *counts) {
    extern __shared__ unsigned of_block[];
    for (int bin = threadIdx.x; bin < 2 * bins; bin += THREADS) of_block[bin] = 0;
    __syncthreads();
    const Shift &shift = *shifts;
    const long long instance = instance_of_row[blockIdx.x];
    const double part = parts[blockIdx.x], age = ages[blockIdx.x];
    for (int i = threadIdx.x; i < 2 * sampled; i += THREADS) {
        const int which = i / sampled;
        const long long at = static_cast<long long>(which) * tracked + first +
                             instance * sampled + i % sampled;
        const double dvth = shift_of(shift, instance, between(before[at], now[at], part), age);
        const int bin = int(min(__dmul_rn(per_volt, dvth), double(bins - 1)));
        atomicAdd(&of_block[which * bins + bin], 1u);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < 2 * bins; bin += THREADS) {
        if (of_block[bin]) atomicAdd(&counts[bin], static_cast<unsigned long long>(of_block[bin]));
    }
}
