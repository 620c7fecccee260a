// Tracked cells: those whose stress times are kept cell by cell.
//
// Constants: as in `stress.cuh`

#include "stress.cuh"

constexpr int THREADS = 256;  // of a block

// Add the latest epoch, turn after turn, to the seconds of tracked cells; the first of an instance, to
// those of its mixture.
//
// runs[instance]               which instances have run
// turns                        of the epoch
// instance_of[], cell_of[]     tracked cells; a cell counts as 2048 x entry + 32 x component + bit
// before, now[2][tracked]      seconds at '0' and at '1' at the start and at the end of the epoch
extern "C" __global__ void __launch_bounds__(THREADS, 3)
track(const Residencies *all, const State *states, const unsigned char *runs, int turns,
      const int *instance_of, const int *cell_of, int tracked, double *before, double *now) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tracked) return;
    const long long instance = instance_of[i];
    if (!runs[instance]) return;
    const Residencies &residencies = *all;
    const State &state = *states;
    const int cell = cell_of[i], entry = cell / (COMPONENTS * BITS);
    const int component = cell / BITS % COMPONENTS, bit = cell % BITS;
    const int first = state.epoch_count[instance] - turns;
    double seconds[2];
#pragma unroll
    for (int which = 0; which < 2; which++) {
        const long long place = static_cast<long long>(which) * tracked + i;
        seconds[which] = before[place] = now[place];
        if (first) continue;
        const double *duty = state.duties + which * state.kernels * CELLS +
                             (entry * BITS + bit) * COMPONENTS + component;
        seconds[which] = duties_sum(state, instance, duty, CELLS);
    }
    for (int turn = 0; turn < turns; turn++) {
        const Epoch &epoch = state.epochs[instance * state.most_epochs + first + turn];
        const Times<1> times = times_in<1>(residencies, epoch, entry, component, bit);
#pragma unroll
        for (int which = 0; which < 2; which++) {
            const Long cycles = which ? times.ones[0] : times.powered[0] - times.ones[0];
            seconds[which] = __dadd_rn(seconds[which], __dmul_rn(double(cycles), epoch.scale));
        }
    }
#pragma unroll
    for (int which = 0; which < 2; which++) {
        now[static_cast<long long>(which) * tracked + i] = seconds[which];
    }
}
