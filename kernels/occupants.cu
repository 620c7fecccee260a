// The occupants of each entry, which are the registers that lived in it, one after the other:
// arrivals sorted by entry, in the order in which they came. `select.cu` has counted the arrivals
// of every entry and given each its rank, so that a prefix sum tells the place of all.
//
// One block is one slice in one pass.
//
// Constants: ENTRIES, BLOCKS   entries of a slice, and blocks of an entry

constexpr int MOST_THREADS = 1024;                                   // of a block of any device
constexpr int OF_THREAD = (ENTRIES + MOST_THREADS - 1) / MOST_THREADS;  // entries
constexpr int THREADS = ENTRIES / OF_THREAD;
constexpr int WHOLE = 1;  // of a home, as in select.cu

struct alignas(16) Arrival {
    int first, end, home, rank;
};

// A slice of the launch: the kernel of the workload that it runs, and the place of its arrivals,
// `capacity` for each of its passes.
struct alignas(16) Run {
    long long first_arrival;
    int kernel, capacity;
};

// Writes first ... end - 1 land in one entry: in block `block` of it, or in all of it (-1). They
// belong to turn `turn` of an orbit of several passes.
struct alignas(16) Occupant {
    int first, end, block, turn;
};

// runs[slice]                         where the arrivals of a slice are, and its occupants
// arrivals[]                          as `place` leaves them
// arrived[pass of a slice][entry]     likewise
// starts[pass of a slice][entries + 1]        result: first occupant of each entry
// occupants[]                         result, where the arrivals are
extern "C" __global__ void __launch_bounds__(THREADS)
sort_occupants(const Run *__restrict__ runs, int passes, const Arrival *__restrict__ arrivals,
               const int *__restrict__ arrived, int *__restrict__ starts,
               Occupant *__restrict__ occupants) {
    __shared__ int place[ENTRIES + 1];
    const long long number = blockIdx.x;
    const Run of_slice = runs[number / passes];
    const long long first = of_slice.first_arrival + number % passes * of_slice.capacity;
    const int thread = threadIdx.x;
    if (thread == 0) place[0] = 0;
#pragma unroll
    for (int i = 0; i < OF_THREAD; i++) {
        const int entry = thread + i * THREADS;
        place[entry + 1] = arrived[number * ENTRIES + entry];
    }
    __syncthreads();
    for (int distance = 1; distance < ENTRIES; distance *= 2) {
        int before[OF_THREAD];
#pragma unroll
        for (int i = 0; i < OF_THREAD; i++) {
            const int entry = thread + i * THREADS;
            before[i] = entry + 1 > distance ? place[entry + 1 - distance] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OF_THREAD; i++) place[thread + i * THREADS + 1] += before[i];
        __syncthreads();
    }
    if (thread == 0) starts[number * (ENTRIES + 1)] = 0;
#pragma unroll
    for (int i = 0; i < OF_THREAD; i++) {
        const int entry = thread + i * THREADS;
        starts[number * (ENTRIES + 1) + entry + 1] = place[entry + 1];
    }

    const int count = place[ENTRIES];
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const Arrival arrival = arrivals[first + i];
        const int block = arrival.home & WHOLE ? -1 : arrival.home / 2 % BLOCKS;
        occupants[first + place[arrival.home / 2 / BLOCKS] + arrival.rank] = {arrival.first, arrival.end,
                                                                     block, 0};
    }
}
