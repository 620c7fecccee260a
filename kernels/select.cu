// The selectors of redirection: a home for every register of a pass (Toca-Diaz et al., RRCD,
// section IV). The reference is mcage/engines/numpy_engine/redirection.py.
//
// One warp is one slice in one pass. The free blocks of 256 entries x 4 blocks are 32 bits in each
// of 32 lanes: lane l has entries 8 l ... 8 l + 7; of other slices, too, each lane has a 32nd of the
// entries, and as many words as it has blocks for. A priority encoder is then a ballot (which lane
// is the first to have a candidate), a find-first-set and a shuffle; it goes round all entries, from
// the start of the scan to the last and on from the first. Homes of rows lie in shared memory. Slices
// of a launch may run different kernels.
//
// A register moves only when its compression state changes, unless it is spilled: it is enough to
// look at the first write of each residency, and if anything spills, once more at every write.
//
// Operations depend on each other, so that what counts is the time of a single one. A warp takes 32
// operations at a time: each lane loads one, with the home that its row has, and a single shuffle
// tells all lanes of both, while the operation before still looks for a home. What does not decide
// the next home waits until the 32 are done and is then the work of all lanes: events, ranks, and the
// list of arrivals.
//
// GR-Guard (section VI.B) is the same machine: a residency is the life of a value, and every row
// prefers the entry of its number.
//
// Constants: ENTRIES, BLOCKS   of a slice, and of an entry
//            ROW_BITS  bits of a row in the word of an operation: 8 or 11
//            TABLE     compressed values live in the compression table, not in a block
//            ROTATING  the scan starts one entry further with every window
//            WAKES     count the writes that wake an entry up
//            BORROWS   rows have entries of their own, and values die

constexpr int LANES = 32;
constexpr int ENTRIES_OF_LANE = ENTRIES / LANES;
constexpr int BLOCKS_OF_LANE = ENTRIES_OF_LANE * BLOCKS;
constexpr int WARPS = 4;  // of a thread block
constexpr int WORD_BITS = 32;
constexpr int WORDS = (BLOCKS_OF_LANE + WORD_BITS - 1) / WORD_BITS;  // of a lane's blocks
constexpr int BLOCKS_OF_MULTIPROCESSOR = WORDS == 1 ? 6 : 4;         // as registers allow
constexpr unsigned EVERY_LANE = 0xFFFFFFFFu;
constexpr unsigned EVERY_BLOCK = (1u << BLOCKS) - 1;
// Block 0 of each entry of a word; those beyond a lane's blocks are never free. No entry lies in two.
constexpr unsigned FIRST_BLOCKS = 0xFFFFFFFFu / EVERY_BLOCK;

// Those blocks of a word that belong to entries all of whose blocks are in it.
__device__ __forceinline__ unsigned whole_entries(unsigned word) {
    if (BLOCKS > 1) word &= word >> 1;
    if (BLOCKS > 2) word &= word >> 2;
    return (word & FIRST_BLOCKS) * EVERY_BLOCK;
}

// A set of a lane's blocks: a word, or several, with the same operations.
#if ENTRIES * BLOCKS <= 1024
typedef unsigned Blocks;
__device__ __forceinline__ bool any(Blocks blocks) { return blocks != 0; }
__device__ __forceinline__ Blocks some_from(unsigned some, int first) { return some << first; }
__device__ __forceinline__ Blocks all_from(int first) { return ~0u << first; }
__device__ __forceinline__ int lowest(Blocks blocks) { return __ffs(blocks) - 1; }
__device__ __forceinline__ Blocks empty_entries(Blocks free) { return whole_entries(free); }
__device__ __forceinline__ Blocks of_lane(Blocks blocks, int lane) {
    return __shfl_sync(EVERY_LANE, blocks, lane);
}
__device__ __forceinline__ void include(Blocks &shared, Blocks blocks) { atomicOr(&shared, blocks); }
#else
struct Blocks {
    unsigned words[WORDS];
};

template <typename OfWord>
__device__ __forceinline__ Blocks made_of(OfWord of_word) {
    Blocks blocks;
#pragma unroll
    for (int w = 0; w < WORDS; w++) blocks.words[w] = of_word(w);
    return blocks;
}

__device__ __forceinline__ Blocks operator&(const Blocks &one, const Blocks &other) {
    return made_of([&](int w) { return one.words[w] & other.words[w]; });
}

__device__ __forceinline__ Blocks operator~(const Blocks &blocks) {
    return made_of([&](int w) { return ~blocks.words[w]; });
}

__device__ __forceinline__ void operator|=(Blocks &blocks, const Blocks &others) {
    blocks = made_of([&](int w) { return blocks.words[w] | others.words[w]; });
}

__device__ __forceinline__ void operator&=(Blocks &blocks, const Blocks &others) {
    blocks = blocks & others;
}

__device__ __forceinline__ bool any(const Blocks &blocks) {
    unsigned some = 0;
#pragma unroll
    for (int w = 0; w < WORDS; w++) some |= blocks.words[w];
    return some != 0;
}

// Blocks of one entry, of which `some` counts from number `first` on.
__device__ __forceinline__ Blocks some_from(unsigned some, int first) {
    return made_of([&](int w) { return first / WORD_BITS == w ? some << first % WORD_BITS : 0u; });
}

__device__ __forceinline__ Blocks all_from(int first) {
    return made_of([&](int w) {
        const unsigned in_word = first / WORD_BITS == w ? ~0u << first % WORD_BITS : 0u;
        return first / WORD_BITS < w ? ~0u : in_word;
    });
}

__device__ __forceinline__ int lowest(const Blocks &blocks) {
    int number = -1;
#pragma unroll
    for (int w = WORDS - 1; w >= 0; w--) {
        if (blocks.words[w]) number = WORD_BITS * w + __ffs(blocks.words[w]) - 1;
    }
    return number;
}

__device__ __forceinline__ Blocks empty_entries(const Blocks &free) {
    return made_of([&](int w) { return whole_entries(free.words[w]); });
}

__device__ __forceinline__ Blocks of_lane(const Blocks &blocks, int lane) {
    return made_of([&](int w) { return __shfl_sync(EVERY_LANE, blocks.words[w], lane); });
}

__device__ __forceinline__ void include(Blocks &shared, const Blocks &blocks) {
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
        if (blocks.words[w]) atomicOr(&shared.words[w], blocks.words[w]);
    }
}
#endif

// A home is 2 x block for a compressed value, 2 x block + 1 for the entry that begins with the block;
// the blocks of the slice are numbered through. What follows is no place.
//
// An operation's word, from its lowest bit on: 2 bits for the kind; 3 for the flags of a write; the
// row, the first of a release; the last row of a release, or under ROTATING the windows before a
// write, modulo the entries; and the home of the row, which the kernel puts there. Where rows have 8
// bits and no entry begins with the blocks 1 to 3 or 5, 32 bits are enough for all.
#if ROW_BITS == 8
typedef unsigned Word;
constexpr unsigned NOWHERE = 3, IN_LDS = 5, IN_TABLE = 7, IN_MEMORY = 11;
__device__ __forceinline__ bool is_place(unsigned home) { return !(home & 1 && home & 6); }
#else
typedef unsigned long long Word;
constexpr unsigned NOWHERE = 2 * ENTRIES * BLOCKS;
constexpr unsigned IN_LDS = NOWHERE + 1, IN_TABLE = NOWHERE + 2, IN_MEMORY = NOWHERE + 3;
__device__ __forceinline__ bool is_place(unsigned home) { return home < NOWHERE; }
#endif
constexpr unsigned WHOLE = 1;
constexpr unsigned KIND = 3, RELEASE = 1, DEATH = 2;  // otherwise a write
constexpr unsigned COMPRESSED = 4, WAS_COMPRESSED = 8, BEGINS_RESIDENCY = 16;
constexpr int ROW = 5, LAST_ROW = ROW + ROW_BITS, WINDOWS_BEFORE = LAST_ROW;
constexpr int HOME = LAST_ROW + ROW_BITS;
constexpr unsigned ROWS = (1u << ROW_BITS) - 1;

// A write, and the rest of its residency: writes first ... end - 1. In tables it takes an int4.
struct Operation {
    unsigned word;
    int first, end;
};

// A register that got a home with write `first`; number `rank` of those in its entry.
struct alignas(16) Arrival {
    int first, end, home, rank;
};

// Tables of a kernel of the workload.
struct Kernel {
    const int4 *residency_operations;       // releases, deaths, writes that begin a residency
    const int4 *write_operations;           // the same with all writes
    const long long *reads_after, *cycles;  // of writes: reads until, and cycles to, the value's end
    const int *scan_starts;                 // of passes: entry at which the scan starts
    int residency_count, write_count;
    int lds_rows;  // spilled rows for which the LDS has room; those beyond live in memory
    int unused;
};

// A slice of the launch: the kernel that it runs, and the place of its arrivals, `capacity` for each
// of its passes.
struct alignas(16) Run {
    long long first_arrival;
    int kernel, capacity;
};

// Events of the operations of a lane; the peak is that of the warp.
struct Events {
    int to_reliable, to_faulty, lds, peak_spilled_rows, wakeups, memory;
    long long lds_reads, spilled_row_cycles, memory_reads;
};
constexpr int EVENTS = 9;

struct Slice {
    Blocks free;    // blocks that are free and sound
    Blocks faulty;  // all blocks of faulty entries
    int lane;
};

// What a warp has in shared memory.
struct Rows {
    unsigned short homes[ENTRIES];
    int arrived[ENTRIES];    // registers that have lived in each entry
    Blocks released[LANES];  // blocks that a release frees
};

__device__ __forceinline__ int entry_of(unsigned home) { return home / 2 / BLOCKS; }

__device__ __forceinline__ int lane_of(unsigned home) { return home / 2 / BLOCKS_OF_LANE; }

// Blocks of a home, as bits of the lane that has its entry.
__device__ __forceinline__ Blocks blocks_of(unsigned home) {
    return some_from(home & WHOLE ? EVERY_BLOCK : 1u, home / 2 % BLOCKS_OF_LANE);
}

// Candidates of all lanes, without those before the start of the scan unless there are no others.
struct Candidates {
    Blocks blocks;
    unsigned lanes;
};

__device__ __forceinline__ Candidates candidates_of(int lane, Blocks blocks, int scan_start) {
    Candidates result = {blocks, __ballot_sync(EVERY_LANE, any(blocks))};
    if (ROTATING) {
        const int start_lane = scan_start / ENTRIES_OF_LANE;
        Blocks ahead = lane < start_lane ? Blocks{} : blocks;
        if (lane == start_lane) ahead &= all_from(BLOCKS * (scan_start % ENTRIES_OF_LANE));
        const unsigned lanes = __ballot_sync(EVERY_LANE, any(ahead));
        if (lanes) result = {ahead, lanes};
    }
    return result;
}

// Best free place for a register, or NOWHERE. The place is taken.
__device__ __forceinline__ unsigned choose(Slice &slice, int row, bool compressed, int scan_start,
                                           bool &in_faulty) {
    const Blocks empty = empty_entries(slice.free);  // of reliable entries only
    Candidates best = candidates_of(slice.lane, empty, scan_start);
    in_faulty = false;
    if (BORROWS) {
        const Blocks around = of_lane(empty, row / ENTRIES_OF_LANE);
        const int first = BLOCKS * (row % ENTRIES_OF_LANE);
        if (any(around & some_from(1u, first))) {
            best = {around & some_from(EVERY_BLOCK, first), 1u << row / ENTRIES_OF_LANE};
        }
    }
    if (compressed) {
        // All three votes are under way at the same time.
        const Candidates sound =
            candidates_of(slice.lane, slice.free & slice.faulty, scan_start);
        const Candidates begun =
            candidates_of(slice.lane, slice.free & ~slice.faulty & ~empty, scan_start);
        in_faulty = sound.lanes != 0;
        if (sound.lanes) {
            best = sound;
        } else if (begun.lanes) {
            best = begun;
        }
    }
    if (!best.lanes) return NOWHERE;
    const int owner = __ffs(best.lanes) - 1;
    const unsigned block = __shfl_sync(EVERY_LANE, lowest(best.blocks), owner);
    if (slice.lane == owner) slice.free &= ~some_from(compressed ? 1u : EVERY_BLOCK, block);
    return 2 * (BLOCKS_OF_LANE * owner + block) + (compressed ? 0 : WHOLE);
}

// Rows that are spilled, and those of them for which the LDS had room.
struct Spilled {
    int rows, in_lds;
};

__device__ __forceinline__ bool is_spilled(unsigned home) {
    return home == IN_LDS || home == IN_MEMORY;
}

// Forget the homes of the rows of a window and free them, and count those no more that were spilled.
__device__ __forceinline__ void release(Slice &slice, Rows &rows, int first, int last,
                                        Spilled &spilled) {
    __syncwarp();  // the homes of earlier operations are there
#pragma unroll 1
    for (int start = first; start <= last; start += LANES) {
        const int row = start + slice.lane;
        const unsigned home = row <= last ? rows.homes[row] : NOWHERE;
        if (is_place(home)) include(rows.released[lane_of(home)], blocks_of(home));
        if (row <= last) rows.homes[row] = NOWHERE;
        spilled.rows -= __popc(__ballot_sync(EVERY_LANE, is_spilled(home)));
        spilled.in_lds -= __popc(__ballot_sync(EVERY_LANE, home == IN_LDS));
    }
    __syncwarp();
    slice.free |= rows.released[slice.lane];
    rows.released[slice.lane] = {};
}

// Add the operation of a lane, which gave its row a home, to the events.
__device__ __forceinline__ void add_event(Events &events, const Kernel &kernel,
                                          const Operation &operation, unsigned home,
                                          bool in_faulty) {
    if (is_spilled(home)) {
        const long long reads = __ldg(kernel.reads_after + operation.first);
        events.lds++;
        events.lds_reads += reads;
        if (home == IN_MEMORY) events.memory++, events.memory_reads += reads;
        events.spilled_row_cycles += __ldg(kernel.cycles + operation.first);
    } else if (is_place(home)) {
        if (in_faulty) {
            events.to_faulty++;
        } else if (!BORROWS || entry_of(home) != (operation.word >> ROW & ROWS)) {
            events.to_reliable++;
        }
        if (WAKES && operation.word & WAS_COMPRESSED && !(operation.word & COMPRESSED)) {
            events.wakeups++;
        }
    }
}

// Append the arrivals of 32 operations, in their order; returns how many they are.
__device__ __forceinline__ int append(Arrival *arrivals, Rows &rows, int lane,
                                      const Operation &operation, unsigned home) {
    const bool arrives = is_place(home);
    const unsigned earlier = (1u << lane) - 1;
    const unsigned who = __ballot_sync(EVERY_LANE, arrives);
    const int entry = arrives ? entry_of(home) : ENTRIES + lane;  // no two lanes without a home alike
    const unsigned alike = __match_any_sync(EVERY_LANE, entry);
    int rank = 0;
    if (arrives) rank = rows.arrived[entry] + __popc(alike & earlier);
    __syncwarp();  // all lanes have read it
    if (arrives) {
        if (!(alike & ~earlier & ~(1u << lane))) rows.arrived[entry] = rank + 1;
        arrivals[__popc(who & earlier)] = {operation.first, operation.end, int(home), rank};
    }
    return __popc(who);
}

__device__ __forceinline__ Operation load(const int4 *operation) {
    const int4 loaded = __ldg(operation);  // through the read-only cache
    return {unsigned(loaded.x), loaded.y, loaded.z};
}

// Run the operations of a kernel; stops with `false` at the first spill if UNTIL_SPILL.
//
// Each lane counts the events of its operations, and all the largest number of rows spilled.
template <bool UNTIL_SPILL>
__device__ __forceinline__ bool run(Slice &slice, Rows &rows, const Kernel &kernel, int scan_start,
                                    Arrival *arrivals, Events &events) {
    const int4 *operations =
        UNTIL_SPILL ? kernel.residency_operations : kernel.write_operations;
    const int count = UNTIL_SPILL ? kernel.residency_count : kernel.write_count;
    const int lane = slice.lane;
    Spilled spilled = {};
    int most_spilled = 0;
    Operation next = {};
    if (lane < count) next = load(operations + lane);
    for (int first = 0; first < count; first += LANES) {
        const Operation operation = next;
        if (first + LANES + lane < count) next = load(operations + first + LANES + lane);
        const bool writes = !(operation.word & KIND) && first + lane < count;
        const bool begins = operation.word & BEGINS_RESIDENCY;
        const int row = operation.word >> ROW & ROWS;
        unsigned old = rows.homes[row];
        unsigned outcome = NOWHERE;
        bool outcome_in_faulty = false;
        __syncwarp();  // all lanes have read
        Word word = __shfl_sync(EVERY_LANE, operation.word | Word(old) << HOME, 0), coming = 0;
        for (int turn = 0; turn < LANES; turn++) {
            if (UNTIL_SPILL) {
                if (first + turn >= count) break;
                // The next operation is told while this looks for a home.
                coming = __shfl_sync(EVERY_LANE, operation.word | Word(old) << HOME,
                                     (turn + 1) % LANES);
            } else {
                // On to the next operation that changes anything.
                const bool matters =
                    first + lane < count && (!writes || begins || is_spilled(old));
                const unsigned ahead = __ballot_sync(EVERY_LANE, matters) & ~0u << turn;
                if (!ahead) break;
                turn = __ffs(ahead) - 1;
                word = __shfl_sync(EVERY_LANE, operation.word | Word(old) << HOME, turn);
            }
            const int its_row = word >> ROW & ROWS;
            if ((word & KIND) == RELEASE) {
                const int last = word >> LAST_ROW & ROWS;
                release(slice, rows, its_row, last, spilled);
                if (its_row <= row && row <= last) old = NOWHERE;
                word = __shfl_sync(EVERY_LANE, operation.word | Word(old) << HOME,
                                   (turn + 1) % LANES);
                continue;
            }
            const unsigned its_old = unsigned(word >> HOME);
            if (is_place(its_old) && lane == lane_of(its_old)) slice.free |= blocks_of(its_old);
            if (!UNTIL_SPILL) {
                spilled.rows -= is_spilled(its_old);
                spilled.in_lds -= its_old == IN_LDS;
            }
            unsigned home = NOWHERE;
            bool in_faulty = false;
            if (!BORROWS || (word & KIND) != DEATH) {
                const bool compressed = word & COMPRESSED;
                const int start = (scan_start + int(word >> WINDOWS_BEFORE & ROWS)) % ENTRIES;
                home = TABLE && compressed ? IN_TABLE
                                           : choose(slice, its_row, compressed, start, in_faulty);
                if (home == NOWHERE) {
                    if (UNTIL_SPILL) return false;
                    home = spilled.in_lds < kernel.lds_rows ? IN_LDS : IN_MEMORY;
                    spilled.rows++;
                    spilled.in_lds += home == IN_LDS;
                    most_spilled = max(most_spilled, spilled.rows);
                }
            }
            if (lane == 0) rows.homes[its_row] = home;
            if (row == its_row) old = home;
            if (lane == turn) outcome = home, outcome_in_faulty = in_faulty;
            const bool same_row = int(coming >> ROW & ROWS) == its_row;
            word = same_row ? (coming & ((Word(1) << HOME) - 1)) | Word(home) << HOME : coming;
        }
        if (writes) add_event(events, kernel, operation, outcome, outcome_in_faulty);
        if (arrivals) arrivals += append(arrivals, rows, lane, operation, outcome);
        __syncwarp();
    }
    events.peak_spilled_rows = most_spilled;
    return true;
}

template <typename Number>
__device__ __forceinline__ Number sum_of_lanes(Number value) {
    for (int distance = LANES / 2; distance; distance /= 2) {
        value += __shfl_xor_sync(EVERY_LANE, value, distance);
    }
    return value;
}

// Place the registers of `slices` slices in `passes` passes each.
//
// kernels[], runs[slice]      tables, and which of them a slice needs
// map_of[slice]               number of its fault map: slices of an instance that runs several kernels
//                             share one
// fault_maps[map][entry]      blocks that are unusable, as bits
// arrivals[]                  result: where `runs` says, if `wanted`
// arrived[slice][pass][entry] result: arrivals in each entry, if `wanted`
// events[slice][pass][9]      result: as `Events`
extern "C" __global__ void __launch_bounds__(LANES *WARPS, BLOCKS_OF_MULTIPROCESSOR)
place(const Kernel *__restrict__ kernels, const Run *__restrict__ runs,
      const int *__restrict__ map_of, const unsigned char *__restrict__ fault_maps, int slices,
      int passes, int wanted, Arrival *arrivals, int *arrived, long long *events) {
    __shared__ Rows rows_of_warp[WARPS];

    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const long long number = static_cast<long long>(blockIdx.x) * WARPS + warp;
    if (number >= static_cast<long long>(slices) * passes) return;
    const long long slice_number = number / passes;
    const int pass = number % passes;
    Rows &rows = rows_of_warp[warp];
    const Run of_slice = runs[slice_number];
    const Kernel kernel = kernels[of_slice.kernel];
    const int scan_start = kernel.scan_starts[pass];
    Arrival *arrivals_here = nullptr;
    if (wanted) {
        arrivals_here = arrivals + of_slice.first_arrival +
                        static_cast<long long>(pass) * of_slice.capacity;
    }

    Slice sound = {{}, {}, lane};
    const unsigned char *map = fault_maps + static_cast<long long>(map_of[slice_number]) * ENTRIES +
                               lane * ENTRIES_OF_LANE;
    for (int k = 0; k < ENTRIES_OF_LANE; k++) {
        const unsigned unusable = map[k] & EVERY_BLOCK;
        sound.free |= some_from(~unusable & EVERY_BLOCK, BLOCKS * k);
        if (unusable) sound.faulty |= some_from(EVERY_BLOCK, BLOCKS * k);
    }
    Events total;
    for (int attempt = 0; attempt < 2; attempt++) {
        Slice slice = sound;
        __syncwarp();
        for (int entry = lane; entry < ENTRIES; entry += LANES) {
            rows.homes[entry] = NOWHERE;
            rows.arrived[entry] = 0;
        }
        rows.released[lane] = {};
        __syncwarp();
        total = {};
        if (attempt == 0 ? run<true>(slice, rows, kernel, scan_start, arrivals_here, total)
                         : run<false>(slice, rows, kernel, scan_start, arrivals_here, total)) {
            break;
        }
    }
    __syncwarp();
    if (wanted) {
        for (int entry = lane; entry < ENTRIES; entry += LANES) {
            arrived[number * ENTRIES + entry] = rows.arrived[entry];
        }
    }
    const int to_reliable = sum_of_lanes(total.to_reliable);
    const int to_faulty = sum_of_lanes(total.to_faulty);
    const int lds = sum_of_lanes(total.lds);
    const int wakeups = sum_of_lanes(total.wakeups);
    const int memory = sum_of_lanes(total.memory);
    const long long lds_reads = sum_of_lanes(total.lds_reads);
    const long long spilled_row_cycles = sum_of_lanes(total.spilled_row_cycles);
    const long long memory_reads = sum_of_lanes(total.memory_reads);
    if (lane == 0) {
        long long *result = events + number * EVENTS;
        result[0] = to_reliable;
        result[1] = to_faulty;
        result[2] = lds;
        result[3] = lds_reads;
        result[4] = total.peak_spilled_rows;
        result[5] = spilled_row_cycles;
        result[6] = wakeups;
        result[7] = memory;
        result[8] = memory_reads;
    }
}
