// What the kernels of stress times look at: residencies of a technique, and what has happened to the
// instances of a batch. `mcage/engines/cuda_engine/stress/` makes both.
//
// Constants: WIDE  cycles of a pass exceed 32 bits

constexpr int ENTRIES = 256;
constexpr int COMPONENTS = 64;
constexpr int BITS = 32;
constexpr int PLACES = ENTRIES * BITS;  // bits of entries
constexpr int CELLS = PLACES * COMPONENTS;
constexpr int BLOCK_COMPONENTS = 16;
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
struct Epoch {
    const unsigned *codes;
    const int *starts;            // [256 x passes + 1]
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
    double *before;               // the same before the latest epoch
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
