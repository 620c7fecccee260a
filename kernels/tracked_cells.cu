// Tracked cells: those whose stress times are kept cell by cell.
//
// Constants: as in `cell_times.cuh`

#include "cell_times.cuh"

constexpr int THREADS = 256;  // of a block

// Add the latest epoch to the seconds of tracked cells; in the first, after those of the mixture.
//
// instance_of[], cell_of[]     tracked cells; a cell counts as 2048 x entry + 32 x component + bit
// positions[count]             those whose instances have run
// seconds[2][tracked]          at '0' and at '1'
// sums[2][count]               result: the same of these cells
extern "C" __global__ void __launch_bounds__(THREADS, 3)
track(const Residencies *all, const State *states, const int *instance_of, const int *cell_of,
      const int *positions, int count, int tracked, double *seconds, double *sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Residencies &residencies = *all;
    const State &state = *states;
    const int position = positions[i], cell = cell_of[position];
    const long long instance = instance_of[position];
    const int entry = cell / (COMPONENTS * BITS), component = cell / BITS % COMPONENTS;
    const int bit = cell % BITS, latest = state.epoch_count[instance] - 1;
    const Epoch epoch = state.epochs[instance * state.most_epochs + latest];
    const Times<1> times = times_in<1>(residencies, epoch, entry, component, bit);
    for (int which = 0; which < 2; which++) {
        const Long cycles = which ? times.ones[0] : times.powered[0] - times.ones[0];
        double *sum = seconds + static_cast<long long>(which) * tracked + position;
        const double *duty = state.duties + which * state.kernels * CELLS +
                             (entry * BITS + bit) * COMPONENTS + component;
        const double earlier = latest ? *sum : duties_sum(state, instance, duty, CELLS);
        *sum = __dadd_rn(earlier, __dmul_rn(double(cycles), epoch.scale));
        sums[static_cast<long long>(which) * count + i] = *sum;
    }
}
