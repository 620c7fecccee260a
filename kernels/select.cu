// The selectors of redirection: a home for every register of a pass (Toca-Diaz et al., RRCD,
// section IV). The reference is mcage/engines/numpy_engine/redirection.py.
//
// One warp is one slice in one pass. The free blocks of 256 entries x 4 blocks are 32 bits in each
// of 32 lanes: lane l has entries 8 l ... 8 l + 7. A priority encoder is then a ballot (which lane
// is the first to have a candidate), a find-first-set and a shuffle. Homes of rows lie in shared
// memory.
//
// A register moves only when its compression state changes, unless it is spilled: it is enough to
// look at the first write of each residency, and if anything spills, once more at every write.
//
// GR-Guard (section VI.B) is the same machine: a residency is the life of a value, and every row
// prefers the entry of its number.
//
// Constants: TABLE     compressed values live in the compression table, not in a block
//            ROTATING  the scan starts one entry further with every window
//            WAKES     count the writes that wake an entry up
//            BORROWS   rows have entries of their own, and values die

constexpr int ENTRIES = 256;
constexpr int ENTRIES_OF_LANE = 8;
constexpr int WARPS = 4;  // of a block
constexpr unsigned EVERY_LANE = 0xFFFFFFFFu;
constexpr unsigned EVERY_BLOCK = 0xFu;
constexpr unsigned FIRST_BLOCKS = 0x11111111u;  // block 0 of each of the lane's entries

// A home is 8 x entry + block for a compressed value, 8 x entry + 4 for a whole entry.
constexpr int WHOLE = 4;
constexpr short NOWHERE = -1, SPILLED = -2, IN_TABLE = -3;

constexpr int ALLOC = 0, RELEASE = 1, DEATH = 3;  // otherwise a write
constexpr int KIND = 3, COMPRESSED = 4, WAS_COMPRESSED = 8, BEGINS_RESIDENCY = 16;

// A write: the row, and first ... end - 1, the write and the rest of its residency. A death: the row.
// A release: the rows first ... end - 1.
struct alignas(16) Operation {
    int what, row, first, end;
};

// A register that got a home with write `first`; number `rank` of those in its entry.
struct alignas(16) Arrival {
    int first, end, home, rank;
};

struct Events {
    long long to_reliable, to_faulty, lds, lds_reads, peak_spilled_rows, spilled_row_cycles, wakeups;
};
constexpr int EVENTS = 7;

struct Slice {
    unsigned free;    // blocks that are free and sound
    unsigned faulty;  // all blocks of faulty entries
    int lane;
    int scan_start;
};

// Lowest of the candidate blocks, from the start of the scan on: 4 x entry + block, -1 for none.
__device__ __forceinline__ int first_of(const Slice &slice, unsigned candidates) {
    unsigned lanes;
    if (ROTATING) {
        const int start_lane = slice.scan_start / ENTRIES_OF_LANE;
        unsigned ahead = slice.lane < start_lane ? 0u : candidates;
        if (slice.lane == start_lane) ahead &= ~0u << 4 * (slice.scan_start % ENTRIES_OF_LANE);
        lanes = __ballot_sync(EVERY_LANE, ahead != 0);
        if (lanes) {
            candidates = ahead;
        } else {
            lanes = __ballot_sync(EVERY_LANE, candidates != 0);
        }
    } else {
        lanes = __ballot_sync(EVERY_LANE, candidates != 0);
    }
    if (!lanes) return -1;
    const int owner = __ffs(lanes) - 1;
    return 32 * owner + __ffs(__shfl_sync(EVERY_LANE, candidates, owner)) - 1;
}

// Best free place for a register, or SPILLED. The place is taken.
__device__ __forceinline__ short choose(Slice &slice, int row, bool compressed) {
    unsigned empty = slice.free & slice.free >> 1;
    empty = (empty & empty >> 2 & FIRST_BLOCKS) * EVERY_BLOCK;  // of reliable entries only
    int block = -1;
    if (BORROWS) {
        const unsigned around = __shfl_sync(EVERY_LANE, empty, row / ENTRIES_OF_LANE);
        if (around >> 4 * (row % ENTRIES_OF_LANE) & 1) block = 4 * row;
    }
    if (compressed) {
        block = first_of(slice, slice.free & slice.faulty);
        if (block < 0) block = first_of(slice, slice.free & ~slice.faulty & ~empty);
    }
    if (block < 0) block = first_of(slice, empty);
    if (block < 0) return SPILLED;
    if (slice.lane == block / 32) {
        slice.free &= ~((compressed ? 1u : EVERY_BLOCK) << block % 32);
    }
    return short(2 * (block & ~3) + (compressed ? block & 3 : WHOLE));
}

// Blocks of a home, as bits of the lane that has its entry.
__device__ __forceinline__ unsigned blocks_of(int home) {
    const unsigned blocks = home & WHOLE ? EVERY_BLOCK : 1u << (home & 3);
    return blocks << 4 * (home / 8 % ENTRIES_OF_LANE);
}

// Run the operations; stops with `false` at the first spill if `until_spill`.
__device__ bool run(Slice &slice, short *homes, int *arrived, unsigned *released,
                    const Operation *operations, int count, bool until_spill,
                    const long long *reads_after, const long long *cycles, Arrival *arrivals,
                    Events &events) {
    int spilled = 0, arrivals_so_far = 0;
    for (int i = 0; i < count; i++) {
        const Operation operation = operations[i];
        const int kind = operation.what & KIND;
        if (kind == ALLOC) {
            if (ROTATING) slice.scan_start = (slice.scan_start + 1) % ENTRIES;
            continue;
        }
        if (kind == RELEASE) {
            for (int first = operation.first; first < operation.end; first += 32) {
                const int row = first + slice.lane;
                const short old = row < operation.end ? homes[row] : NOWHERE;
                if (old >= 0) {
                    atomicOr(&released[old / 8 / ENTRIES_OF_LANE], blocks_of(old));
                }
                if (row < operation.end) homes[row] = NOWHERE;
                spilled -= __popc(__ballot_sync(EVERY_LANE, old == SPILLED));
            }
            __syncwarp();
            slice.free |= released[slice.lane];
            released[slice.lane] = 0;
            __syncwarp();
            continue;
        }

        const short old = homes[operation.row];
        if (BORROWS && kind == DEATH) {
            if (old >= 0 && slice.lane == old / 8 / ENTRIES_OF_LANE) slice.free |= blocks_of(old);
            spilled -= old == SPILLED;
            __syncwarp();  // all lanes have read it
            if (slice.lane == 0) homes[operation.row] = NOWHERE;
            __syncwarp();
            continue;
        }
        if (!(operation.what & BEGINS_RESIDENCY) && old != SPILLED) continue;
        if (old >= 0 && slice.lane == old / 8 / ENTRIES_OF_LANE) slice.free |= blocks_of(old);
        spilled -= old == SPILLED;
        const bool compressed = operation.what & COMPRESSED;
        const short home = TABLE && compressed ? IN_TABLE : choose(slice, operation.row, compressed);
        if (home == SPILLED) {
            if (until_spill) return false;
            spilled++;
            events.lds++;
            events.lds_reads += reads_after[operation.first];
            events.spilled_row_cycles += cycles[operation.first];
            if (spilled > events.peak_spilled_rows) events.peak_spilled_rows = spilled;
        } else if (home >= 0) {
            const unsigned faulty = __shfl_sync(EVERY_LANE, slice.faulty,
                                                home / 8 / ENTRIES_OF_LANE);
            if (faulty & blocks_of(home)) {
                events.to_faulty++;
            } else if (!BORROWS || home / 8 != operation.row) {
                events.to_reliable++;
            }
            if (WAKES && operation.what & WAS_COMPRESSED && !compressed) events.wakeups++;
            if (arrivals && slice.lane == 0) {
                arrivals[arrivals_so_far] = {operation.first, operation.end, home,
                                             arrived[home / 8]++};
            }
            arrivals_so_far++;
        }
        __syncwarp();  // all lanes have read the old home
        if (slice.lane == 0) homes[operation.row] = home;
        __syncwarp();
    }
    return true;
}

// Place the registers of `slices` slices in `passes` passes each.
//
// fault_maps[slice][entry]    blocks that are unusable, as bits
// scan_starts[pass]           entry at which the scan starts
// residency_operations        allocations, releases, writes that begin a residency
// write_operations            the same with all writes
// reads_after, cycles         of writes: reads until, and cycles to, the end of the value
// arrivals[slice][pass][]     result, `capacity` of each; 0: neither these nor the next are asked for
// arrived[slice][pass][entry] result: arrivals in each entry
// events[slice][pass][7]      result: as `Events`
extern "C" __global__ void __launch_bounds__(32 * WARPS)
place(const unsigned char *fault_maps, const int *scan_starts, int slices, int passes,
      const int4 *residency_operations, int residency_count,
      const int4 *write_operations, int write_count,
      const long long *reads_after, const long long *cycles,
      int capacity, int4 *arrivals, int *arrived, long long *events) {
    __shared__ short homes_of_warp[WARPS][ENTRIES];
    __shared__ int arrived_of_warp[WARPS][ENTRIES];
    __shared__ unsigned released_of_warp[WARPS][32];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long number = static_cast<long long>(blockIdx.x) * WARPS + warp;
    if (number >= static_cast<long long>(slices) * passes) return;
    short *homes = homes_of_warp[warp];
    int *arrived_here = arrived_of_warp[warp];
    unsigned *released = released_of_warp[warp];
    const unsigned char *fault_map = fault_maps + number / passes * ENTRIES;

    Arrival *arrivals_here =
        capacity ? reinterpret_cast<Arrival *>(arrivals) + number * capacity : nullptr;
    Events total;
    for (int attempt = 0; attempt < 2; attempt++) {
        Slice slice = {0, 0, lane, scan_starts[number % passes]};
        for (int k = 0; k < ENTRIES_OF_LANE; k++) {
            const unsigned unusable = fault_map[ENTRIES_OF_LANE * lane + k] & EVERY_BLOCK;
            slice.free |= (~unusable & EVERY_BLOCK) << 4 * k;
            if (unusable) slice.faulty |= EVERY_BLOCK << 4 * k;
        }
        __syncwarp();
        for (int entry = lane; entry < ENTRIES; entry += 32) {
            homes[entry] = NOWHERE;
            arrived_here[entry] = 0;
        }
        released[lane] = 0;
        __syncwarp();
        total = {};
        const bool until_spill = attempt == 0;
        const int4 *operations = until_spill ? residency_operations : write_operations;
        if (run(slice, homes, arrived_here, released,
                reinterpret_cast<const Operation *>(operations),
                until_spill ? residency_count : write_count, until_spill, reads_after, cycles,
                arrivals_here, total)) {
            break;
        }
    }
    __syncwarp();
    if (capacity) {
        for (int entry = lane; entry < ENTRIES; entry += 32) {
            arrived[number * ENTRIES + entry] = arrived_here[entry];
        }
    }
    if (lane == 0) {
        long long *result = events + number * EVENTS;
        result[0] = total.to_reliable;
        result[1] = total.to_faulty;
        result[2] = total.lds;
        result[3] = total.lds_reads;
        result[4] = total.peak_spilled_rows;
        result[5] = total.spilled_row_cycles;
        result[6] = total.wakeups;
    }
}
