// The most stressed cell of each instance, without a sum for every cell. Only places, bits of entries,
// whose bound exceeds the longest time found so far are worked out: their cells are summed up over all
// epochs, terms in the order of the reference (`DenseStress` of mcage/engines/stress.py). The Numba
// engine goes the same way (mcage/engines/numba_engine/most_stressed.py).
//
// Constants: as in `stress.cuh`

#include "stress.cuh"

constexpr int WARPS = 8;  // of a block
constexpr unsigned NOTHING = 0xFFFFFFFFu;

// Moments within the latest epochs of instances, or their ends; `rows` of them.
struct Moments {
    const int *instance_of;       // [row]
    const double *parts;          // [row] of the epoch that has passed; 1 at its end
    const double *backs;          // [row][turn] seconds to be taken back for each cycle; 0 at its end
    Long *longest;                // [2][row] bits of a double: longest seconds of any cell seen so far
    int rows, turns;              // turns that the latest epochs are made of
};

// Fraction of a bound by which it may fall short within an epoch by rounding alone.
constexpr double ROUNDING = 1e-12;

// Seconds that no cell of a place exceeds at a moment: within an epoch, no cell exceeds the line
// between its bounds before and after.
__device__ __forceinline__ double bound_at(const State &state, long long instance, int which,
                                           int place, double part) {
    const long long at = (instance * 2 + which) * PLACES + place;
    const double after = state.bounds[at];
    if (part == 1.0) return after;
    const double before = state.before[at];
    return before + (after - before) * part + after * ROUNDING;
}

__device__ __forceinline__ Long bits_of(double seconds) {
    return static_cast<Long>(__double_as_longlong(seconds));
}

// Warps of any multiprocessor raise it meanwhile: read where they do, since a multiprocessor's own
// cache would keep what was there when it first looked.
__device__ __forceinline__ Long longest_so_far(const Moments &moments, int which, long long row) {
    return *static_cast<const volatile Long *>(moments.longest + which * moments.rows + row);
}

// Whether a cell of a place may be more stressed than all that have been seen.
__device__ __forceinline__ bool is_open(const State &state, const Moments &moments, long long row,
                                        int place) {
    const long long instance = moments.instance_of[row];
    const double part = moments.parts[row];
    return bits_of(bound_at(state, instance, 0, place, part)) > longest_so_far(moments, 0, row) ||
           bits_of(bound_at(state, instance, 1, place, part)) > longest_so_far(moments, 1, row);
}

// Where to look first: the places with the highest bounds at '0' and at '1', at the moment and before
// the epoch. items[row][4]: PLACES x row + place, or NOTHING.
//
// Grid: rows; 256 threads.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
guess(const State *states, const int *instance_of, const double *parts, unsigned *items) {
    __shared__ Long most_of[4][WARPS];
    __shared__ int place_of[4][WARPS];
    const State &state = *states;
    const long long row = blockIdx.x, instance = instance_of[row];
    const double part = parts[row];
#pragma unroll
    for (int trial = 0; trial < 4; trial++) {
        Long most = 0;
        int best = 0;
        for (int place = threadIdx.x; place < PLACES; place += 32 * WARPS) {
            const double bound =
                trial < 2 ? bound_at(state, instance, trial, place, part)
                          : state.before[(instance * 2 + trial % 2) * PLACES + place];
            if (bits_of(bound) > most) most = bits_of(bound), best = place;
        }
        for (int distance = 16; distance; distance /= 2) {
            const Long other = __shfl_xor_sync(EVERY_LANE, most, distance);
            const int where = __shfl_xor_sync(EVERY_LANE, best, distance);
            if (other > most || (other == most && where < best)) most = other, best = where;
        }
        if (threadIdx.x % 32 == 0) {
            most_of[trial][threadIdx.x / 32] = most;
            place_of[trial][threadIdx.x / 32] = best;
        }
    }
    __syncthreads();
    if (threadIdx.x) return;
    unsigned *of_row = items + 4 * row;
    for (int trial = 0; trial < 4; trial++) {
        int best = 0;
        for (int warp = 1; warp < WARPS; warp++) {
            if (most_of[trial][warp] > most_of[trial][best]) best = warp;
        }
        unsigned item = unsigned(row) * PLACES + place_of[trial][best];
        for (int earlier = 0; earlier < trial; earlier++) {
            if (of_row[earlier] == item) item = NOTHING;
        }
        of_row[trial] = item;
    }
}

// List the open places of all rows: items[], count[1], zero before.
//
// Grid: tiles of the rows' places.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
list_open(const State *states, const int *instance_of, const double *parts, Long *longest, int rows,
          unsigned *items, int *count) {
    const State &state = *states;
    const Moments moments = {instance_of, parts, nullptr, longest, rows, 0};
    const long long item = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const bool open = is_open(state, moments, item / PLACES, int(item % PLACES));
    const unsigned lanes = __ballot_sync(EVERY_LANE, open);
    if (!lanes) return;
    const int lane = threadIdx.x % 32;
    int first = 0;
    if (lane == 0) first = atomicAdd(count, __popc(lanes));
    first = __shfl_sync(EVERY_LANE, first, 0);
    if (open) items[first + __popc(lanes & ((1u << lane) - 1u))] = unsigned(item);
}

__device__ __forceinline__ Long most_of_warp(Long value) {
    for (int distance = 16; distance; distance /= 2) {
        value = max(value, __shfl_xor_sync(EVERY_LANE, value, distance));
    }
    return value;
}

// Whether a place is open, as one lane sees it: another warp may raise the longest meanwhile.
__device__ __forceinline__ bool is_open_to_warp(const State &state, const Moments &moments,
                                                long long row, int place) {
    const bool open = threadIdx.x % 32 == 0 && is_open(state, moments, row, place);
    return __any_sync(EVERY_LANE, open);
}

// Seconds of which a bound before a turn becomes one after it: by the most that any cell gains.
__device__ __forceinline__ double raised(double bound, const Times<2> &times, int which,
                                         double scale) {
    Long cycles[2];
#pragma unroll
    for (int n = 0; n < 2; n++) {
        cycles[n] = which ? times.ones[n] : times.powered[n] - times.ones[n];
    }
    const Long most = most_of_warp(max(cycles[0], cycles[1]));
    return __dadd_rn(bound, __dmul_rn(double(most), scale));
}

// Bound a place by what the latest turns have really added to any of its cells.
__device__ __forceinline__ void tighten(const State &state, long long instance, int place,
                                        const double (&truth)[2]) {
    if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int which = 0; which < 2; which++) {
            const long long at = (instance * 2 + which) * PLACES + place;
            state.bounds[at] = min(state.bounds[at], truth[which]);
        }
    }
    __syncwarp();
}

// Take back so many seconds for each cycle of a turn.
__device__ __forceinline__ void take_back(double (&seconds)[2][2], const Times<2> &times,
                                          double back) {
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const Long zeros = times.powered[n] - times.ones[n];
        seconds[n][0] = __dsub_rn(seconds[n][0], __dmul_rn(double(zeros), back));
        seconds[n][1] = __dsub_rn(seconds[n][1], __dmul_rn(double(times.ones[n]), back));
    }
}

__device__ __forceinline__ void add_epoch(double (&seconds)[2][2], const Times<2> &times,
                                          double scale) {
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const Long zeros = times.powered[n] - times.ones[n];
        seconds[n][0] = __dadd_rn(seconds[n][0], __dmul_rn(double(zeros), scale));
        seconds[n][1] = __dadd_rn(seconds[n][1], __dmul_rn(double(times.ones[n]), scale));
    }
}

// Work out the cells of listed places, first in the latest turns, then, if need be, in all: raise the
// longest of their rows, and lower the bounds to what is true.
//
// A warp takes one item after the other, a lane two components.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
work_out(const Residencies *all, const State *states, const int *instance_of, const double *parts,
         const double *backs, Long *longest, int rows, int turns, const unsigned *items,
         const int *count) {
    const Residencies &residencies = *all;
    const State &state = *states;
    const Moments moments = {instance_of, parts, backs, longest, rows, turns};
    const int component = threadIdx.x % 32 * 2;
    const int warps = gridDim.x * WARPS;
    for (int i = blockIdx.x * WARPS + threadIdx.x / 32; i < *count; i += warps) {
        const unsigned item = items[i];
        if (item == NOTHING) continue;
        const int row = int(item / PLACES), place = int(item % PLACES);
        if (!is_open_to_warp(state, moments, row, place)) continue;

        const long long instance = moments.instance_of[row];
        const int epoch_count = state.epoch_count[instance];
        const Epoch *epochs = state.epochs + instance * state.most_epochs;
        const int latest_turns = epoch_count - turns;
        double seconds[2][2] = {}, truth[2];
        Times<2> latest = {};
        bool still_open = true;
        // First the latest turns, to bound the place; then, if need be, all epochs but the last turn,
        // which is known.
        for (int step = 0; step < turns + epoch_count - 1 && still_open; step++) {
            const Epoch &epoch = epochs[step < turns ? latest_turns + step : step - turns];
            const Times<2> times =
                times_in<2>(residencies, epoch, place / BITS, component, place % BITS);
            if (step >= turns) {
                add_epoch(seconds, times, epoch.scale);
                continue;
            }
#pragma unroll
            for (int which = 0; which < 2; which++) {
                if (step == 0) truth[which] = state.before[(instance * 2 + which) * PLACES + place];
                truth[which] = raised(truth[which], times, which, epoch.scale);
            }
            latest = times;
            if (step < turns - 1) continue;
            tighten(state, instance, place, truth);
            still_open = is_open_to_warp(state, moments, row, place);
#pragma unroll
            for (int cell = 0; cell < 4 && still_open; cell++) {
                const double *duty = state.duties + cell % 2 * state.kernels * CELLS +
                                     place * COMPONENTS + component + cell / 2;
                seconds[cell / 2][cell % 2] = duties_sum(state, instance, duty, CELLS);
            }
        }
        if (!still_open) continue;
        add_epoch(seconds, latest, epochs[epoch_count - 1].scale);
#pragma unroll
        for (int which = 0; which < 2; which++) {
            const Long highest = most_of_warp(bits_of(max(seconds[0][which], seconds[1][which])));
            if (threadIdx.x % 32 == 0) {
                state.bounds[(instance * 2 + which) * PLACES + place] =
                    __longlong_as_double(static_cast<long long>(highest));
            }
        }

        const double *back = backs + static_cast<long long>(row) * turns;
        for (int turn = 0; turn < turns - 1 && moments.parts[row] != 1.0; turn++) {
            const Epoch &epoch = epochs[latest_turns + turn];
            const Times<2> times =
                times_in<2>(residencies, epoch, place / BITS, component, place % BITS);
            take_back(seconds, times, back[turn]);
        }
        take_back(seconds, latest, back[turns - 1]);
#pragma unroll
        for (int which = 0; which < 2; which++) {
            const double then = max(0.0, max(seconds[0][which], seconds[1][which]));
            const Long seen = most_of_warp(bits_of(then));
            if (threadIdx.x % 32 == 0) atomicMax(&longest[which * rows + row], seen);
        }
    }
}
