// The most stressed cell of each instance, without a sum for every cell. Only places, bits of entries,
// whose bound exceeds the longest time found so far are worked out: their cells are summed up over all
// epochs, terms in the order of the reference (`DenseStress` of mcage/engines/stress.py). The sums are
// kept, as far as there is room, so that the next search adds no more than what has happened since. The
// Numba engine goes the same way (mcage/engines/numba_engine/most_stressed.py).
//
// Constants: as in `stress.cuh`

#include "stress.cuh"

constexpr int WARPS = 8;  // of a block
constexpr unsigned NOTHING = 0xFFFFFFFFu;
constexpr long long INFINITE = 0x7FF0000000000000LL;  // bits of a double
constexpr int GUESSES = 6;  // of a row, as many as `stress.py` makes room for

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
// the epoch, and those whose times are likely the longest.
//
// An entry is powered for about as long as its bit with the least sum of both bounds says, and a cell
// that is not at one value is at the other: between the bound and what that leaves lies the middle.
// items[row][GUESSES]: PLACES x row + place, or NOTHING.
//
// Grid: rows; 256 threads, a warp for one entry after the other, a lane for each bit.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
guess(const State *states, const int *instance_of, const double *parts, unsigned *items) {
    __shared__ double most_of[GUESSES][WARPS];
    __shared__ int place_of[GUESSES][WARPS];
    const State &state = *states;
    const long long row = blockIdx.x, instance = instance_of[row];
    const double part = parts[row];
    double most[GUESSES];
    int best[GUESSES] = {};
#pragma unroll
    for (int trial = 0; trial < GUESSES; trial++) most[trial] = -1;
    for (int place = threadIdx.x; place < PLACES; place += 32 * WARPS) {
        double at[2];
#pragma unroll
        for (int which = 0; which < 2; which++) {
            at[which] = bound_at(state, instance, which, place, part);
        }
        double powered = at[0] + at[1];
        for (int distance = 16; distance; distance /= 2) {
            powered = min(powered, __shfl_xor_sync(EVERY_LANE, powered, distance));
        }
#pragma unroll
        for (int trial = 0; trial < GUESSES; trial++) {
            const int which = trial % 2;
            double promise = at[which];
            if (trial / 2 == 1) promise = state.before[(instance * 2 + which) * PLACES + place];
            if (trial / 2 == 2) promise += powered - at[1 - which];
            if (promise > most[trial]) most[trial] = promise, best[trial] = place;
        }
    }
#pragma unroll
    for (int trial = 0; trial < GUESSES; trial++) {
        for (int distance = 16; distance; distance /= 2) {
            const double other = __shfl_xor_sync(EVERY_LANE, most[trial], distance);
            const int where = __shfl_xor_sync(EVERY_LANE, best[trial], distance);
            if (other > most[trial] || (other == most[trial] && where < best[trial])) {
                most[trial] = other, best[trial] = where;
            }
        }
        if (threadIdx.x % 32 == 0) {
            most_of[trial][threadIdx.x / 32] = most[trial];
            place_of[trial][threadIdx.x / 32] = best[trial];
        }
    }
    __syncthreads();
    if (threadIdx.x) return;
    unsigned *of_row = items + GUESSES * row;
    for (int trial = 0; trial < GUESSES; trial++) {
        int first = 0;
        for (int warp = 1; warp < WARPS; warp++) {
            if (most_of[trial][warp] > most_of[trial][first]) first = warp;
        }
        unsigned item = unsigned(row) * PLACES + place_of[trial][first];
        for (int earlier = 0; earlier < trial; earlier++) {
            if (of_row[earlier] == item) item = NOTHING;
        }
        of_row[trial] = item;
    }
}

// List the open places of all rows, bit after bit: the sums of one bit of all residencies fit into the
// second-level cache, those of all do not. items[], count[1], zero before; lists[row][bit][2]: where
// those of a bit of a row begin, how many they are.
//
// Grid: bits of rows, a warp each.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
list_open(const State *states, const int *instance_of, const double *parts, Long *longest, int rows,
          unsigned *items, int2 *lists, int *count) {
    const State &state = *states;
    const Moments moments = {instance_of, parts, nullptr, longest, rows, 0};
    const int number = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = number % rows, bit = number / rows;
    Long open = 0;  // entries of the lane, of which there are 64 at most
    for (int entry = lane; entry < ENTRIES; entry += 32) {
        if (is_open(state, moments, row, entry * BITS + bit)) open |= 1ull << entry / 32;
    }
    const int own = __popcll(open), end = sum_up_to_lane(own);
    int first = 0;
    if (lane == 31) {
        first = atomicAdd(count, end);
        lists[row * BITS + bit] = {first, end};
    }
    unsigned *next = items + __shfl_sync(EVERY_LANE, first, 31) + end - own;
    for (; open; open &= open - 1) {
        const int entry = (__ffsll(open) - 1) * 32 + lane;
        *next++ = unsigned(row) * PLACES + entry * BITS + bit;
    }
}

template <typename Number>
__device__ __forceinline__ Number most_of_warp(Number value) {
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
__device__ __forceinline__ double raised(double bound, const Times &times, int which,
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
__device__ __forceinline__ void take_back(double (&seconds)[2][2], const Times &times,
                                          double back) {
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const Long zeros = times.powered[n] - times.ones[n];
        seconds[n][0] = __dsub_rn(seconds[n][0], __dmul_rn(double(zeros), back));
        seconds[n][1] = __dsub_rn(seconds[n][1], __dmul_rn(double(times.ones[n]), back));
    }
}

// Slices of a launch that run the same kernel in a turn.
struct Group {
    long long unused, first;
    int kernel, count;
};

// An epoch of an instance: -1 is the latest.
__device__ __forceinline__ const Epoch &epoch_of(const State &state, long long instance, int number) {
    return state.epochs[instance * state.most_epochs + state.epoch_count[instance] + number];
}

__device__ __forceinline__ bool sums_tell(const Epoch &epoch, int place) {
    return !epoch.shared && epoch.powered[place / BITS] >= 0;
}

constexpr int CLOSING_WARPS = 24;            // of a block
constexpr int OF_WARP = WIDE ? 8 : 20;       // places whose sums a warp has in registers
constexpr int LOADS = WIDE ? 4 : 8;          // of each thread for a tile
constexpr int TILE = LOADS * CLOSING_WARPS;  // residencies whose sums a block has in shared memory

// Bound listed places by what the latest turns have really added, where all that lived there has sums:
// most of them are open no more. One turn after the other: `truths` keeps what those before have added.
//
// A block has a bit of slices that run the same kernel. It goes through the sums of this bit tile by
// tile, each for all of its places: a warp adds the occupants of one after the other, a lane two
// components.
//
// groups[], order[]      slices of the turn by kernels, rows
// items[], lists[][][]   as of `list_open`
// truths[item][2]        workspace
//
// Grid: groups x bits.
extern "C" __global__ void __launch_bounds__(32 * CLOSING_WARPS)
close(const Residencies *all, const State *states, const int *instance_of, const Group *groups,
      const int *order, int turn, int turns, const unsigned *items, const int2 *lists,
      double *truths) {
    __shared__ TwoCycles tile[TILE][32];
    const Residencies &residencies = *all;
    const State &state = *states;
    const Group group = groups[blockIdx.x];
    const int bit = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int2 list = {0, 0};  // of a slice for each lane
    if (lane < group.count) list = lists[order[group.first + lane] * BITS + bit];
    const int end = sum_up_to_lane(list.y), count = __shfl_sync(EVERY_LANE, end, 31);
    const int last_row = residencies.first_rows[group.kernel + 1];
    for (int many = 0; many < count; many += CLOSING_WARPS * OF_WARP) {
        // A place of the warp for each lane, as far as there are some.
        const int number = many + lane * CLOSING_WARPS + warp;
        int slice = 0;
        for (int other = 1; other < group.count; other++) {
            if (number >= __shfl_sync(EVERY_LANE, end - list.y, other)) slice = other;
        }
        const int item = number + __shfl_sync(EVERY_LANE, list.x + list.y - end, slice);
        const bool is_there = lane < OF_WARP && number < count;
        const unsigned *codes = nullptr;
        int left = 0;
        if (is_there) {
            const int place = int(items[item] % PLACES);
            const Epoch &epoch = epoch_of(state, instance_of[items[item] / PLACES], turn - turns);
            if (sums_tell(epoch, place)) {
                const int *starts = epoch.starts + place / BITS * residencies.passes;
                codes = epoch.codes + starts[0];
                left = starts[residencies.passes] - starts[0];
            }
        }

        Cycles ones[OF_WARP][2] = {};
        for (int first = residencies.first_rows[group.kernel]; first < last_row; first += TILE) {
            __syncthreads();
#pragma unroll
            for (int n = 0; n < LOADS; n++) {
                const int row = n * CLOSING_WARPS + warp;
                if (first + row >= last_row) continue;
                tile[row][lane] = two_sums(residencies, first + row, bit, 2 * lane);
            }
            __syncthreads();
#pragma unroll
            for (int n = 0; n < OF_WARP; n++) {
                if (many + n * CLOSING_WARPS + warp >= count) break;
                int within = 32;
                while (within == 32) {
                    const Long address = reinterpret_cast<Long>(codes);
                    const unsigned *next =
                        reinterpret_cast<const unsigned *>(__shfl_sync(EVERY_LANE, address, n));
                    unsigned row = TILE;
                    if (lane < __shfl_sync(EVERY_LANE, left, n)) row = (next[lane] & NUMBER) - first;
                    within = __popc(__ballot_sync(EVERY_LANE, row < TILE));
#pragma unroll 4
                    for (int j = 0; j < within; j++) {
                        const TwoCycles sums = tile[__shfl_sync(EVERY_LANE, row, j)][lane];
                        ones[n][0] += sums.of[0];
                        ones[n][1] += sums.of[1];
                    }
                    if (lane == n) codes += within, left -= within;
                }
            }
        }

        Cycles most = 0, least = 0;
#pragma unroll
        for (int n = 0; n < OF_WARP; n++) {
            const Cycles highest = most_of_warp(max(ones[n][0], ones[n][1]));
            const Cycles lowest = ~most_of_warp(~min(ones[n][0], ones[n][1]));
            if (lane == n) most = highest, least = lowest;
        }
        if (!is_there) continue;
        const long long instance = instance_of[items[item] / PLACES];
        const int place = int(items[item] % PLACES);
        const Epoch &epoch = epoch_of(state, instance, turn - turns);
        for (int which = 0; which < 2; which++) {
            const long long at = (instance * 2 + which) * PLACES + place;
            double truth = turn ? truths[2LL * item + which] : state.before[at];
            if (sums_tell(epoch, place)) {
                const Long gained = which ? most : epoch.powered[place / BITS] - least;
                truth = __dadd_rn(truth, __dmul_rn(double(gained), epoch.scale));
            } else {
                truth = __longlong_as_double(INFINITE);
            }
            truths[2LL * item + which] = truth;
            if (turn == turns - 1) state.bounds[at] = min(state.bounds[at], truth);
        }
    }
}

__device__ __forceinline__ void add_epoch(double (&seconds)[2][2], const Times &times,
                                          double scale) {
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const Long zeros = times.powered[n] - times.ones[n];
        seconds[n][0] = __dadd_rn(seconds[n][0], __dmul_rn(double(zeros), scale));
        seconds[n][1] = __dadd_rn(seconds[n][1], __dmul_rn(double(times.ones[n]), scale));
    }
}

// Room for what a place's cells have gathered, or -1 if there is none.
__device__ __forceinline__ int take_room(const State &state, long long at) {
    int room = -1;
    if (threadIdx.x % 32 == 0) {
        room = atomicAdd(state.used, 1);
        if (room >= state.most_kept) room = -1;
        state.kept[at] = room;
    }
    return __shfl_sync(EVERY_LANE, room, 0);
}

// Where a lane's seconds [2][2] are kept.
__device__ __forceinline__ double *seconds_kept(const State &state, int kept) {
    return state.seconds + (kept * 32LL + threadIdx.x % 32) * 4;
}

__device__ __forceinline__ void keep(const double (&seconds)[2][2], const State &state, int kept) {
#pragma unroll
    for (int cell = 0; cell < 4; cell++) {
        seconds_kept(state, kept)[cell] = seconds[cell / 2][cell % 2];
    }
}

__device__ __forceinline__ void recall(double (&seconds)[2][2], const State &state, int kept) {
#pragma unroll
    for (int cell = 0; cell < 4; cell++) {
        seconds[cell / 2][cell % 2] = seconds_kept(state, kept)[cell];
    }
}

// Seconds before the first fault.
__device__ __forceinline__ void live_mixture(double (&seconds)[2][2], const State &state,
                                             long long instance, int place, int component) {
#pragma unroll
    for (int cell = 0; cell < 4; cell++) {
        const double *duty = state.duties + cell % 2 * state.kernels * CELLS + place * COMPONENTS +
                             component + cell / 2;
        seconds[cell / 2][cell % 2] = duties_sum(state, instance, duty, CELLS);
    }
}

// Work out the cells of listed places, first in the latest turns, then, if need be, in all that are not
// in the sums kept: raise the longest of their rows, and lower the bounds to what is true.
//
// A warp takes one item after the other, a lane two components.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
work_out(const Residencies *all, const State *states, const int *instance_of, const double *parts,
         const double *backs, Long *longest, int rows, int turns, const unsigned *items,
         const int *count) {
    const Residencies &residencies = *all;
    const State &state = *states;
    const Moments moments = {instance_of, parts, backs, longest, rows, turns};
    const int lane = threadIdx.x % 32, component = 2 * lane;
    const int warps = gridDim.x * WARPS;
    for (int i = blockIdx.x * WARPS + threadIdx.x / 32; i < *count; i += warps) {
        const unsigned item = items[i];
        if (item == NOTHING) continue;
        const int row = int(item / PLACES), place = int(item % PLACES);
        if (!is_open_to_warp(state, moments, row, place)) continue;

        const long long instance = moments.instance_of[row], at = instance * PLACES + place;
        const int epoch_count = state.epoch_count[instance];
        const Epoch *epochs = state.epochs + instance * state.most_epochs;
        const int latest_turns = epoch_count - turns;
        int kept = state.kept[at];
        const int known = kept < 0 ? 0 : state.epochs_kept[kept];
        double seconds[2][2], truth[2];
        // First the latest turns, to bound the place; then, if need be, all epochs that are not known.
        const int steps = known < epoch_count ? turns + epoch_count - known : 0;
        if (!steps) recall(seconds, state, kept);
        bool still_open = true;
        for (int step = 0; step < steps && still_open; step++) {
            if (step == turns && kept >= 0) recall(seconds, state, kept);
            if (step == turns && kept < 0) live_mixture(seconds, state, instance, place, component);
            const Epoch &epoch = epochs[step < turns ? latest_turns + step : known + step - turns];
            const Times times = times_in(residencies, epoch, place / BITS, component, place % BITS);
            if (step >= turns) {
                add_epoch(seconds, times, epoch.scale);
                continue;
            }
#pragma unroll
            for (int which = 0; which < 2; which++) {
                if (step == 0) truth[which] = state.before[(instance * 2 + which) * PLACES + place];
                truth[which] = raised(truth[which], times, which, epoch.scale);
            }
            if (step < turns - 1) continue;
            tighten(state, instance, place, truth);
            still_open = is_open_to_warp(state, moments, row, place);
        }
        if (!still_open) continue;
        if (steps) {
#pragma unroll
            for (int which = 0; which < 2; which++) {
                const Long highest = most_of_warp(bits_of(max(seconds[0][which], seconds[1][which])));
                if (lane == 0) {
                    state.bounds[(instance * 2 + which) * PLACES + place] =
                        __longlong_as_double(static_cast<long long>(highest));
                }
            }
            if (kept < 0) kept = take_room(state, at);
            if (kept >= 0) {
                keep(seconds, state, kept);
                if (lane == 0) state.epochs_kept[kept] = epoch_count;
            }
        }

        const double *back = backs + static_cast<long long>(row) * turns;
        for (int turn = 0; turn < turns && moments.parts[row] != 1.0; turn++) {
            const Epoch &epoch = epochs[latest_turns + turn];
            const Times times = times_in(residencies, epoch, place / BITS, component, place % BITS);
            take_back(seconds, times, back[turn]);
        }
#pragma unroll
        for (int which = 0; which < 2; which++) {
            const double then = max(0.0, max(seconds[0][which], seconds[1][which]));
            const Long seen = most_of_warp(bits_of(then));
            if (lane == 0) atomicMax(&longest[which * rows + row], seen);
        }
    }
}
