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

// The longest stress times of any cell of each mixture at '0' and at '1', terms added in the order of
// kernels.
//
// mixtures[row][kernel]        seconds that an instance has run each kernel
// zero, one[kernel][cells]     duties at '0' and at '1' of the cells of which one is the most stressed
// longest[2][row]              result
//
// Grid: TOGETHER rows a block; at '0', at '1'. Shared memory for TOGETHER doubles of each kernel, of
// MOST_SHARED at most.
extern "C" __global__ void __launch_bounds__(THREADS)
longest_of_mixtures(const double *mixtures, int rows, int kernels, const double *zero, int zero_cells,
                    const double *one, int one_cells, double *longest) {
    extern __shared__ double spent[];  // [kernel][TOGETHER]
    __shared__ double of_warps[TOGETHER][THREADS / 32];
    const double *duties = blockIdx.y ? one : zero;
    const int cells = blockIdx.y ? one_cells : zero_cells;
    const int first = blockIdx.x * TOGETHER;
    const int shared = min(kernels, MOST_SHARED);
    for (int i = threadIdx.x; i < shared * TOGETHER; i += THREADS) {
        const int row = min(first + i % TOGETHER, rows - 1);
        spent[i] = mixtures[static_cast<long long>(row) * kernels + i / TOGETHER];
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
                total[i] = __dadd_rn(total[i], __dmul_rn(mixtures[row * kernels + kernel], duty));
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
        longest[static_cast<long long>(blockIdx.y) * rows + first + threadIdx.x] = most;
    }
}

// Add the turns of an epoch to the seconds of tracked cells of slices without faults.
//
// kernel_of[turn][instance]    kernel that it has run, -1 for none
// seconds_of[turn][instance]   for how long
// instance_of[], cell_of[]     tracked cells; a cell counts as 2048 x entry + 32 x component + bit
// duties[2][kernel][entry][bit][component]  fraction of the time at '0' and at '1'
// before, now[2][tracked]      seconds at '0' and at '1' at the start and at the end of the epoch
extern "C" __global__ void __launch_bounds__(THREADS)
add_duties(const int *kernel_of, const double *seconds_of, int turns, int instances,
           const int *instance_of, const int *cell_of, int tracked, const double *duties, int kernels,
           double *before, double *now) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tracked) return;
    const int instance = instance_of[i];
    if (kernel_of[instance] < 0) return;
    const int cell = cell_of[i], component = cell / BITS % COMPONENTS;
    const int place = (cell / (COMPONENTS * BITS) * BITS + cell % BITS) * COMPONENTS + component;
    for (int which = 0; which < 2; which++) {
        const long long at = static_cast<long long>(which) * tracked + i;
        double seconds = before[at] = now[at];
        for (int turn = 0; turn < turns; turn++) {
            const int run = turn * instances + instance;
            const long long kernel = which * kernels + kernel_of[run];
            seconds = __dadd_rn(seconds, __dmul_rn(seconds_of[run], duties[kernel * CELLS + place]));
        }
        now[at] = seconds;
    }
}
