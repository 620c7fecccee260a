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
//            WIDE     cycles of all passes together exceed 32 bits

#include "warp.cuh"

constexpr int COMPONENTS = 64;
constexpr int BITS = 32;
constexpr int PLACES = ENTRIES * BITS;  // bits of entries
constexpr int CELLS = PLACES * COMPONENTS;
constexpr int BLOCKS = ENTRY_COMPONENTS / BLOCK_COMPONENTS;  // of an entry
constexpr int BLOCKS_OF_SLICE = ENTRIES * BLOCKS;
constexpr unsigned EVERY_CELL = 0xFFFFFFFFu;
constexpr unsigned CODE_CELLS = 0xFFu;

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
    const Cycles *sums;           // [row][bit][component] cycles at '1'; a kernel's follow each other
    const Cycles *record_sums;    // [residency][bit][2] of components 0 and 1, which a record has
    const Cycles *at_most;        // [residency][64] bits at '1', bits at '0'
    const unsigned *last;         // [residency][2] bits that are '1', '0' in the end
    const int *first_rows;        // [kernel + 1] where its sums begin, in order of time
    long long rows, passes;
};

// Cell times of a kernel in places that slices share (`SharedPlaces` of mcage/replays/outcome.py), which
// are the blocks of a slice of its own. `faulty`: of the entries of that, the first ones.
struct SharedTimes {
    const Cycles *ones, *powered;  // [place][bit][component of a block]
    const Cycles *most;            // [2][place][bit] at '0' and at '1' of any component
    Long faulty;
};

// An epoch of an instance. `powered`: for how many cycles the cells of an entry were on if all that
// lived there has sums and nothing else matters, -1 if not.
// A turn of an epoch in which several kernels run is one of its own here.
struct Epoch {
    const unsigned *codes;        // of an entry pass after pass; of one that sums tell all of, by number
    const int *starts;            // [entries x passes + 1]
    const long long *powered;     // [entry]
    double scale;                 // seconds that a cycle stands for
    Long cycles;                  // of a pass
    const SharedTimes *shared;    // if it is one in shared places: then there are no codes
    const short *like;            // [block of the slice] the shared place that it is like, or -1
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
    int *kept;                    // [instance][entry][bit] where seconds are kept, or -1
    double *seconds;              // [kept][component][2] at '0', at '1'
    int *epochs_kept;             // [kept] epochs that are in them
    int *used;                    // [1] of those places
    long long most_epochs, kernels, most_kept;
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

// ---- the times of cells in an epoch ---------------------------------------------------------------
//
// A warp looks at all components of a bit of an entry, a lane at two in a row. What is the same for all
// of them, its lanes load side by side, 32 occupants at once, and tell each other; what differs comes a
// few at once. One after the other, most of the time would be spent waiting.

constexpr int TOGETHER = WIDE ? 2 : 4;  // occupants whose words come at once: divides 32

// Cycles at '1' and powered of the same bit of two components in a row.
struct Times {
    Long ones[2], powered[2];
};

// Two components in a row, the first of them even.
struct alignas(2 * sizeof(Cycles)) TwoCycles {
    Cycles of[2];
};

struct alignas(8) TwoWords {
    unsigned of[2];
};

__device__ __forceinline__ TwoCycles two_sums(const Residencies &residencies, long long row, int bit,
                                              int component) {
    const Cycles *sums = residencies.sums + (row * BITS + bit) * COMPONENTS + component;
    return *reinterpret_cast<const TwoCycles *>(sums);
}

__device__ __forceinline__ TwoWords two_words(const unsigned *words, long long row, int component) {
    return *reinterpret_cast<const TwoWords *>(words + row * COMPONENTS + component);
}

__device__ __forceinline__ bool is_record(int form) { return RECORDS && form < 0; }

// Cells of a component that a record overwrites in its block.
__device__ __forceinline__ unsigned cells_of_record(int component) {
    const int within = within_block(component);
    return within == 0 ? EVERY_CELL : within == 1 ? CODE_CELLS : 0;
}

// Cells of a component that a write overwrites.
__device__ __forceinline__ unsigned overwritten_by(const Residencies &residencies, int form,
                                                   int component) {
    if (is_record(form)) return cells_of_record(component);
    const int mask = form >> 4;
    return mask ? residencies.masks[mask * COMPONENTS + component] : EVERY_CELL;
}

// What tells what an occupant shows: sums, the image of its only write, sums of a record, or all of
// its writes, one after the other.
enum Kind { BY_SUMS, BY_IMAGE, BY_RECORD, BY_WRITES };

// An occupant of an entry, as one lane decodes it.
struct Lodger {
    Long start, end;
    int first, last;  // writes
    int number;       // of the residency
    int image, form;  // of the last write, unless all are looked at
    unsigned block;
    Kind kind;
};

__device__ __forceinline__ Lodger lodger_of(const Residencies &residencies, unsigned code) {
    const int named = code & NUMBER;
    const bool complete = !(code & INCOMPLETE);
    Lodger lodger = {};
    lodger.number = complete ? named : residencies.residency_of[named];
    const Residency residency = residencies.residencies[lodger.number];
    lodger.start = complete ? residency.start : residencies.write_cycle[named];
    lodger.end = residency.end;
    lodger.first = complete ? residency.first : named;
    lodger.last = residency.last;
    lodger.block = code >> BLOCK_SHIFT & 7u;
    lodger.kind = BY_WRITES;
    if (!complete || residency.partial) return lodger;
    const Write write = residencies.writes[residency.last - 1];
    lodger.image = write.image;
    lodger.form = write.form;
    if (is_record(write.form)) {
        lodger.kind = BY_RECORD;
    } else if (lodger.block == WHOLE && lodger.number < residencies.rows) {
        lodger.kind = BY_SUMS;
    } else if (lodger.block == WHOLE && lodger.last - lodger.first == 1) {
        lodger.kind = BY_IMAGE;
    }
    return lodger;
}

// Whether the writes of an occupant touch a component; without gating, a record touches two.
__device__ __forceinline__ bool touched_by(unsigned block, int component) {
    return block == WHOLE || (block == unsigned(block_of(component)) &&
                              (GATED || within_block(component) < 2));
}

// What two components of an entry have seen of a pass.
struct Seen {
    bool content[2], written[2];
    Long since, on;
};

// Show an occupant of any kind but BY_WRITES: its sums, and what its last write leaves.
__device__ __forceinline__ void show(Seen &seen, Times &times, const Lodger &lodger,
                                     const TwoCycles &sums, const TwoWords &left, int component,
                                     int bit) {
    const Long lasts = lodger.end - lodger.start;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const bool record = RECORDS && lodger.kind == BY_RECORD;
        const unsigned word = !record ? left.of[n] : n ? unsigned(~lodger.form) : left.of[0];
        const bool over = !record || (cells_of_record(component + n) >> bit & 1u);
        const bool content = word >> bit & 1u;
        if (!GATED && seen.content[n]) times.ones[n] += lodger.start - seen.since;
        if (over) {
            times.ones[n] += lodger.kind == BY_IMAGE ? (content ? lasts : 0) : Long(sums.of[n]);
            seen.content[n] = content;
            seen.written[n] = true;
        } else if (seen.content[n]) {
            times.ones[n] += lasts;
        }
    }
    seen.on += lasts;
    seen.since = lodger.end;
}

// Show an occupant write after write.
__device__ void show_writes(Seen &seen, Times &times, const Residencies &residencies,
                            const Lodger &lodger, int component, int bit) {
    Long now = lodger.start;
    for (int w = lodger.first; w < lodger.last; w++) {
        const Write write = residencies.writes[w];
        const bool record = is_record(write.form);
        const TwoWords content =
            two_words(residencies.contents, write.image, record ? 0 : component);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const unsigned word = !record ? content.of[n] : n ? unsigned(~write.form) : content.of[0];
            const bool over = overwritten_by(residencies, write.form, component + n) >> bit & 1u;
            if (!GATED && seen.content[n]) times.ones[n] += now - seen.since;
            if (over) seen.content[n] = word >> bit & 1u, seen.written[n] = true;
            if (GATED && seen.content[n]) times.ones[n] += write.held;
        }
        seen.since = now;
        seen.on += write.held;
        now += write.held;
    }
}

__device__ __forceinline__ Lodger told_by(const Lodger &own, int lane) {
    Lodger lodger = {};
    lodger.start = __shfl_sync(EVERY_LANE, own.start, lane);
    lodger.end = __shfl_sync(EVERY_LANE, own.end, lane);
    lodger.first = __shfl_sync(EVERY_LANE, own.first, lane);
    lodger.last = __shfl_sync(EVERY_LANE, own.last, lane);
    lodger.form = __shfl_sync(EVERY_LANE, own.form, lane);
    const int both = __shfl_sync(EVERY_LANE, int(own.block * 4 + own.kind), lane);
    lodger.block = both / 4;
    lodger.kind = Kind(both % 4);
    return lodger;
}

// The times of cells in one pass: two laps through the occupants of their entry, as in `walk.cu`.
__device__ void walk(const Residencies &residencies, const unsigned *codes, int count, int component,
                     int bit, Long cycles, Times &times) {
    const int lane = threadIdx.x % 32;
    Seen seen = {{false, false}, {false, false}, 0, 0};
    for (int many = 0; many < count; many += 32) {
        const int here = min(32, count - many);
        Lodger own = {};
        if (lane < here) own = lodger_of(residencies, codes[many + lane]);
        const int sums_of = own.kind == BY_RECORD ? -1 - own.number
                            : own.kind == BY_SUMS ? own.number
                                                  : 0;
        for (int few = 0; few < here; few += TOGETHER) {
            TwoCycles sums[TOGETHER];
            TwoWords left[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                const long long row = __shfl_sync(EVERY_LANE, sums_of, few + k);
                const int image = __shfl_sync(EVERY_LANE, own.image, few + k);
                const bool record = RECORDS && row < 0;
                const Cycles *at = residencies.sums + (row * BITS + bit) * COMPONENTS + component;
                if (record) at = residencies.record_sums + ((-1 - row) * BITS + bit) * 2;
                sums[k] = *reinterpret_cast<const TwoCycles *>(at);
                left[k] = two_words(residencies.contents, image, record ? 0 : component);
            }
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                if (few + k >= here) break;
                const Lodger lodger = told_by(own, few + k);
                if (!touched_by(lodger.block, component)) continue;
                if (lodger.kind != BY_WRITES) {
                    show(seen, times, lodger, sums[k], left[k], component, bit);
                } else {
                    show_writes(seen, times, residencies, lodger, component, bit);
                }
            }
        }
    }

    bool pending[2], waits = false;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        pending[n] = seen.written[n];
        waits |= seen.written[n];
        if (seen.written[n]) times.powered[n] += GATED ? seen.on : cycles;
    }
    for (int many = 0; many < count && __any_sync(EVERY_LANE, waits); many += 32) {
        const int here = min(32, count - many);
        Lodger own = {};
        if (lane < here) own = lodger_of(residencies, codes[many + lane]);
        for (int j = 0; j < here && __any_sync(EVERY_LANE, waits); j++) {
            const Lodger lodger = told_by(own, j);
            if (!waits || !touched_by(lodger.block, component)) continue;
            Long now = lodger.start;
            for (int w = lodger.first; w < lodger.last && waits; w++) {
                const Write write = residencies.writes[w];
                waits = false;
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    if (!pending[n]) continue;
                    const bool over =
                        overwritten_by(residencies, write.form, component + n) >> bit & 1u;
                    // From the last write to the end, and from the beginning until now.
                    if (!GATED && over && seen.content[n]) times.ones[n] += cycles - seen.since + now;
                    if (GATED && !over && seen.content[n]) times.ones[n] += write.held;
                    pending[n] = !over;
                    waits |= !over;
                }
                now += write.held;
            }
        }
    }
}

// The times of cells of an entry all of whose occupants have sums, and where nothing else matters.
__device__ __forceinline__ Times times_by_sums(const Residencies &residencies, const Epoch &epoch,
                                               int entry, int component, int bit) {
    Times times = {};
    const int lane = threadIdx.x % 32, passes = int(residencies.passes);
    const int *starts = epoch.starts + entry * passes;
    const int end = starts[passes];
    for (int many = starts[0]; many < end; many += 32) {
        const int here = min(32, end - many);
        const unsigned own = lane < here ? epoch.codes[many + lane] & NUMBER : 0;
#pragma unroll 8
        for (int j = 0; j < here; j++) {
            const long long row = __shfl_sync(EVERY_LANE, own, j);
            const TwoCycles sums = two_sums(residencies, row, bit, component);
#pragma unroll
            for (int n = 0; n < 2; n++) times.ones[n] += sums.of[n];
        }
    }
#pragma unroll
    for (int n = 0; n < 2; n++) times.powered[n] = static_cast<Long>(epoch.powered[entry]);
    return times;
}

// Where the cycles of a bit of a component begin in shared times, those of the next component next to
// them; -1 if nothing lives there.
__device__ __forceinline__ long long in_shared_times(const Epoch &epoch, int entry, int component,
                                                     int bit) {
    const long long like = epoch.like[entry * BLOCKS + block_of(component)];
    return like < 0 ? -1 : (like * BITS + bit) * BLOCK_COMPONENTS + within_block(component);
}

// Cycles at '0' and at '1' of a bit of an entry in an epoch: of two components for each lane of a warp.
__device__ __forceinline__ Times times_in(const Residencies &residencies, const Epoch &epoch, int entry,
                                          int component, int bit) {
    Times times = {};
    if (epoch.shared) {
        const long long at = in_shared_times(epoch, entry, component, bit);
        if (at < 0) return times;
#pragma unroll
        for (int n = 0; n < 2; n++) {
            times.ones[n] = epoch.shared->ones[at + n];
            times.powered[n] = epoch.shared->powered[at + n];
        }
        return times;
    }
    if (GATED && epoch.powered[entry] >= 0) {
        return times_by_sums(residencies, epoch, entry, component, bit);
    }
    const int passes = int(residencies.passes);
    const int *starts = epoch.starts + entry * passes;
    for (int pass = 0; pass < passes; pass++) {
        walk(residencies, epoch.codes + starts[pass], starts[pass + 1] - starts[pass], component, bit,
             epoch.cycles, times);
    }
    return times;
}
