// Stress times of slices without faults: mixtures of the duty cycles of kernels.
//
// Constant: ENTRIES   of a slice

constexpr int BITS = 32;
constexpr int COMPONENTS = 64;
constexpr int CELLS = ENTRIES * COMPONENTS * BITS;
constexpr int THREADS = 256;  // of a block
constexpr int TOGETHER = 4;   // mixtures of a block
constexpr int MOST_SHARED = 1024;  // kernels of which a block keeps the seconds in shared memory
constexpr unsigned EVERY_LANE = 0xFFFFFFFFu;

// Mixtures, and what is asked of them: the longest stress times of any cell at '0' and at '1'.
struct Mixtures {
    const double *seconds;     // [row][kernel] for which an instance has run each kernel
    int rows, kernels;
    const double *zero, *one;  // [kernel][cells] duties at '0', '1' of cells of which one is the worst
    int zero_cells, one_cells;
    double *longest;           // [2][row]
};

// The longest stress times of TOGETHER rows from `first` on at '0' or at '1', terms added in the order
// of kernels. Needs shared memory for TOGETHER doubles of each kernel, of MOST_SHARED at most.
__device__ __forceinline__ void longest_of(const Mixtures &mixtures, int first, int which) {
    extern __shared__ double spent[];  // [kernel][TOGETHER]
    __shared__ double of_warps[TOGETHER][THREADS / 32];
    const double *duties = which ? mixtures.one : mixtures.zero;
    const int cells = which ? mixtures.one_cells : mixtures.zero_cells;
    const int rows = mixtures.rows, kernels = mixtures.kernels, shared = min(kernels, MOST_SHARED);
    for (int i = threadIdx.x; i < shared * TOGETHER; i += THREADS) {
        const int row = min(first + i % TOGETHER, rows - 1);
        spent[i] = mixtures.seconds[static_cast<long long>(row) * kernels + i / TOGETHER];
    }
    __syncthreads();
    double best[TOGETHER] = {};
    for (int cell = threadIdx.x; cell < cells; cell += THREADS) {
        double total[TOGETHER] = {};
        for (int kernel = 0; kernel < shared; kernel++) {
            const double duty = duties[static_cast<long long>(kernel) * cells + cell];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                total[i] = __dadd_rn(total[i], __dmul_rn(spent[kernel * TOGETHER + i], duty));
            }
        }
        for (int kernel = shared; kernel < kernels; kernel++) {
            const double duty = duties[static_cast<long long>(kernel) * cells + cell];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                const long long row = min(first + i, rows - 1);
                const double seconds = mixtures.seconds[row * kernels + kernel];
                total[i] = __dadd_rn(total[i], __dmul_rn(seconds, duty));
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) best[i] = max(best[i], total[i]);
    }
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        for (int distance = 16; distance; distance /= 2) {
            best[i] = max(best[i], __shfl_xor_sync(EVERY_LANE, best[i], distance));
        }
        if (threadIdx.x % 32 == 0) of_warps[i][threadIdx.x / 32] = best[i];
    }
    __syncthreads();
    if (threadIdx.x < TOGETHER && first + threadIdx.x < rows) {
        double most = 0;
        for (int warp = 0; warp < THREADS / 32; warp++) {
            most = max(most, of_warps[threadIdx.x][warp]);
        }
        mixtures.longest[static_cast<long long>(which) * rows + first + threadIdx.x] = most;
    }
}

// The longest stress times of rows: arguments as of `Mixtures`.
//
// Grid: TOGETHER rows a block; at '0', at '1'.
extern "C" __global__ void __launch_bounds__(THREADS)
longest_of_mixtures(const double *seconds, int rows, int kernels, const double *zero, int zero_cells,
                    const double *one, int one_cells, double *longest) {
    const Mixtures mixtures = {seconds, rows, kernels, zero, one, zero_cells, one_cells, longest};
    longest_of(mixtures, blockIdx.x * TOGETHER, blockIdx.y);
}

// An epoch of slices without faults: the longest stress times of their mixtures after it, as
// `longest_of_mixtures`, and its turns added to the seconds of tracked cells.
//
// kernel_of[turn][instance]    kernel that it has run, -1 for none
// seconds_of[turn][instance]   for how long
// instance_of[], cell_of[]     tracked cells; a cell counts as 2048 x entry + 32 x component + bit
// duties[2][kernel][entry][bit][component]  fraction of the time at '0' and at '1'
// before, now[2][tracked]      seconds at '0' and at '1' at the start and at the end of the epoch
//
// Grid: first a block for TOGETHER rows at '0' and for as many at '1', then THREADS cells a block.
extern "C" __global__ void __launch_bounds__(THREADS)
live_without_faults(const double *seconds, int rows, int kernels, const double *zero, int zero_cells,
                    const double *one, int one_cells, double *longest, const int *kernel_of,
                    const double *seconds_of, int turns, int instances, const int *instance_of,
                    const int *cell_of, int tracked, const double *duties, double *before,
                    double *now) {
    const int of_rows = 2 * ((rows + TOGETHER - 1) / TOGETHER), block = blockIdx.x;
    if (block < of_rows) {
        const Mixtures mixtures = {seconds, rows, kernels, zero, one, zero_cells, one_cells, longest};
        longest_of(mixtures, block / 2 * TOGETHER, block % 2);
        return;
    }
    const int i = (block - of_rows) * THREADS + threadIdx.x;
    if (i >= tracked) return;
    const int instance = instance_of[i];
    if (kernel_of[instance] < 0) return;
    const int cell = cell_of[i], component = cell / BITS % COMPONENTS;
    const int place = (cell / (COMPONENTS * BITS) * BITS + cell % BITS) * COMPONENTS + component;
    for (int which = 0; which < 2; which++) {
        const long long at = static_cast<long long>(which) * tracked + i;
        double sum = before[at] = now[at];
        for (int turn = 0; turn < turns; turn++) {
            const int run = turn * instances + instance;
            const long long kernel = which * kernels + kernel_of[run];
            sum = __dadd_rn(sum, __dmul_rn(seconds_of[run], duties[kernel * CELLS + place]));
        }
        now[at] = sum;
    }
}
