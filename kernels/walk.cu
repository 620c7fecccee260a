// How long every cell holds '1' and is powered: a walk through the writes that land in an entry,
// the sums of its cells in registers. The reference is mcage/engines/numpy_engine/cell_times.py.
//
// A block is an entry of a slice, a thread a component of it: a word of content, and 32 sums of
// cycles at '1'. An entry has several orbits: passes from different starting points, which do not
// see each other. Each is cyclic: its first write meets what its last write left. So a walk has two
// laps. The first starts with nothing in the cells; the second goes through the writes again,
// until each cell that is ever written has been, and adds the time during which it held what was
// left to it.
//
// Slices of a launch may run different kernels of the workload.
//
// Constants: ENTRIES, ENTRY_COMPONENTS, BLOCK_COMPONENTS   the slice, as in `stress.cuh`
//            GATED    a place is off once its value is gone; otherwise cells keep and stress it
//            RECORDS  compressed values are records of five bytes in one block
//            REGIONS  an entry is powered by byte ranges, the four rows of `region_masks`
//            WIDE     cycles of all orbits together exceed 32 bits

constexpr int COMPONENTS = 64;
constexpr int BITS = 32;
constexpr unsigned EVERY_CELL = 0xFFFFFFFFu;
constexpr unsigned CODE_CELLS = 0xFFu;
constexpr unsigned EVERY_LANE = 0xFFFFFFFFu;

#if WIDE
typedef unsigned long long Cycles;
constexpr int BLOCKS_OF_MULTIPROCESSOR = 6;  // as registers allow
#else
typedef unsigned int Cycles;
constexpr int BLOCKS_OF_MULTIPROCESSOR = 8;
#endif

struct alignas(16) Occupant {
    int first, end, block, turn;
};

// `time`: for how long the value holds if GATED, otherwise when it is written. `form`: 16 x the
// row of `masks` (0: all cells) + the regions powered, or the complement of a record's code.
struct alignas(16) Write {
    unsigned long long time;
    int image, form;
};

// Tables of a kernel of the workload.
struct Tables {
    const int4 *writes;
    const unsigned *contents, *masks;
    const unsigned *region_masks;       // [4][component]
    const int *orbits;                  // [entry] orbits of an entry
    const unsigned long long *periods;  // [entry] cycles of each of them
    unsigned long long cycles;          // of one pass
};

// A slice of the launch: the kernel that it runs, and the place of its occupants, `capacity` for each
// orbit.
struct alignas(16) Run {
    long long first_occupant;
    int kernel, capacity;
};

// What a walk looks at.
struct Replay {
    const int4 *writes;        // each a Write
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

// What a component's cells have held so far. Adding a word takes an instruction or more for each of
// its bits; so words wait in a queue for others, to be added four at a time.
struct Sums {
    Cycles of[BITS];
    unsigned *queue;  // this thread's column in shared memory: words, then cycles
    int queued;
};
constexpr int QUEUE = 4;

// Some cells hold '1' for some cycles.
__device__ __forceinline__ void add(Sums &sums, unsigned cells, Cycles cycles) {
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) {
        if (cells >> bit & 1u) sums.of[bit] += cycles;
    }
}

// Add four words, each for the cycles in 16 bits of `first` or `second`.
//
// One byte of each word, side by side; then one bit of each byte: four factors of 0 or 1 for the
// cycles of one cell, and two products a time.
template <int SHIFT>
__device__ __forceinline__ void add_products(Sums &sums, const unsigned (&word)[QUEUE],
                                             unsigned first, unsigned second) {
    const unsigned low01 = __byte_perm(word[0], word[1], 0x5140);
    const unsigned low23 = __byte_perm(word[2], word[3], 0x5140);
    const unsigned high01 = __byte_perm(word[0], word[1], 0x7362);
    const unsigned high23 = __byte_perm(word[2], word[3], 0x7362);
    const unsigned bytes[4] = {
        __byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632),
        __byte_perm(high01, high23, 0x5410), __byte_perm(high01, high23, 0x7632)};
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) {
        const unsigned bits = bytes[bit / 8] >> bit % 8 & 0x01010101u;
        if (SHIFT == 0) {
            sums.of[bit] = __dp2a_hi(second, bits, __dp2a_lo(first, bits, sums.of[bit]));
        } else {
            sums.of[bit] += __dp2a_hi(second, bits, __dp2a_lo(first, bits, 0u)) << SHIFT;
        }
    }
}

__device__ __forceinline__ void empty_queue(Sums &sums) {
    unsigned word[QUEUE], cycles[QUEUE];
#pragma unroll
    for (int i = 0; i < QUEUE; i++) {
        word[i] = sums.queue[i * COMPONENTS];
        cycles[i] = i < sums.queued ? sums.queue[(QUEUE + i) * COMPONENTS] : 0;
    }
    add_products<0>(sums, word, __byte_perm(cycles[0], cycles[1], 0x5410),
                    __byte_perm(cycles[2], cycles[3], 0x5410));
    const unsigned first = __byte_perm(cycles[0], cycles[1], 0x7632);
    const unsigned second = __byte_perm(cycles[2], cycles[3], 0x7632);
    if (first | second) add_products<16>(sums, word, first, second);
    sums.queued = 0;
}

// As `add`, in the end; all lanes of a warp together, each for itself if it `takes_part`.
__device__ __forceinline__ void enqueue(Sums &sums, bool takes_part, unsigned cells,
                                        Cycles cycles) {
#if WIDE
    if (takes_part) add(sums, cells, cycles);
#else
    if (takes_part) {
        sums.queue[sums.queued * COMPONENTS] = cells;
        sums.queue[(QUEUE + sums.queued) * COMPONENTS] = cycles;
        sums.queued++;
    }
    const bool full = sums.queued == QUEUE;
    if (RECORDS ? __any_sync(EVERY_LANE, full) : full) empty_queue(sums);
#endif
}

__device__ __forceinline__ int within_block(int component) {
    return component % ENTRY_COMPONENTS % BLOCK_COMPONENTS;
}

__device__ __forceinline__ unsigned content_of(const Replay &replay, const Write &write,
                                               int component) {
    // A record is its image's first component, then its code.
    if (RECORDS && write.form < 0) component = 0;
    return __ldg(replay.contents + static_cast<long long>(write.image) * COMPONENTS + component);
}

__device__ __forceinline__ Change change_of(const Replay &replay, const Component &component,
                                            const Write &write, unsigned content) {
    if (RECORDS && write.form < 0) {
        switch (within_block(component.number)) {
            case 0: return {content, EVERY_CELL, EVERY_CELL};
            case 1: return {unsigned(~write.form), CODE_CELLS, EVERY_CELL};
            default: return {0, 0, EVERY_CELL};
        }
    }
    Change change = {content, EVERY_CELL, EVERY_CELL};
    const int mask = write.form >> 4;
    if (mask) change.cells = __ldg(replay.masks + mask * COMPONENTS + component.number);
    if (REGIONS) {
        change.lit = 0;
#pragma unroll
        for (int region = 0; region < 4; region++) {
            if (write.form >> region & 1) change.lit |= component.regions[region];
        }
    }
    return change;
}

// Tables are read through the read-only cache.
__device__ __forceinline__ Write write_of(const Replay &replay, int number) {
    const int4 loaded = __ldg(replay.writes + number);
    const unsigned long long high = static_cast<unsigned>(loaded.y);
    return {high << 32 | static_cast<unsigned>(loaded.x), loaded.z, loaded.w};
}

// Whether the writes of an occupant touch a component. Without gating, a record touches two.
__device__ __forceinline__ bool touches(const Occupant &occupant, int component) {
    if (!RECORDS || occupant.block < 0) return true;
    return occupant.block == component % ENTRY_COMPONENTS / BLOCK_COMPONENTS &&
           (GATED || within_block(component) < 2);
}

__device__ __forceinline__ Cycles when(const Replay &replay, const Occupant &occupant,
                                       const Write &write) {
    return Cycles(write.time) + occupant.turn * replay.cycles;
}

// Walk through the occupants of an orbit. `powered`: this thread's column of 32 sums in shared
// memory, every COMPONENTS-th number.
__device__ __forceinline__ void walk(const Replay &replay, const Component &component,
                                     const Occupant *occupants, int count, Cycles period,
                                     Sums &sums, Cycles *powered) {
    unsigned content = 0, written = 0;
    Cycles since = 0;
    Cycles on[4] = {0, 0, 0, 0};  // cycles for which each region is powered; [0] without REGIONS

    for (int v = 0; v < count; v++) {
        const Occupant occupant = occupants[v];
        const bool touched_here = touches(occupant, component.number);
        if (!(WIDE || !RECORDS ? touched_here : __any_sync(EVERY_LANE, touched_here))) continue;
        Write next = write_of(replay, occupant.first);
        unsigned next_content = content_of(replay, next, component.number);
        for (int i = occupant.first; i < occupant.end; i++) {
            const Write write = next;
            const Change change = change_of(replay, component, write, next_content);
            next = write_of(replay, min(i + 1, occupant.end - 1));
            next_content = content_of(replay, next, component.number);
            const unsigned changed = (content & ~change.cells) | (change.content & change.cells);
            if (GATED) {
                if (touched_here) content = changed;
                enqueue(sums, touched_here, content & change.lit, Cycles(write.time));
#pragma unroll
                for (int region = 0; region < (REGIONS ? 4 : 1); region++) {
                    if (touched_here && (!REGIONS || write.form >> region & 1)) {
                        on[region] += Cycles(write.time);
                    }
                }
            } else {
                const Cycles now = when(replay, occupant, write);
                enqueue(sums, touched_here, content, now - since);
                if (touched_here) content = changed, since = now;
            }
            if (touched_here) written |= change.cells;
        }
    }
    if (!GATED) on[0] = period;

    unsigned pending = written;
    for (int v = 0; v < count && pending; v++) {
        const Occupant occupant = occupants[v];
        if (!touches(occupant, component.number)) continue;
        for (int i = occupant.first; i < occupant.end && pending; i++) {
            const Write write = write_of(replay, i);
            const Change change = change_of(replay, component, write, 0);
            if (GATED) {
                pending &= ~change.cells;
                if (pending) add(sums, content & pending & change.lit, Cycles(write.time));
            } else {
                // From the last write to the end, and from the beginning until now.
                const unsigned touched = pending & change.cells;
                const Cycles held = period - since + when(replay, occupant, write);
                if (touched) add(sums, content & touched, held);
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
    __syncwarp();  // also keeps the compiler from holding the column in registers
}

// Walk through all orbits of the block's entry. `first`: where the occupants of the first orbit are.
//
// starts[orbit][entries + 1]  first occupant of each entry in an orbit
__device__ __forceinline__ void walk_orbits(const Tables &tables, const Replay &replay,
                                            const int *starts, const Occupant *occupants,
                                            int capacity, int entry, Sums &sums,
                                            Cycles *powered) {
    Component component = {int(threadIdx.x), {0, 0, 0, 0}};
    if (REGIONS) {
#pragma unroll
        for (int region = 0; region < 4; region++) {
            component.regions[region] =
                __ldg(tables.region_masks + region * COMPONENTS + component.number);
        }
    }
    for (int bit = 0; bit < BITS; bit++) powered[bit * COMPONENTS] = 0;
    const int orbits = __ldg(tables.orbits + entry);
    const Cycles period = Cycles(__ldg(tables.periods + entry));
    for (int orbit = 0; orbit < orbits; orbit++) {
        const int *start = starts + orbit * (ENTRIES + 1) + entry;
        if (start[0] == start[1]) continue;
        walk(replay, component, occupants + static_cast<long long>(orbit) * capacity + start[0],
             start[1] - start[0], period, sums, powered);
    }
    if (sums.queued) empty_queue(sums);
}

// Sums leave their registers for the thread's column of shared memory, where a loop reaches them.
__device__ __forceinline__ void store(const Sums &sums, Cycles *column) {
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) column[bit * COMPONENTS] = sums.of[bit];
}

// The columns of all threads, component by component, to the cells of an entry.
__device__ __forceinline__ void hand_over(const Cycles *columns, unsigned long long *cells) {
    __syncthreads();
#pragma unroll 4
    for (int cell = threadIdx.x; cell < BITS * COMPONENTS; cell += COMPONENTS) {
        cells[cell] = columns[cell % BITS * COMPONENTS + cell / BITS];
    }
    __syncthreads();
}

// Cycles at '1' and powered of all cells of slices, each of which runs any kernel.
//
// tables[], runs[slice]                tables, and which of them a slice needs; its occupants
// starts[slice][orbit][entries + 1]            first occupant of each entry; there are `most_orbits` of them
// ones, powered [slice][entry][2048]   results
extern "C" __global__ void __launch_bounds__(COMPONENTS, BLOCKS_OF_MULTIPROCESSOR)
cell_times(const Tables *__restrict__ tables, const Run *__restrict__ runs, int most_orbits,
           const int *__restrict__ starts, const Occupant *__restrict__ occupants,
           unsigned long long *ones, unsigned long long *powered) {
    __shared__ Cycles columns[BITS * COMPONENTS];
    __shared__ unsigned queue[2 * QUEUE * COMPONENTS];
    const long long slice = blockIdx.x;
    const int entry = blockIdx.y;
    const Run run = runs[slice];
    const Tables of_slice = tables[run.kernel];
    const Replay replay = {of_slice.writes, of_slice.contents, of_slice.masks,
                           Cycles(of_slice.cycles)};
    Cycles *column = columns + threadIdx.x;
    Sums sums = {{}, queue + threadIdx.x, 0};
    walk_orbits(of_slice, replay, starts + slice * most_orbits * (ENTRIES + 1),
                occupants + run.first_occupant, run.capacity, entry, sums, column);
    const long long first = (slice * ENTRIES + entry) * BITS * COMPONENTS;
    hand_over(columns, powered + first);
    store(sums, column);
    hand_over(columns, ones + first);
}
