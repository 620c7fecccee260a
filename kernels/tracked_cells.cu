// Tracked cells: those whose stress times are kept cell by cell.
//
// Constants: as in `stress.cuh`

#include "stress.cuh"

constexpr int WARPS = 8;  // of a block
constexpr int LANES = 8;  // that look at a cell: most lists of occupants are short
constexpr int CELLS_OF_WARP = 32 / LANES;

// What an occupant does to a cell that its writes touch.
struct Effect {
    Long start, end;
    Long before;  // cycles until it overwrites the cell, all of them if it does not
    Long ones;    // cycles at '1' from then on
    bool touches, over, last;
};

// What a component holds after a write that overwrites all of it.
__device__ __forceinline__ unsigned left_by(const Residencies &residencies, int image, int form,
                                            int component) {
    if (is_record(form) && within_block(component)) return unsigned(~form);
    const long long row = static_cast<long long>(image) * COMPONENTS;
    return residencies.contents[row + (is_record(form) ? 0 : component)];
}

__device__ Effect effect_of(const Residencies &residencies, const Lodger &lodger, int component,
                            int bit) {
    Effect effect = {lodger.start, lodger.end, 0, 0, touched_by(lodger.block, component), true, false};
    if (!effect.touches) return effect;
    const Long lasts = lodger.end - lodger.start;
    if (lodger.kind == BY_WRITES) {
        effect.over = false;
        for (int w = lodger.first; w < lodger.last; w++) {
            const Write write = residencies.writes[w];
            if (overwritten_by(residencies, write.form, component) >> bit & 1u) {
                effect.over = true;
                effect.last =
                    left_by(residencies, write.image, write.form, component) >> bit & 1u;
            }
            if (!effect.over) effect.before += write.held;
            if (effect.over && effect.last) effect.ones += write.held;
        }
        return effect;
    }
    const bool record = RECORDS && lodger.kind == BY_RECORD;
    if (record && !(cells_of_record(component) >> bit & 1u)) {
        effect.over = false;
        effect.before = lasts;
        return effect;
    }
    effect.last = left_by(residencies, lodger.image, lodger.form, component) >> bit & 1u;
    const long long of_bit = static_cast<long long>(lodger.number) * BITS + bit;
    if (record) {
        effect.ones = residencies.record_sums[of_bit * 2 + within_block(component)];
    } else if (lodger.kind == BY_SUMS) {
        effect.ones = residencies.sums[of_bit * COMPONENTS + component];
    } else {
        effect.ones = effect.last ? lasts : 0;
    }
    return effect;
}

// The lanes of a warp that look at the same cell as this one; and the bits of a vote among them.
__device__ __forceinline__ unsigned lanes_of_cell() {
    return ((1u << LANES) - 1u) << threadIdx.x % 32 / LANES * LANES;
}

__device__ __forceinline__ unsigned vote(bool own) {
    const unsigned lanes = lanes_of_cell();
    return __ballot_sync(lanes, own) >> (__ffs(lanes) - 1) & ((1u << LANES) - 1u);
}

template <typename Number>
__device__ __forceinline__ Number told_by_lane(Number own, int lane) {
    return __shfl_sync(lanes_of_cell(), own, lane, LANES);
}

__device__ __forceinline__ Long sum_of_lanes(Long value) {
    for (int distance = LANES / 2; distance; distance /= 2) {
        value += __shfl_xor_sync(lanes_of_cell(), value, distance);
    }
    return value;
}

// Cycles of a cell; those at '1' are the sum over all lanes.
struct CellTimes {
    Long ones, powered;
};

// The times of a cell in one pass, as `walk` of `stress.cuh` tells them: what an occupant finds there
// is what the latest one before it left that overwrote the cell.
__device__ void pass_of(const Residencies &residencies, const unsigned *codes, int count, int component,
                        int bit, Long cycles, CellTimes &times) {
    const int lane = threadIdx.x % LANES;
    const unsigned below = (1u << lane) - 1u;
    Long since = 0, on = 0, lead = 0, first = 0;
    bool content = false, written = false;
    for (int many = 0; many < count; many += LANES) {
        Effect own = {};
        if (many + lane < count) {
            own = effect_of(residencies, lodger_of(residencies, codes[many + lane]), component, bit);
        }
        const unsigned touching = vote(own.touches);
        const unsigned over = vote(own.touches && own.over);
        if (!touching) continue;
        const unsigned touched = touching & below, overwritten = over & below;
        const int latest = touched ? 31 - __clz(touched) : 0;
        const int source = overwritten ? 31 - __clz(overwritten) : 0;
        const Long end_of_latest = told_by_lane(own.end, latest);
        const bool left = told_by_lane(int(own.last), source);
        if (own.touches) {
            const bool found = overwritten ? left : content;
            if (!GATED && found) times.ones += own.start - (touched ? end_of_latest : since);
            if (found) times.ones += own.before;
            times.ones += own.ones;
            on += own.end - own.start;
            if (GATED && !written && !overwritten) lead += own.before;
        }
        since = told_by_lane(own.end, 31 - __clz(touching));
        if (!over) continue;
        const Long begins = told_by_lane(own.start + own.before, __ffs(over) - 1);
        if (!written) first = begins;
        content = told_by_lane(int(own.last), 31 - __clz(over));
        written = true;
    }
    if (!written) return;
    times.powered += GATED ? sum_of_lanes(on) : cycles;
    // From the last occupant to the end, and from the beginning until the cell is overwritten.
    if (!content) return;
    if (GATED) {
        times.ones += lead;
    } else if (lane == 0) {
        times.ones += cycles - since + first;
    }
}

__device__ __forceinline__ CellTimes cell_times_in(const Residencies &residencies, const Epoch &epoch,
                                                   int entry, int component, int bit) {
    CellTimes times = {};
    if (epoch.shared) {
        const long long at = in_shared_times(epoch, entry, component, bit);
        if (at >= 0) times = {epoch.shared->ones[at], epoch.shared->powered[at]};
        return times;
    }
    const int lane = threadIdx.x % LANES, passes = int(residencies.passes);
    const int *starts = epoch.starts + entry * passes;
    const long long powered = GATED ? epoch.powered[entry] : -1;
    if (powered >= 0) {
        for (int i = starts[0] + lane; i < starts[passes]; i += LANES) {
            const long long row = epoch.codes[i] & NUMBER;
            times.ones += residencies.sums[(row * BITS + bit) * COMPONENTS + component];
        }
        times.powered = static_cast<Long>(powered);
    } else {
        for (int pass = 0; pass < passes; pass++) {
            pass_of(residencies, epoch.codes + starts[pass], starts[pass + 1] - starts[pass], component,
                    bit, epoch.cycles, times);
        }
    }
    times.ones = sum_of_lanes(times.ones);
    return times;
}

// Add the latest epoch, turn after turn, to the seconds of tracked cells; the first of an instance, to
// those of its mixture.
//
// runs[instance]               which instances have run
// turns                        of the epoch
// instance_of[], cell_of[]     tracked cells; a cell counts as 2048 x entry + 32 x component + bit
// before, now[2][tracked]      seconds at '0' and at '1' at the start and at the end of the epoch
//
// LANES for each cell, each of which looks at one occupant of its entry at a time.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
track(const Residencies *all, const State *states, const unsigned char *runs, int turns,
      const int *instance_of, const int *cell_of, int tracked, double *before, double *now) {
    const int i = blockIdx.x * WARPS * CELLS_OF_WARP + threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES;
    if (i >= tracked) return;
    const long long instance = instance_of[i];
    if (!runs[instance]) return;
    const Residencies &residencies = *all;
    const State &state = *states;
    const int cell = cell_of[i], entry = cell / (COMPONENTS * BITS);
    const int component = cell / BITS % COMPONENTS, bit = cell % BITS;
    const int first = state.epoch_count[instance] - turns;
    double seconds[2] = {};
#pragma unroll
    for (int which = 0; which < 2 && lane == 0; which++) {
        const long long place = static_cast<long long>(which) * tracked + i;
        seconds[which] = before[place] = now[place];
        if (first) continue;
        const double *duty = state.duties + which * state.kernels * CELLS +
                             (entry * BITS + bit) * COMPONENTS + component;
        seconds[which] = duties_sum(state, instance, duty, CELLS);
    }
    for (int turn = 0; turn < turns; turn++) {
        const Epoch &epoch = state.epochs[instance * state.most_epochs + first + turn];
        const CellTimes times = cell_times_in(residencies, epoch, entry, component, bit);
        const Long zeros = times.powered - times.ones;
        seconds[0] = __dadd_rn(seconds[0], __dmul_rn(double(zeros), epoch.scale));
        seconds[1] = __dadd_rn(seconds[1], __dmul_rn(double(times.ones), epoch.scale));
    }
#pragma unroll
    for (int which = 0; which < 2 && lane == 0; which++) {
        now[static_cast<long long>(which) * tracked + i] = seconds[which];
    }
}
