// What each residency shows, whatever its home: cycles of every cell at '1', and how long a bit of any
// component is at '0' or at '1'. The writes of a residency follow each other without a gap.
//
// A block is a residency, a thread a component. This is computed once for a technique.
//
// Constants: as in `stress.cuh`; only WIDE matters here

#include "stress.cuh"

// writes[], contents[image][component], residencies[]
// rows                        the first so many residencies have a row of sums
// sums[row][bit][component]   result: cycles at '1'
// record_sums[residency][bit][2]   result: the same of components 0 and 1, which a record has
// at_most[residency][64]      result: cycles for which bit b is at '1' in any component at most, [b],
//                             and at '0', [32 + b]
// last[residency][2]          result: bits that are '1', and '0', in some component in the end
extern "C" __global__ void __launch_bounds__(COMPONENTS)
sum_residencies(const int4 *writes, const unsigned *contents, const int4 *residencies, int rows,
                Cycles *sums, Cycles *record_sums, Cycles *at_most, unsigned *last) {
    __shared__ Cycles ones[BITS][COMPONENTS + 1];
    __shared__ unsigned written_of[COMPONENTS];
    __shared__ unsigned ends_with[2];
    const long long number = blockIdx.x;
    const int component = threadIdx.x;
    const Residency residency = reinterpret_cast<const Residency *>(residencies)[number];
    const Write *write = reinterpret_cast<const Write *>(writes);

    // A record is written to the first block here: component 0 of its image, then its code.
    const bool record = write[residency.first].form < 0;
    unsigned written = EVERY_CELL;
    if (record && component) written = component == 1 ? CODE_CELLS : 0;
    if (component < 2) ends_with[component] = 0;
    Cycles sum[BITS] = {};
    unsigned content = 0;
    for (int i = residency.first; i < residency.last; i++) {
        const Write here = write[i];
        content = contents[static_cast<long long>(here.image) * COMPONENTS + component];
        if (record && component == 1) content = ~here.form;
        content &= written;
#pragma unroll
        for (int bit = 0; bit < BITS; bit++) {
            if (content >> bit & 1u) sum[bit] += Cycles(here.held);
        }
    }
#pragma unroll
    for (int bit = 0; bit < BITS; bit++) {
        ones[bit][component] = sum[bit];
        if (number < rows) sums[(number * BITS + bit) * COMPONENTS + component] = sum[bit];
        if (component < 2) record_sums[(number * BITS + bit) * 2 + component] = sum[bit];
    }
    written_of[component] = written;
    __syncthreads();
    atomicOr(&ends_with[0], residency.partial ? EVERY_CELL : content);
    atomicOr(&ends_with[1], residency.partial ? EVERY_CELL : ~content & written);

    const Cycles total = Cycles(residency.end - residency.start);
    if (component < BITS) {
        const int bit = component;
        Cycles most = 0, least = total;
        for (int other = 0; other < COMPONENTS; other++) {
            if (written_of[other] >> bit & 1u) {
                most = max(most, ones[bit][other]);
                least = min(least, ones[bit][other]);
            }
        }
        at_most[number * 2 * BITS + bit] = residency.partial ? total : most;
        at_most[number * 2 * BITS + BITS + bit] = residency.partial ? total : total - least;
    }
    __syncthreads();
    if (component < 2) last[2 * number + component] = ends_with[component];
}
