// How long every cell holds '1' and is powered: a walk through the writes that land in an entry,
// the sums of its cells in registers. The reference is mcage/engines/reference_cells.py.
//
// One block is one entry of one slice, one thread one of its components: a word of content, and 32
// sums of cycles at '1'. An entry has several worlds (passes from different starting points, which
// do not see each other) and each is cyclic: its first write finds what its last one left. So a
// walk has two laps. The first starts with nothing in the cells; the second goes through the
// writes again, until each cell that is ever written has been, and adds the time during which it
// held what was left to it.
//
// Between the kernels, cells lie as [entry][bit][component], so that the threads of a warp touch
// neighbours.
//
// Constants: GATED    a place is off once its value is gone; otherwise cells keep and stress it
//            RECORDS  compressed values are records of five bytes in one block
//            REGIONS  an entry is powered by byte ranges, the four rows of `region_masks`
//            WIDE     cycles of all worlds together exceed 32 bits

constexpr int ENTRIES = 256;
constexpr int COMPONENTS = 64;
constexpr int BITS = 32;
constexpr int CELLS = ENTRIES * BITS * COMPONENTS;
constexpr int BLOCK_COMPONENTS = 16;
constexpr unsigned EVERY_CELL = 0xFFFFFFFFu;
constexpr unsigned CODE_CELLS = 0xFFu;
constexpr unsigned EVERY_LANE = 0xFFFFFFFFu;

#if WIDE
typedef unsigned long long Cycles;
#else
typedef unsigned int Cycles;
#endif

struct alignas(16) Visit {
    int first, end, block, turn;
};

// `time`: for how long the value holds if GATED, otherwise when it is written. `form`: 16 x the
// row of `masks` (0: all cells) + the regions powered, or the complement of a record's code.
struct alignas(16) Write {
    unsigned long long time;
    int image, form;
};

// What a walk looks at.
struct Replay {
    const Write *writes;
    const unsigned *contents;  // [image][component]
    const unsigned *masks;     // [mask][component]
    Cycles cycles;             // of one pass
};

// The component that a thread has.
struct Component {
    int number;
    unsigned regions[4];  // cells of each region, if REGIONS
};

// What a write does to a component.
struct Change {
    unsigned content, cells, lit;  // new bits, cells overwritten, cells powered
};

__device__ __forceinline__ void add(Cycles (&sums)[BITS], unsigned cells, Cycles cycles) {
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) {
        if (cells >> bit & 1u) sums[bit] += cycles;
    }
}

__device__ __forceinline__ unsigned content_of(const Replay &replay, const Write &write,
                                               int component) {
    // A record is its image's first component, then its code.
    if (RECORDS && write.form < 0) component = 0;
    return replay.contents[static_cast<long long>(write.image) * COMPONENTS + component];
}

__device__ __forceinline__ Change change_of(const Replay &replay, const Component &component,
                                            const Write &write, unsigned content) {
    if (RECORDS && write.form < 0) {
        switch (component.number % BLOCK_COMPONENTS) {
            case 0: return {content, EVERY_CELL, EVERY_CELL};
            case 1: return {unsigned(~write.form), CODE_CELLS, EVERY_CELL};
            default: return {0, 0, EVERY_CELL};
        }
    }
    Change change = {content, EVERY_CELL, EVERY_CELL};
    const int mask = write.form >> 4;
    if (mask) change.cells = replay.masks[mask * COMPONENTS + component.number];
    if (REGIONS) {
        change.lit = 0;
#pragma unroll
        for (int region = 0; region < 4; region++) {
            if (write.form >> region & 1) change.lit |= component.regions[region];
        }
    }
    return change;
}

// Whether the writes of a visit leave a component alone.
__device__ __forceinline__ bool spares(const Visit &visit, int component) {
    if (!RECORDS || visit.block < 0) return false;
    if (visit.block != component / BLOCK_COMPONENTS) return true;
    return !GATED && component % BLOCK_COMPONENTS > 1;
}

__device__ __forceinline__ Cycles when(const Replay &replay, const Visit &visit,
                                       const Write &write) {
    return Cycles(write.time) + visit.turn * replay.cycles;
}

// Walk through the visits of one world. `powered`: this thread's column of 32 sums in shared
// memory, every COMPONENTS-th number.
__device__ __forceinline__ void walk(const Replay &replay, const Component &component,
                                     const Visit *visits, int count, Cycles period,
                                     Cycles (&sums)[BITS], Cycles *powered) {
    unsigned content = 0, written = 0;
    Cycles since = 0;
    Cycles on[4] = {0, 0, 0, 0};  // cycles for which each region is powered; [0] without REGIONS

    for (int v = 0; v < count; v++) {
        const Visit visit = visits[v];
        if (spares(visit, component.number)) continue;
        Write next = replay.writes[visit.first];
        unsigned next_content = content_of(replay, next, component.number);
        for (int i = visit.first; i < visit.end; i++) {
            const Write write = next;
            const Change change = change_of(replay, component, write, next_content);
            next = replay.writes[min(i + 1, visit.end - 1)];
            next_content = content_of(replay, next, component.number);
            const unsigned changed = (content & ~change.cells) | (change.content & change.cells);
            if (GATED) {
                content = changed;
                add(sums, content & change.lit, Cycles(write.time));
#pragma unroll
                for (int region = 0; region < (REGIONS ? 4 : 1); region++) {
                    if (!REGIONS || write.form >> region & 1) on[region] += Cycles(write.time);
                }
            } else {
                const Cycles now = when(replay, visit, write);
                add(sums, content, now - since);
                content = changed;
                since = now;
            }
            written |= change.cells;
        }
    }
    if (!GATED) {
        add(sums, content, period - since);
        on[0] = period;
    }

    unsigned pending = written;
    for (int v = 0; v < count && pending; v++) {
        const Visit visit = visits[v];
        if (spares(visit, component.number)) continue;
        for (int i = visit.first; i < visit.end && pending; i++) {
            const Write write = replay.writes[i];
            const Change change = change_of(replay, component, write, 0);
            if (GATED) {
                pending &= ~change.cells;
                if (pending) add(sums, content & pending & change.lit, Cycles(write.time));
            } else {
                const unsigned touched = pending & change.cells;
                if (touched) add(sums, content & touched, when(replay, visit, write));
                pending &= ~touched;
            }
        }
    }

    if (written) {
#pragma unroll
        for (int region = 0; region < (REGIONS ? 4 : 1); region++) {
            const unsigned cells = REGIONS ? component.regions[region] & written : written;
            for (int bit = 0; bit < BITS; bit++) {
                if (cells >> bit & 1u) powered[bit * COMPONENTS] += on[region];
            }
        }
    }
}

// Walk through all worlds of the block's entry; false if nothing ever lands in it.
//
// worlds[entry], periods[entry]            worlds of an entry, and cycles of each
// starts[slice][world][257], visits[slice][world][capacity]  there are `most_worlds` of them
__device__ __forceinline__ bool walk_worlds(
    const Replay &replay, const unsigned *region_masks, const int *worlds,
    const unsigned long long *periods, int most_worlds, const int *starts, const int4 *visits,
    int capacity, long long slice, int entry, Cycles (&sums)[BITS], Cycles *powered) {
    Component component = {int(threadIdx.x), {0, 0, 0, 0}};
    if (REGIONS) {
#pragma unroll
        for (int region = 0; region < 4; region++) {
            component.regions[region] = region_masks[region * COMPONENTS + component.number];
        }
    }
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) sums[bit] = 0;
    for (int bit = 0; bit < BITS; bit++) powered[bit * COMPONENTS] = 0;
    bool used = false;
    for (int world = 0; world < worlds[entry]; world++) {
        const long long number = slice * most_worlds + world;
        const int *start = starts + number * (ENTRIES + 1) + entry;
        if (start[0] == start[1]) continue;
        used = true;
        walk(replay, component,
             reinterpret_cast<const Visit *>(visits) + number * capacity + start[0],
             start[1] - start[0], Cycles(periods[entry]), sums, powered);
    }
    return used;
}

// Cycles at '1' and powered: ones, powered [slice][entry][bit][component].
extern "C" __global__ void __launch_bounds__(COMPONENTS)
cell_times(const int4 *writes, const unsigned *contents, const unsigned *masks,
           const unsigned *region_masks, unsigned long long cycles, const int *worlds,
           const unsigned long long *periods, int most_worlds, const int *starts,
           const int4 *visits, int capacity, unsigned long long *ones,
           unsigned long long *powered) {
    __shared__ Cycles powered_here[BITS * COMPONENTS];
    const Replay replay = {reinterpret_cast<const Write *>(writes), contents, masks,
                           Cycles(cycles)};
    const long long slice = blockIdx.x;
    const int entry = blockIdx.y;
    Cycles sums[BITS];
    Cycles *on = powered_here + threadIdx.x;
    walk_worlds(replay, region_masks, worlds, periods, most_worlds, starts, visits, capacity,
                slice, entry, sums, on);
    const long long first = (slice * ENTRIES + entry) * BITS * COMPONENTS + threadIdx.x;
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) {
        ones[first + bit * COMPONENTS] = sums[bit];
        powered[first + bit * COMPONENTS] = on[bit * COMPONENTS];
    }
}

// Add scaled times to the seconds at '0' and at '1' of the slices' instances, and raise the longest.
//
// instance_of[slice]                          whose cells a slice's are
// seconds[2][instances][entry][bit][component]
// longest[2][instances]                       bits of a double: not negative, so in order
extern "C" __global__ void __launch_bounds__(COMPONENTS)
expose(const int4 *writes, const unsigned *contents, const unsigned *masks,
       const unsigned *region_masks, unsigned long long cycles, const int *worlds,
       const unsigned long long *periods, int most_worlds, const int *starts,
       const int4 *visits, int capacity, const int *instance_of, int instances, double scale,
       double *seconds, unsigned long long *longest) {
    __shared__ Cycles powered_here[BITS * COMPONENTS];
    const Replay replay = {reinterpret_cast<const Write *>(writes), contents, masks,
                           Cycles(cycles)};
    const int entry = blockIdx.y;
    Cycles sums[BITS];
    Cycles *on = powered_here + threadIdx.x;
    if (!walk_worlds(replay, region_masks, worlds, periods, most_worlds, starts, visits, capacity,
                     blockIdx.x, entry, sums, on)) {
        return;  // its cells are as before, and the longest has been seen
    }
    const int instance = instance_of[blockIdx.x];
    double *zero = seconds + static_cast<long long>(instance) * CELLS +
                   entry * (BITS * COMPONENTS) + threadIdx.x;
    double *one = zero + static_cast<long long>(instances) * CELLS;
    double longest_zero = 0, longest_one = 0;
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) {
        const int cell = bit * COMPONENTS;
        // Rounded after each step, as in the reference.
        const double at_zero =
            __dadd_rn(zero[cell], __dmul_rn(double(on[cell] - sums[bit]), scale));
        const double at_one = __dadd_rn(one[cell], __dmul_rn(double(sums[bit]), scale));
        zero[cell] = at_zero;
        one[cell] = at_one;
        longest_zero = max(longest_zero, at_zero);
        longest_one = max(longest_one, at_one);
    }
    for (int distance = 16; distance; distance /= 2) {
        longest_zero = max(longest_zero, __shfl_xor_sync(EVERY_LANE, longest_zero, distance));
        longest_one = max(longest_one, __shfl_xor_sync(EVERY_LANE, longest_one, distance));
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(&longest[instance],
                  static_cast<unsigned long long>(__double_as_longlong(longest_zero)));
        atomicMax(&longest[instances + instance],
                  static_cast<unsigned long long>(__double_as_longlong(longest_one)));
    }
}
