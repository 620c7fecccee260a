// The occupants of each entry, which are the registers that lived in it, one after the other:
// arrivals sorted by entry, in the order in which they came. `select.cu` has counted the arrivals
// of every entry and given each its rank, so that a prefix sum tells the place of all.
//
// One block is one slice in one pass.

constexpr int ENTRIES = 256;
constexpr int WHOLE = 4;

struct alignas(16) Arrival {
    int first, end, home, rank;
};

// Writes first ... end - 1 land in one entry: in block `block` of it, or in all of it (-1). They
// belong to turn `turn` of an orbit of several passes.
struct alignas(16) Occupant {
    int first, end, block, turn;
};

// arrivals[pass of a slice][capacity]  as `place` leaves them
// arrived[pass of a slice][entry]      likewise
// starts[pass of a slice][257]         result: first occupant of each entry
// occupants[pass of a slice][capacity] result
extern "C" __global__ void __launch_bounds__(ENTRIES)
sort_occupants(const int4 *arrivals, const int *arrived, int capacity, int *starts,
               int4 *occupants) {
    __shared__ int place[ENTRIES + 1];
    const long long pass = blockIdx.x;
    const int entry = threadIdx.x;
    if (entry == 0) place[0] = 0;
    place[entry + 1] = arrived[pass * ENTRIES + entry];
    __syncthreads();
    for (int distance = 1; distance < ENTRIES; distance *= 2) {
        const int before = entry + 1 > distance ? place[entry + 1 - distance] : 0;
        __syncthreads();
        place[entry + 1] += before;
        __syncthreads();
    }
    if (entry == 0) starts[pass * (ENTRIES + 1)] = 0;
    starts[pass * (ENTRIES + 1) + entry + 1] = place[entry + 1];

    const Arrival *from = reinterpret_cast<const Arrival *>(arrivals) + pass * capacity;
    Occupant *to = reinterpret_cast<Occupant *>(occupants) + pass * capacity;
    const int count = place[ENTRIES];
    for (int i = threadIdx.x; i < count; i += ENTRIES) {
        const Arrival arrival = from[i];
        const int block = arrival.home & WHOLE ? -1 : arrival.home & 3;
        to[place[arrival.home / 8] + arrival.rank] = {arrival.first, arrival.end, block, 0};
    }
}
