// Stress times, the seconds at '0' and at '1' of the cells of instances: their first values, and a
// look at tracked cells. `stress.cu` adds to them. Cells lie as [entry][bit][component].

constexpr int BITS = 32;
constexpr int COMPONENTS = 64;
constexpr int ENTRY_CELLS = BITS * COMPONENTS;
constexpr int CELLS = 256 * ENTRY_CELLS;

// Give instances separate stress times: the sum over kernels of seconds run x duty cycle.
//
// mixtures[chosen][kernel]     seconds that each chosen instance has run each kernel
// duties[2][kernel][cell]      fraction of the time at '0' and at '1'
// instance_of[chosen]          position of the instance
// seconds[2][instances][cell]  result
//
// Grid: chosen instances x tiles of cells x 2; instances fastest, so that they share a tile's duties.
extern "C" __global__ void
begin(const double *mixtures, const double *duties, int kernels, const int *instance_of,
      int instances, double *seconds) {
    const int cell = blockIdx.y * blockDim.x + threadIdx.x;
    const double *mixture = mixtures + static_cast<long long>(blockIdx.x) * kernels;
    const double *duty = duties + static_cast<long long>(blockIdx.z) * kernels * CELLS + cell;
    double total = 0;
    for (int kernel = 0; kernel < kernels; kernel++) {
        const long long row = static_cast<long long>(kernel) * CELLS;
        total = __dadd_rn(total, __dmul_rn(mixture[kernel], duty[row]));
    }
    const long long of_kind = static_cast<long long>(blockIdx.z) * instances;
    seconds[(of_kind + instance_of[blockIdx.x]) * CELLS + cell] = total;
}

// Set the longest seconds of instances: values[2][chosen] to longest[2][instances], both as the
// bits of a double.
extern "C" __global__ void
set_longest(const unsigned long long *values, int chosen, const int *instance_of, int instances,
            unsigned long long *longest) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= chosen) return;
    longest[instance_of[i]] = values[i];
    longest[instances + instance_of[i]] = values[chosen + i];
}

// Seconds of chosen cells: found[2][count]. `cell` counts as 2048 x entry + 32 x component + bit.
extern "C" __global__ void
look_up(const int *instance, const int *cell, const int *positions, int count, int instances,
        const double *seconds, double *found) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int number = cell[positions[i]];
    const int entry = number / ENTRY_CELLS, component = number / BITS % COMPONENTS;
    const int bit = number % BITS;
    const long long place = static_cast<long long>(instance[positions[i]]) * CELLS +
                            entry * ENTRY_CELLS + bit * COMPONENTS + component;
    found[i] = seconds[place];
    found[count + i] = seconds[place + static_cast<long long>(instances) * CELLS];
}
