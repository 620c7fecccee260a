// The selectors of redirection: a home for every residency of a pass (Toca-Diaz et al., RRCD,
// section IV), and who lived in each entry. The reference is
// mcage/engines/numpy_engine/redirection.py; mcage/engines/operations.py lists the operations.
//
// A lane is one slice in one pass. The lanes of a warp run the same kernel: all of them take the same
// operation at the same time, each with the homes that its fault map leaves, and none waits for
// another. Sets of entries are words of 32 bits in shared memory, where each lane has a bank of its
// own; a priority encoder is a find-first-set among the words that are not empty, and one in a word. It
// goes round all entries, from the start of the scan to the last and on from the first.
//
// A register moves only when its compression state changes, unless it is spilled: the writes in
// between are looked at by the lanes that have spilled rows, and as long as they have.
//
// GR-Guard (section VI.B) is the same machine: a residency is the life of a value, and every row
// prefers the entry of its number.
//
// Constants: ENTRIES, BLOCKS   of a slice, and of an entry
//            RECORDS   compressed values take a block of an entry
//            ROTATING  the scan starts one entry further with every window
//            BORROWS   rows have entries of their own

#include "warp.cuh"

constexpr int LANES = 32;
constexpr int WORD_BITS = 32;
constexpr int WORDS = ENTRIES / WORD_BITS;  // of a set of entries
constexpr int ENTRIES_OF_BLOCK_WORD = 8;    // four bits for the free blocks of each
constexpr unsigned EVERY_BLOCK = (1u << BLOCKS) - 1;

#if ENTRIES <= 1024
typedef unsigned Words;
__device__ __forceinline__ int lowest(Words words) { return __ffs(words) - 1; }
#else
typedef unsigned long long Words;
__device__ __forceinline__ int lowest(Words words) { return __ffsll(words) - 1; }
#endif

// A home: 16 x entry, 8 if the entry is faulty, and the block or WHOLE. IN_LDS and above are no place.
constexpr int ENTRY = 4;
constexpr unsigned FAULTY = 8, BLOCK = 7, WHOLE = 4;
constexpr unsigned IN_LDS = 0xFFFD, IN_MEMORY = 0xFFFE, NOWHERE = 0xFFFF;

__device__ __forceinline__ bool is_place(unsigned home) { return home < IN_LDS; }

// The first word of an operation: its kind, whether its home was off for a compressed value, the row.
enum Kind { ADVANCE, ACQUIRE, ACQUIRE_BLOCK, FREE };
constexpr unsigned KIND = 3, WAKES_UP = 4, ROW = 3;

struct alignas(16) Operation {
    unsigned word, residency;
    int write;  // the first of the residency
    int retry;  // what follows it, up to that of the next operation, are writes of spilled rows
};

struct alignas(16) Retry {
    int write;
    unsigned residency;
    int row, in_block;
};

// Tables of a kernel of the workload.
struct Kernel {
    const int4 *operations;                 // and one more, for its `retry`
    const int4 *retries;
    const long long *reads_after, *cycles;  // of writes: reads until, and cycles to, the value's end
    const int *ends;                        // of writes: number after the last of the residency
    const int *scan_starts;                 // of passes: entry at which the scan starts
    int operation_count;
    int lds_rows;  // spilled rows for which the LDS has room; those beyond live in memory
};

// Slices in passes that a warp places: numbers `first` and on, each slice with all of its passes. They
// have `rows` of homes and of arrivals from `first_row` on, of LANES each.
struct alignas(8) Group {
    long long first_row, first;
    int kernel, count;
};

// A slice of the launch: the kernel that it runs, and the place of its occupants, `capacity` for each
// of its passes.
struct alignas(16) Run {
    long long first_occupant;
    int kernel, capacity;
};

// A residency that came into its home with a write: the first, unless it was spilled before.
struct alignas(8) Arrival {
    int write;
    unsigned home;
};

// Writes first ... end - 1 land in one entry: in block `block` of it, or in all of it (-1). They
// belong to turn `turn` of an orbit of several passes.
struct alignas(16) Occupant {
    int first, end, block, turn;
};

struct Events {
    int at_home, to_faulty, lds, peak_spilled_rows, wakeups, memory;
    long long lds_reads, spilled_row_cycles, memory_reads;
};
constexpr int EVENTS = 9;

// A set of entries, or of rows.
struct Set {
    unsigned *words;  // of a lane: every LANES-th
    Words some;       // those that are not empty
};

__device__ __forceinline__ bool has(const Set &set, int entry) {
    return set.words[LANES * (entry / WORD_BITS)] >> entry % WORD_BITS & 1u;
}

__device__ __forceinline__ void include(Set &set, int entry) {
    set.words[LANES * (entry / WORD_BITS)] |= 1u << entry % WORD_BITS;
    set.some |= Words(1) << entry / WORD_BITS;
}

__device__ __forceinline__ void exclude(Set &set, int entry) {
    unsigned &word = set.words[LANES * (entry / WORD_BITS)];
    word &= ~(1u << entry % WORD_BITS);
    if (!word) set.some &= ~(Words(1) << entry / WORD_BITS);
}

// Where a set has its first member from `start` on, or before it if there is none.
struct Found {
    unsigned word, members;  // number of the word; the member is the lowest of these
    unsigned all;            // members of the word
};

__device__ __forceinline__ bool find(const Set &set, unsigned start, Found &found) {
    if (!set.some) return false;
    found.word = start / WORD_BITS;
    found.all = set.words[LANES * found.word];
    found.members = found.all & ~0u << start % WORD_BITS;
    if (!found.members) {
        const Words further = set.some & ~((Words(2) << found.word) - 1);
        found.word = lowest(further ? further : set.some);
        found.members = found.all = set.words[LANES * found.word];
    }
    return true;
}

__device__ __forceinline__ int entry_of(const Found &found) {
    return WORD_BITS * found.word + __ffs(found.members) - 1;
}

__device__ __forceinline__ void exclude(Set &set, const Found &found) {
    const unsigned left = found.all & ~(found.members & -found.members);
    set.words[LANES * found.word] = left;
    if (!left) set.some &= ~(Words(1) << found.word);
}

// What a lane knows of its slice.
struct Slice {
    Set empty;               // reliable entries that are free
    Set sound, begun;        // faulty entries with a free block; reliable ones of which some is free
    Set spilled_rows;
    unsigned *free_blocks;   // every LANES-th
    int spilled, in_lds, arrived;
    Arrival *next_arrival;   // every LANES-th
    bool wanted;
    unsigned lane;
    Events events;
};

// Take the best free place for a residency, if there is one.
__device__ __forceinline__ bool take(Slice &slice, int row, bool in_block, unsigned start,
                                     unsigned &home) {
    Found found;
    if (!RECORDS || !in_block) {
        if (BORROWS && has(slice.empty, row)) {
            exclude(slice.empty, row);
            home = row << ENTRY | WHOLE;
            return true;
        }
        if (!find(slice.empty, start, found)) return false;
        exclude(slice.empty, found);
        home = entry_of(found) << ENTRY | WHOLE;
        return true;
    }
    const bool faulty = find(slice.sound, start, found);
    if (!faulty && !find(slice.begun, start, found) && !find(slice.empty, start, found)) return false;
    const int entry = entry_of(found);
    unsigned &word = slice.free_blocks[LANES * (entry / ENTRIES_OF_BLOCK_WORD)];
    const int shift = entry % ENTRIES_OF_BLOCK_WORD * 4;
    const unsigned free = word >> shift & EVERY_BLOCK, left = free & (free - 1);
    word ^= (free ^ left) << shift;
    if (faulty) {
        if (!left) exclude(slice.sound, found);
    } else if (free == EVERY_BLOCK) {
        exclude(slice.empty, found);
        if (left) include(slice.begun, entry);
    } else if (!left) {
        exclude(slice.begun, found);
    }
    home = entry << ENTRY | (faulty ? FAULTY : 0) | (__ffs(free) - 1);
    return true;
}

__device__ __forceinline__ void give_back(Slice &slice, unsigned home) {
    const int entry = home >> ENTRY, block = home & BLOCK;
    if (!RECORDS || block == WHOLE) {
        include(slice.empty, entry);
        return;
    }
    unsigned &word = slice.free_blocks[LANES * (entry / ENTRIES_OF_BLOCK_WORD)];
    const int shift = entry % ENTRIES_OF_BLOCK_WORD * 4;
    word |= 1u << (shift + block);
    if (home & FAULTY) {
        include(slice.sound, entry);
    } else if ((word >> shift & EVERY_BLOCK) == EVERY_BLOCK) {
        exclude(slice.begun, entry);
        include(slice.empty, entry);
    } else {
        include(slice.begun, entry);
    }
}

__device__ __forceinline__ void move_in(Slice &slice, int row, int write, unsigned home) {
    if (slice.wanted) {
        *slice.next_arrival = {write, home};
        slice.next_arrival += LANES;
    }
    slice.arrived++;
    if (RECORDS) slice.events.to_faulty += home / FAULTY % 2;
    if (BORROWS) slice.events.at_home += int(home >> ENTRY) == row;
}

// Count a write of a row that is spilled, and tell where the row is: it leaves memory for the LDS once
// that has room.
__device__ __forceinline__ unsigned count_spilled(Slice &slice, const Kernel &kernel, int write,
                                                  unsigned home) {
    const long long reads = __ldg(kernel.reads_after + write);
    slice.events.lds++;
    slice.events.lds_reads += reads;
    slice.events.spilled_row_cycles += __ldg(kernel.cycles + write);
    if (home == IN_LDS) return home;
    if (slice.in_lds < kernel.lds_rows) {
        slice.in_lds++;
        return IN_LDS;
    }
    slice.events.memory++;
    slice.events.memory_reads += reads;
    return IN_MEMORY;
}

__device__ __forceinline__ void leave(Slice &slice, int row, unsigned home) {
    slice.spilled--;
    slice.in_lds -= home == IN_LDS;
    exclude(slice.spilled_rows, row);
}

// Run the operations of a kernel; homes[residency][LANES] of the group.
__device__ __forceinline__ void run(Slice &slice, const Kernel &kernel, unsigned start,
                                    unsigned short *homes) {
    const auto load = [](const int4 *row) { return __ldg(row); };  // through the read-only cache
    const auto home_of = [&](unsigned residency) -> unsigned short & {
        return homes[static_cast<long long>(residency) * LANES + slice.lane];
    };
    const int4 *operations = kernel.operations, *end = operations + kernel.operation_count;
    int4 next = load(operations);
    unsigned coming = NOWHERE;  // home that the next operation gives back
    while (operations != end) {
        const Operation operation = {unsigned(next.x), unsigned(next.y), next.z, next.w};
        const unsigned old = coming;
        const unsigned kind = operation.word & KIND, row = operation.word >> ROW;
        next = load(++operations);
        const bool gives_back = (next.x & KIND) == FREE;
        if (gives_back) coming = home_of(next.y);  // on its way while this one looks for a place
        if (kind == FREE) {
            if (is_place(old)) {
                give_back(slice, old);
            } else {
                leave(slice, row, old);
            }
        } else if (kind == ADVANCE) {
            start = start + 1 < ENTRIES ? start + 1 : 0;
        } else {
            unsigned home;
            if (take(slice, row, kind == ACQUIRE_BLOCK, ROTATING ? start : 0, home)) {
                move_in(slice, row, operation.write, home);
                slice.events.wakeups += operation.word / WAKES_UP % 2;
            } else {
                include(slice.spilled_rows, row);
                slice.spilled++;
                slice.events.peak_spilled_rows = max(slice.events.peak_spilled_rows, slice.spilled);
                home = count_spilled(slice, kernel, operation.write, IN_MEMORY);
            }
            home_of(operation.residency) = home;
            if (operation.residency == unsigned(next.y)) coming = home;
        }
        if (!slice.spilled) continue;
        for (int number = operation.retry; number < next.w && slice.spilled; number++) {
            const int4 loaded = load(kernel.retries + number);
            const Retry retry = {loaded.x, unsigned(loaded.y), loaded.z, loaded.w};
            if (!has(slice.spilled_rows, retry.row)) continue;
            const unsigned before = home_of(retry.residency);
            unsigned home;
            if (take(slice, retry.row, retry.in_block, ROTATING ? start : 0, home)) {
                move_in(slice, retry.row, retry.write, home);
                leave(slice, retry.row, before);
            } else {
                home = count_spilled(slice, kernel, retry.write, before);
            }
            home_of(retry.residency) = home;
        }
        if (gives_back) coming = home_of(next.y);
    }
}

// Place the residencies of slices in all of their passes.
//
// kernels[], groups[]         tables, and who needs which of them
// map_of[slice]               number of its fault map: slices of an instance that runs several kernels
//                             share one
// fault_maps[map][entry]      blocks that are unusable, as bits
// homes[row][LANES]           workspace
// arrivals[row][LANES]        result: in the order in which they came, if `wanted`
// arrived[slice][pass]        result: how many they are
// events[slice][pass][9]      result: as `Events`
//
// Grid: groups; a warp.
extern "C" __global__ void __launch_bounds__(LANES)
place(const Kernel *__restrict__ kernels, const Group *__restrict__ groups,
      const int *__restrict__ map_of, const unsigned char *__restrict__ fault_maps, int passes,
      int wanted, unsigned short *homes, Arrival *arrivals, int *arrived, long long *events) {
    constexpr int SETS = RECORDS ? 4 : 2;
    __shared__ unsigned sets[SETS * WORDS * LANES];
    __shared__ unsigned free_blocks[RECORDS ? ENTRIES / ENTRIES_OF_BLOCK_WORD * LANES : LANES];
    const Group group = groups[blockIdx.x];
    const int lane = threadIdx.x;
    if (lane >= group.count) return;
    const long long number = group.first + lane, first = group.first_row * LANES;
    const Kernel kernel = kernels[group.kernel];

    const auto set = [&](int which) { return Set{sets + which * WORDS * LANES + lane, 0}; };
    Slice slice = {set(0), set(RECORDS ? 2 : 0), set(RECORDS ? 3 : 0), set(1), free_blocks + lane};
    slice.next_arrival = arrivals + first + lane;
    slice.wanted = wanted;
    slice.lane = lane;
    for (int word = 0; word < SETS * WORDS; word++) sets[word * LANES + lane] = 0;
    const unsigned char *map = fault_maps + static_cast<long long>(map_of[number / passes]) * ENTRIES;
    unsigned blocks = 0;
    for (int entry = 0; entry < ENTRIES; entry++) {
        const unsigned usable = ~map[entry] & EVERY_BLOCK;
        if (usable == EVERY_BLOCK) {
            include(slice.empty, entry);
        } else if (RECORDS && usable) {
            include(slice.sound, entry);
        }
        if (!RECORDS) continue;
        blocks = blocks >> 4 | usable << 28;
        slice.free_blocks[LANES * (entry / ENTRIES_OF_BLOCK_WORD)] = blocks;
    }
    run(slice, kernel, kernel.scan_starts[number % passes], homes + first);
    arrived[number] = slice.arrived;
    const Events &total = slice.events;
    long long *result = events + number * EVENTS;
    result[0] = slice.arrived - total.at_home - total.to_faulty;
    result[1] = total.to_faulty;
    result[2] = total.lds;
    result[3] = total.lds_reads;
    result[4] = total.peak_spilled_rows;
    result[5] = total.spilled_row_cycles;
    result[6] = total.wakeups;
    result[7] = total.memory;
    result[8] = total.memory_reads;
}

constexpr int WARPS = ENTRIES <= 256 ? LANES : 8192 / ENTRIES;  // of a block that sorts

// Sort the arrivals of slices in passes by entry, in the order in which they came.
//
// runs[slice]                      where its occupants are
// starts[slice][pass][entries + 1] result: first occupant of each entry
// occupants[]                      result
//
// Grid: groups x shares of their lanes; a warp for each slice in a pass.
extern "C" __global__ void __launch_bounds__(LANES *WARPS)
sort_occupants(const Kernel *__restrict__ kernels, const Group *__restrict__ groups,
               const Run *__restrict__ runs, int passes, const Arrival *__restrict__ arrivals,
               const int *__restrict__ arrived, int *__restrict__ starts,
               Occupant *__restrict__ occupants) {
    __shared__ int places[WARPS][ENTRIES];
    const Group group = groups[blockIdx.x];
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int place_in_group = blockIdx.y * WARPS + warp;
    if (place_in_group >= group.count) return;
    const long long number = group.first + place_in_group;
    const Run run = runs[number / passes];
    const int *ends = kernels[group.kernel].ends;
    const int count = arrived[number];
    arrivals += group.first_row * LANES + place_in_group;
    occupants += run.first_occupant + number % passes * run.capacity;
    starts += number * (ENTRIES + 1);
    int *next = places[warp];  // where the next arrival of each entry goes

    for (int entry = lane; entry < ENTRIES; entry += LANES) next[entry] = 0;
    __syncwarp();
    for (int i = lane; i < count; i += LANES) {
        atomicAdd(next + (arrivals[static_cast<long long>(i) * LANES].home >> ENTRY), 1);
    }
    __syncwarp();
    int before = 0;
    for (int entry = lane; entry < ENTRIES; entry += LANES) {
        const int own = next[entry], end = before + sum_up_to_lane(own);
        starts[entry] = next[entry] = end - own;
        before = __shfl_sync(EVERY_LANE, end, LANES - 1);
    }
    if (lane == 0) starts[ENTRIES] = count;
    __syncwarp();
    for (int many = 0; many < count; many += LANES) {
        const int i = many + lane;
        Arrival arrival = {0, unsigned(ENTRIES + lane) << ENTRY};  // nobody: no two lanes alike
        if (i < count) arrival = arrivals[static_cast<long long>(i) * LANES];
        const int entry = arrival.home >> ENTRY, block = arrival.home & BLOCK;
        const unsigned alike = __match_any_sync(EVERY_LANE, entry);
        int place = 0;
        if (i < count) {
            place = next[entry] + __popc(alike & ((1u << lane) - 1));
            const int end = __ldg(ends + arrival.write);
            occupants[place] = {arrival.write, end, block == WHOLE ? -1 : block, 0};
        }
        __syncwarp();  // all lanes have read
        if (i < count && alike >> lane == 1) next[entry] = place + 1;
        __syncwarp();
    }
}
