// What an epoch does to the instances that run it, in short: which residencies lived in each entry, and
// for each bit of an entry a bound, the seconds for which any of its cells has held '0' or '1' at
// most. The Numba engine does the same (mcage/engines/numba_engine/bounds.py).
//
// Codes of the log lie entry by entry, pass by pass, in order of time; those of an entry of which sums
// tell everything by number, whichever their pass.
//
// Constants: ENTRIES, ENTRY_COMPONENTS, BLOCK_COMPONENTS   the slice, as in `stress.cuh`
//            GATED    a place is off once its value is gone; otherwise cells keep and stress it
//            RECORDS  compressed values are records of five bytes in one block
//            WIDE     cycles of all passes together exceed 32 bits

#include "stress.cuh"

constexpr int WARPS = 8;  // of a block
constexpr int THREADS = 32 * WARPS;

struct alignas(16) Occupant {
    int first, end, block, turn;
};

// A slice and the kernel that it runs. Its occupants begin with number `first`, those of each pass
// `stride` after those of the pass before.
struct alignas(16) Run {
    long long first;
    int kernel, stride;
};

// Give instances bounds: mixtures[row][kernel] of each, instance_of[row].
//
// Grid: rows x tiles of the bounds.
extern "C" __global__ void
begin(const State *states, const double *mixtures, const int *instance_of) {
    const State &state = *states;
    const long long row = blockIdx.x, instance = instance_of[row];
    const int place = blockIdx.y * blockDim.x + threadIdx.x;
    const double *mixture = mixtures + row * state.kernels;
    const double *most = state.most_duties + place / PLACES * state.kernels * PLACES + place % PLACES;
    double total = 0;
    for (int kernel = 0; kernel < state.kernels; kernel++) {
        total = __dadd_rn(total, __dmul_rn(mixture[kernel], most[kernel * PLACES]));
        if (place == 0) state.mixtures[instance * state.kernels + kernel] = mixture[kernel];
    }
    state.bounds[instance * 2 * PLACES + place] = total;
    if (place < PLACES) state.kept[instance * PLACES + place] = -1;
}

// What the cells of an entry see that records in one block overwrite, or no record, as far as one bit
// of a component is concerned: cycles at '1' and at '0' at most.
struct View {
    Long at_one, at_zero;
    long long since, first;  // end of the latest occupant, -1 before; start of the first
    bool one, zero;          // what some component holds since then
};

struct Stay {
    Long start, end;
    bool complete, last_one, last_zero;
    Cycles at_one, at_zero;  // of a complete residency
};

__device__ __forceinline__ void add(View &view, const Stay &stay) {
    if (!GATED) {
        if (view.since < 0) {
            view.first = stay.start;
        } else {
            if (view.one) view.at_one += stay.start - view.since;
            if (view.zero) view.at_zero += stay.start - view.since;
        }
        view.since = stay.end;
        view.one = stay.last_one;
        view.zero = stay.last_zero;
    }
    view.at_one += stay.complete ? stay.at_one : stay.end - stay.start;
    view.at_zero += stay.complete ? stay.at_zero : stay.end - stay.start;
}

// What is there at the end of a pass stays until the first occupant of the next.
__device__ __forceinline__ void come_round(View &view, Long cycles) {
    if (GATED || view.since < 0) return;
    if (view.one) view.at_one += view.first + cycles - view.since;
    if (view.zero) view.at_zero += view.first + cycles - view.since;
    view.since = -1;
    view.one = view.zero = false;
}

// Note a turn of an epoch of an instance down.
__device__ __forceinline__ void note_down(const State &state, long long instance, const Epoch &epoch) {
    const int number = state.epoch_count[instance]++;
    state.epochs[instance * state.most_epochs + number] = epoch;
}

// Raise the bounds of a bit of an entry; `begins`: with the first turn of an epoch.
__device__ __forceinline__ void raise(const State &state, long long instance, int entry, int bit,
                                      Long at_zero, Long at_one, double scale, bool begins) {
    double *bounds = state.bounds + instance * 2 * PLACES + entry * BITS + bit;
    double *before = state.before + instance * 2 * PLACES + entry * BITS + bit;
    if (begins) {
        before[0] = bounds[0];
        before[PLACES] = bounds[PLACES];
    }
    bounds[0] = __dadd_rn(bounds[0], __dmul_rn(double(at_zero), scale));
    bounds[PLACES] = __dadd_rn(bounds[PLACES], __dmul_rn(double(at_one), scale));
}

// Log a turn of an epoch of an instance in shared places, and raise its bounds by what the cell of each
// bit gains that gains most.
__device__ __forceinline__ void log_shared(const State &state, long long instance,
                                           const SharedTimes *shared, const short *like, double scale,
                                           bool begins) {
    if (blockIdx.y == 0 && threadIdx.x == 0) {
        note_down(state, instance, {nullptr, nullptr, nullptr, scale, 0, shared, like});
    }
    const int part = ENTRIES / gridDim.y, bit = threadIdx.x % 32;
    for (int own = threadIdx.x / 32; own < part; own += WARPS) {
        const int entry = blockIdx.y * part + own;
        Long most[2] = {0, 0};
        for (int block = 0; block < BLOCKS; block++) {
            const long long place = like[entry * BLOCKS + block];
            if (place < 0) continue;
#pragma unroll
            for (int which = 0; which < 2; which++) {
                const Cycles *cycles = shared->most + which * BLOCKS_OF_SLICE * BITS;
                most[which] = max(most[which], Long(cycles[place * BITS + bit]));
            }
        }
        raise(state, instance, entry, bit, most[0], most[1], scale, begins);
    }
}

// Hand over the codes of an entry, those of each pass in ascending order; `merged`: of all passes.
__device__ __forceinline__ void hand_over(const unsigned *by_pass, const int *starts, int passes,
                                          int end, bool merged, unsigned *codes) {
    const auto start = [&](int pass) { return pass < passes ? starts[pass] : end; };
    int pass = 0;
    for (int i = start(0) + int(threadIdx.x % 32); i < end; i += 32) {
        while (i >= start(pass + 1)) pass++;
        const unsigned code = by_pass[i];
        int place = merged ? start(0) : i;
        for (int other = 0; other < passes && merged; other++) {
            const int first = start(other);
            int low = first, high = start(other + 1);
            while (low < high) {
                const int middle = (low + high) / 2;
                const bool before = by_pass[middle] < code + (other < pass);
                low = before ? middle + 1 : low;
                high = before ? high : middle;
            }
            place += low - first;
        }
        codes[place] = code;
    }
}

// Log a turn of an epoch of an instance, and raise its bounds; arguments as of `log_epoch`.
__device__ __forceinline__ void log_turn(const Residencies &residencies, const State &state,
                                         long long instance, long long slice, const int4 *runs,
                                         const int *first_write, const Long *cycles,
                                         const int *starts, const int4 *occupants, double scale,
                                         unsigned *by_pass, unsigned *codes, int *code_starts,
                                         long long *powered, bool begins) {
    constexpr int VIEWS = RECORDS ? 5 : 1;
    __shared__ int place[ENTRIES + 1];
    const int passes = int(residencies.passes), lane = threadIdx.x % 32;
    const Run run = reinterpret_cast<const Run *>(runs)[slice];
    const int first = first_write[run.kernel];
    const Long period = cycles[run.kernel];
    starts += slice * passes * (ENTRIES + 1);
    occupants += run.first;
    by_pass += run.first;
    codes += run.first;
    code_starts += slice * (ENTRIES * passes + 1);
    powered += slice * ENTRIES;

    for (int entry = threadIdx.x; entry < ENTRIES; entry += THREADS) {
        int count = 0;
        for (int pass = 0; pass < passes; pass++) {
            const int *start = starts + pass * (ENTRIES + 1) + entry;
            count += start[1] - start[0];
        }
        place[entry] = count;
    }
    __syncthreads();
    for (int entry = lane, before = 0; entry < ENTRIES && threadIdx.x < 32; entry += 32) {
        const int own = place[entry], end = before + sum_up_to_lane(own);
        place[entry] = end - own;
        if (entry == ENTRIES - 1) place[ENTRIES] = end;
        before = __shfl_sync(EVERY_LANE, end, 31);
    }
    __syncthreads();
    if (blockIdx.y == 0 && threadIdx.x == 0) {
        note_down(state, instance, {codes, code_starts, powered, scale, period, nullptr, nullptr});
        code_starts[ENTRIES * passes] = place[ENTRIES];
    }

    const int part = ENTRIES / gridDim.y;
    for (int own = threadIdx.x / 32; own < part; own += WARPS) {
        const int entry = blockIdx.y * part + own;
        View views[VIEWS];
#pragma unroll
        for (int view = 0; view < VIEWS; view++) views[view] = {0, 0, -1, 0, false, false};
        Long record_cycles[4] = {0, 0, 0, 0}, on = 0;
        bool simple = GATED;
        int next = place[entry];
        // Passes side by side: a lane decodes an occupant of any of them.
        for (int many_passes = 0; many_passes < passes; many_passes += 32) {
            const int here = min(32, passes - many_passes), pass = many_passes + lane;
            int begin = 0, length = 0;
            if (lane < here) {
                const int *start = starts + pass * (ENTRIES + 1) + entry;
                begin = start[0], length = start[1] - begin;
            }
            const int end = sum_up_to_lane(length);  // of the pass, among the occupants of these
            const int count = __shfl_sync(EVERY_LANE, end, 31), offset = end - length;
            if (lane < here) code_starts[entry * passes + pass] = next + offset;
            int now = 0;  // pass of the latest occupant
            for (int many = 0; many < count; many += 32) {
                const int i = many + lane;
                int of_pass = 0;
                for (int other = 1; other < here; other++) {
                    if (i >= __shfl_sync(EVERY_LANE, offset, other)) of_pass = other;
                }
                const int among = i - __shfl_sync(EVERY_LANE, offset, of_pass) +
                                  __shfl_sync(EVERY_LANE, begin, of_pass);
                Residency residency = {0, 0, 0, 0, 0, 0};
                unsigned code = 0;
                int number = 0;
                if (i < count) {
                    const long long of_slice =
                        static_cast<long long>(many_passes + of_pass) * run.stride + among;
                    const Occupant occupant =
                        reinterpret_cast<const Occupant *>(occupants)[of_slice];
                    const int write = first + occupant.first;
                    number = residencies.residency_of[write];
                    residency = residencies.residencies[number];
                    code = number;
                    if (residency.first != write) {
                        code = INCOMPLETE | write;
                        residency.start = residencies.write_cycle[write];
                    }
                    const unsigned block = occupant.block < 0 ? WHOLE : occupant.block;
                    code |= block << BLOCK_SHIFT;
                    by_pass[next + i] = code;
                    if (code >> BLOCK_SHIFT != WHOLE || number >= residencies.rows) simple = false;
                    on += residency.end - residency.start;
                }
                const int occupied = min(32, count - many);
                for (int few = 0; few < occupied; few += TOGETHER) {
                    Cycles at_most[TOGETHER][2];
                    unsigned last[TOGETHER][2] = {};
#pragma unroll
                    for (int k = 0; k < TOGETHER; k++) {
                        const long long of_j = __shfl_sync(EVERY_LANE, number, few + k);
                        const Cycles *most = residencies.at_most + of_j * 2 * BITS + lane;
                        at_most[k][0] = most[0];
                        at_most[k][1] = most[BITS];
                        if (GATED) continue;
                        last[k][0] = residencies.last[2 * of_j];
                        last[k][1] = residencies.last[2 * of_j + 1];
                    }
#pragma unroll
                    for (int k = 0; k < TOGETHER; k++) {
                        const int j = few + k;
                        if (j >= occupied) break;
                        if (!GATED) {
                            for (int last_pass = __shfl_sync(EVERY_LANE, of_pass, j);
                                 now < last_pass; now++) {
#pragma unroll
                                for (int view = 0; view < VIEWS; view++) {
                                    come_round(views[view], period);
                                }
                            }
                        }
                        const unsigned code_of_j = __shfl_sync(EVERY_LANE, code, j);
                        Stay stay = {0,
                                     0,
                                     !(code_of_j & INCOMPLETE),
                                     bool(last[k][0] >> lane & 1u),
                                     bool(last[k][1] >> lane & 1u),
                                     at_most[k][0],
                                     at_most[k][1]};
                        if (!GATED || RECORDS || !stay.complete) {
                            stay.start = __shfl_sync(EVERY_LANE, residency.start, j);
                            stay.end = __shfl_sync(EVERY_LANE, residency.end, j);
                        }
                        const unsigned block = code_of_j >> BLOCK_SHIFT & 7u;
#pragma unroll
                        for (int view = 0; view < VIEWS; view++) {
                            if (!RECORDS || block == WHOLE || block == view) add(views[view], stay);
                        }
#pragma unroll
                        for (int other = 0; other < 4; other++) {
                            if (RECORDS && block == other) {
                                record_cycles[other] += stay.end - stay.start;
                            }
                        }
                    }
                }
            }
            next += count;
#pragma unroll
            for (int view = 0; view < VIEWS; view++) come_round(views[view], period);
        }
        for (int distance = 16; distance; distance /= 2) {
            on += __shfl_xor_sync(EVERY_LANE, on, distance);
        }
        simple = __all_sync(EVERY_LANE, simple);
        if (lane == 0) powered[entry] = simple ? static_cast<long long>(on) : -1;
        if (GATED) {
            __syncwarp();
            hand_over(by_pass, code_starts + entry * passes, passes, next, simple && passes > 1, codes);
        }

        Long at_one = views[VIEWS - 1].at_one, at_zero = views[VIEWS - 1].at_zero;
        if (RECORDS) {
            if (GATED && (at_one || at_zero)) {
                // A record powers all of its block: its other cells show what they held before.
                const Long longest = max(max(record_cycles[0], record_cycles[1]),
                                         max(record_cycles[2], record_cycles[3]));
                at_one += longest;
                at_zero += longest;
            }
#pragma unroll
            for (int view = 0; view < VIEWS - 1; view++) {
                at_one = max(at_one, views[view].at_one);
                at_zero = max(at_zero, views[view].at_zero);
            }
        }
        raise(state, instance, entry, lane, at_zero, at_one, scale, begins);
    }
}

// Log an epoch of instances, turn after turn, and raise their bounds.
//
// runs[slice]                          what a slice of the launch runs
// slice_of[instance of the launch][turn]   the slice that an instance is in each of its turns, or the
//                                      complement of its number among those in shared places
// first_write[], cycles[]              of each kernel: number of its first write, cycles of a pass
// starts[slice][pass][entries + 1], occupants  as `sort_occupants` leaves them
// instance_of[]                        whose epoch it is
// scales[instance of the launch][turn]     seconds that a cycle stands for
// by_pass                              workspace like codes; if not GATED, these themselves
// codes, code_starts[slice][entries x pass + 1], powered[slice][entry]   the log; codes lie as occupants
// shared[], shared_kernel[], like[][]  cell times of kernels in shared places; of each slice in those, its
//                                      kernel among them, and as `find_alike` leaves it
//
// Grid: instances x parts of the entries; 256 threads, a warp for one entry after the other.
extern "C" __global__ void __launch_bounds__(THREADS, RECORDS || WIDE ? 2 : 3)
log_epoch(const Residencies *all, const State *states, const int4 *runs, const int *slice_of, int turns,
          const int *first_write, const Long *cycles, const int *starts, const int4 *occupants,
          const int *instance_of, const double *scales, unsigned *by_pass, unsigned *codes,
          int *code_starts, long long *powered, const SharedTimes *shared, const int *shared_kernel,
          const short *like) {
    const long long row = blockIdx.x, instance = instance_of[row];
    for (int turn = 0; turn < turns; turn++) {
        const int slice = slice_of[row * turns + turn];
        const double scale = scales[row * turns + turn];
        if (slice >= 0) {
            log_turn(*all, *states, instance, slice, runs, first_write, cycles, starts, occupants,
                     scale, by_pass, codes, code_starts, powered, turn == 0);
        } else {
            log_shared(*states, instance, shared + shared_kernel[~slice],
                       like + static_cast<long long>(~slice) * BLOCKS_OF_SLICE, scale, turn == 0);
        }
        __syncthreads();  // before the next one uses the shared memory
    }
}

// Tell which place of the slice of a kernel's own each block of slices in shared places is like.
//
// map_of[slice], fault_maps[map][entry]   blocks that are unusable, as bits
// like[slice][block of the slice]         result; -1: the block stays empty
//
// Grid: slices; a warp.
extern "C" __global__ void __launch_bounds__(32)
find_alike(const SharedTimes *shared, const int *shared_kernel, const int *map_of,
           const unsigned char *fault_maps, short *like) {
    constexpr unsigned EVERY_BLOCK = (1u << BLOCKS) - 1;
    constexpr int SOUND = BLOCKS > 1 ? BLOCKS - 1 : 1;  // blocks of a faulty entry of that slice
    const long long slice = blockIdx.x;
    const int lane = threadIdx.x, faulty = int(shared[shared_kernel[slice]].faulty);
    const unsigned below = (1u << lane) - 1;
    int reliable = faulty, sound = 0;
    for (int entry = lane; entry < ENTRIES; entry += 32) {
        const unsigned usable =
            ~fault_maps[static_cast<long long>(map_of[slice]) * ENTRIES + entry] & EVERY_BLOCK;
        const unsigned whole = __ballot_sync(EVERY_LANE, usable == EVERY_BLOCK);
        const int own = usable == EVERY_BLOCK ? 0 : __popc(usable);
        const int end = sound + sum_up_to_lane(own), number = reliable + __popc(whole & below);
        int next = end - own;
        for (int block = 0; block < BLOCKS; block++) {
            int place = -1;
            if (usable == EVERY_BLOCK) {
                if (number < ENTRIES) place = number * BLOCKS + block;
            } else if (usable >> block & 1u) {
                if (next < faulty * SOUND) place = next / SOUND * BLOCKS + next % SOUND;
                next++;
            }
            like[slice * BLOCKS_OF_SLICE + entry * BLOCKS + block] = short(place);
        }
        reliable += __popc(whole);
        sound = __shfl_sync(EVERY_LANE, end, 31);
    }
}
