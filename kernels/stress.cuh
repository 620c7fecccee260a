// What the kernels of stress times look at: residencies of a technique, and what has happened to the
// instances of a batch (`mcage/engines/cuda_engine/stress.py` makes both). And for how long a single bit
// of some components of an entry holds '1' and is powered in an epoch: sums of the residencies that
// lived there, or a walk through their writes where it matters what was there before.
//
// Constants: ENTRIES, ENTRY_COMPONENTS, BLOCK_COMPONENTS   the slice: entries, components of an entry
//                      and of a block; where there are fewer than 64, they are repeated until 64 are
//                      there, so that what holds for all of these holds for those that there are
//            GATED    a place is off once its value is gone; otherwise cells keep and stress it
//            RECORDS  compressed values are records of five bytes in one block
//            WIDE     cycles of a pass exceed 32 bits

constexpr int COMPONENTS = 64;
constexpr int BITS = 32;
constexpr int PLACES = ENTRIES * BITS;  // bits of entries
constexpr int CELLS = PLACES * COMPONENTS;
constexpr unsigned EVERY_CELL = 0xFFFFFFFFu;
constexpr unsigned CODE_CELLS = 0xFFu;
constexpr unsigned EVERY_LANE = 0xFFFFFFFFu;

// A code of the log: the residency if it has lived in the entry from its first write on, otherwise
// INCOMPLETE and the first write that came into the entry; and the block, or WHOLE.
constexpr unsigned NUMBER = 0x0FFFFFFFu;
constexpr int BLOCK_SHIFT = 28;
constexpr unsigned WHOLE = 4;
constexpr unsigned INCOMPLETE = 0x80000000u;

typedef unsigned long long Long;
#if WIDE
typedef unsigned long long Cycles;
#else
typedef unsigned int Cycles;
#endif

// `held`: cycles that its value counts. `form`: 16 x the row of `masks` (0: all cells) + the regions
// powered, or the complement of a record's code.
struct alignas(16) Write {
    Long held;
    int image, form;
};

// What one register writes into one home, from `start` to `end`: the writes from `first` to `last` - 1,
// which follow each other without a gap. `partial`: some write leaves cells as they were.
struct alignas(16) Residency {
    Long start, end;
    int first, last, partial, unused;
};

// Residencies of a technique on all kernels; the first `rows` of them have sums.
struct Residencies {
    const Write *writes;
    const unsigned *contents;     // [image][component]
    const unsigned *masks;        // [mask][component]
    const Long *write_cycle;      // [write] when it happens
    const int *residency_of;      // [write]
    const Residency *residencies;
    const Cycles *sums;           // [row][bit][component] cycles at '1'
    const Cycles *at_most;        // [residency][64] bits at '1', bits at '0'
    const unsigned *last;         // [residency][2] bits that are '1', '0' in the end
    long long rows, passes;
};

// An epoch of an instance. `powered`: for how many cycles the cells of an entry were on if all that
// lived there has sums and nothing else matters, -1 if not.
// A turn of an epoch in which several kernels run is one of its own here.
struct Epoch {
    const unsigned *codes;
    const int *starts;            // [entries x passes + 1]
    const long long *powered;     // [entry]
    double scale;                 // seconds that a cycle stands for
    Long cycles;                  // of a pass
};

// What has happened to the instances of a batch.
struct State {
    Epoch *epochs;                // [instance][most_epochs]
    int *epoch_count;             // [instance]
    double *mixtures;             // [instance][kernel] seconds before the first fault
    const double *duties;         // [2][kernel][entry][bit][component] at '0', at '1'
    const double *most_duties;    // [2][kernel][entry][bit] of any component
    double *bounds;               // [instance][2][entry][bit] seconds that no cell exceeds
    double *before;               // the same before the latest turns
    long long most_epochs, kernels;
};

__device__ __forceinline__ double duties_sum(const State &state, long long instance,
                                             const double *duty, long long stride) {
    const double *mixture = state.mixtures + instance * state.kernels;
    double total = 0;
    for (int kernel = 0; kernel < state.kernels; kernel++) {
        total = __dadd_rn(total, __dmul_rn(mixture[kernel], duty[kernel * stride]));
    }
    return total;
}

// Block of a component, and its place there.
__device__ __forceinline__ int block_of(int component) {
    return component % ENTRY_COMPONENTS / BLOCK_COMPONENTS;
}

__device__ __forceinline__ int within_block(int component) {
    return component % ENTRY_COMPONENTS % BLOCK_COMPONENTS;
}

// ---- the times of a cell in an epoch --------------------------------------------------------------

// Cycles at '1' and powered of the same bit of N components in a row.
template <int N>
struct Times {
    Long ones[N], powered[N];
};

// What a write does to a cell: its new bit, whether it is overwritten.
struct Change {
    bool bit, overwritten;
};

__device__ __forceinline__ Change change_of(const Residencies &residencies, const Write &write,
                                            int component, int bit) {
    if (RECORDS && write.form < 0) {
        const int within = within_block(component);
        const unsigned first = residencies.contents[static_cast<long long>(write.image) * COMPONENTS];
        const unsigned cells = within == 0 ? EVERY_CELL : within == 1 ? CODE_CELLS : 0;
        return {bool((within ? unsigned(~write.form) : first) >> bit & 1u), bool(cells >> bit & 1u)};
    }
    const unsigned content =
        residencies.contents[static_cast<long long>(write.image) * COMPONENTS + component];
    const int mask = write.form >> 4;
    const unsigned cells = mask ? residencies.masks[mask * COMPONENTS + component] : EVERY_CELL;
    return {bool(content >> bit & 1u), bool(cells >> bit & 1u)};
}

// An occupant of an entry, decoded.
struct Lodger {
    Residency residency;
    Long start;
    int first;
    const Cycles *sums;  // row of sums if they say what it shows, null if not
    bool touches;        // whether its writes touch these components; without gating, two of a record
};

__device__ __forceinline__ Lodger lodger_of(const Residencies &residencies, unsigned code,
                                            int component) {
    Lodger lodger;
    const unsigned block = code >> BLOCK_SHIFT & 7u;
    int number = code & NUMBER;
    if (code & INCOMPLETE) {
        lodger.first = number;
        lodger.start = residencies.write_cycle[number];
        number = residencies.residency_of[number];
        lodger.residency = residencies.residencies[number];
        lodger.sums = nullptr;
    } else {
        lodger.residency = residencies.residencies[number];
        lodger.first = lodger.residency.first;
        lodger.start = lodger.residency.start;
        const bool row = number < residencies.rows && block == WHOLE;
        lodger.sums = row ? residencies.sums + static_cast<long long>(number) * BITS * COMPONENTS
                          : nullptr;
    }
    lodger.touches = block == WHOLE ||
                     (block == block_of(component) && (GATED || within_block(component) < 2));
    return lodger;
}

// The times of cells in one pass: two laps through the occupants of their entry, as in `walk.cu`.
template <int N>
__device__ void walk(const Residencies &residencies, const unsigned *codes, int count, int component,
                     int bit, Long cycles, Times<N> &times) {
    bool content[N] = {}, written[N] = {};
    Long since = 0, on = 0;
    for (int i = 0; i < count; i++) {
        const Lodger lodger = lodger_of(residencies, codes[i], component);
        if (!lodger.touches) continue;
        Long now = lodger.start;
        if (lodger.sums) {
            const Write last = residencies.writes[lodger.residency.last - 1];
#pragma unroll
            for (int n = 0; n < N; n++) {
                if (!GATED && content[n]) times.ones[n] += now - since;
                times.ones[n] += lodger.sums[bit * COMPONENTS + component + n];
                content[n] = change_of(residencies, last, component + n, bit).bit;
                written[n] = true;
            }
            on += lodger.residency.end - now;
            since = lodger.residency.end;
            continue;
        }
        for (int w = lodger.first; w < lodger.residency.last; w++) {
            const Write write = residencies.writes[w];
#pragma unroll
            for (int n = 0; n < N; n++) {
                const Change change = change_of(residencies, write, component + n, bit);
                if (!GATED && content[n]) times.ones[n] += now - since;
                if (change.overwritten) content[n] = change.bit, written[n] = true;
                if (GATED && content[n]) times.ones[n] += write.held;
            }
            since = now;
            on += write.held;
            now += write.held;
        }
    }

    bool pending[N], waits = false;
#pragma unroll
    for (int n = 0; n < N; n++) {
        pending[n] = written[n];
        waits |= written[n];
        if (written[n]) times.powered[n] += GATED ? on : cycles;
    }
    for (int i = 0; i < count && waits; i++) {
        const Lodger lodger = lodger_of(residencies, codes[i], component);
        if (!lodger.touches) continue;
        Long now = lodger.start;
        for (int w = lodger.first; w < lodger.residency.last && waits; w++) {
            const Write write = residencies.writes[w];
            waits = false;
#pragma unroll
            for (int n = 0; n < N; n++) {
                if (!pending[n]) continue;
                const bool over = change_of(residencies, write, component + n, bit).overwritten;
                // From the last write to the end, and from the beginning until now.
                if (!GATED && over && content[n]) times.ones[n] += cycles - since + now;
                if (GATED && !over && content[n]) times.ones[n] += write.held;
                pending[n] = !over;
                waits |= !over;
            }
            now += write.held;
        }
    }
}

// Cycles at '0' and at '1' of the same bit of N components of an entry in an epoch.
template <int N>
__device__ __forceinline__ Times<N> times_in(const Residencies &residencies, const Epoch &epoch,
                                             int entry, int component, int bit) {
    Times<N> times = {};
    const int passes = int(residencies.passes);
    const int *starts = epoch.starts + entry * passes;
    const long long powered = GATED ? epoch.powered[entry] : -1;
    if (powered >= 0) {
        const Cycles *sums = residencies.sums + bit * COMPONENTS + component;
        const int end = starts[passes];
#pragma unroll 4
        for (int i = starts[0]; i < end; i++) {
            const long long row = epoch.codes[i] & NUMBER;
#pragma unroll
            for (int n = 0; n < N; n++) times.ones[n] += sums[row * BITS * COMPONENTS + n];
        }
#pragma unroll
        for (int n = 0; n < N; n++) times.powered[n] = static_cast<Long>(powered);
        return times;
    }
    for (int pass = 0; pass < passes; pass++) {
        walk<N>(residencies, epoch.codes + starts[pass], starts[pass + 1] - starts[pass], component,
                bit, epoch.cycles, times);
    }
    return times;
}
