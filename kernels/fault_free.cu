// Stress times of slices without faults: mixtures of the duty cycles of kernels.
//
// Constant: ENTRIES   of a slice

constexpr int BITS = 32;
constexpr int COMPONENTS = 64;
constexpr int CELLS = ENTRIES * COMPONENTS * BITS;
constexpr int THREADS = 256;  // of a block
constexpr int TOGETHER = 4;   // mixtures of a block
constexpr unsigned EVERY_LANE = 0xFFFFFFFFu;

// The longest stress time of any cell of each mixture, terms added in the order of kernels.
//
// mixtures[row][kernel]        seconds that an instance has run each kernel
// duties[kernel][cells]        of the cells of which one is the most stressed
// longest[row]                 result
//
// Grid: TOGETHER rows a block.
extern "C" __global__ void __launch_bounds__(THREADS)
longest_of_mixtures(const double *mixtures, int rows, int kernels, const double *duties, int cells,
                    double *longest) {
    extern __shared__ double spent[];  // [kernel][TOGETHER]
    __shared__ double of_warps[TOGETHER][THREADS / 32];
    const int first = blockIdx.x * TOGETHER;
    for (int i = threadIdx.x; i < kernels * TOGETHER; i += THREADS) {
        const int row = min(first + i % TOGETHER, rows - 1);
        spent[i] = mixtures[static_cast<long long>(row) * kernels + i / TOGETHER];
    }
    __syncthreads();
    double best[TOGETHER] = {};
    for (int cell = threadIdx.x; cell < cells; cell += THREADS) {
        double total[TOGETHER] = {};
        for (int kernel = 0; kernel < kernels; kernel++) {
            const double duty = duties[static_cast<long long>(kernel) * cells + cell];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                total[i] = __dadd_rn(total[i], __dmul_rn(spent[kernel * TOGETHER + i], duty));
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
        longest[first + threadIdx.x] = most;
    }
}

// Add a turn to the seconds of tracked cells of slices without faults.
//
// kernel_of[instance]          kernel that it has run, -1 for none
// instance_of[], cell_of[]     tracked cells; a cell counts as 2048 x entry + 32 x component + bit
// duties[2][kernel][entry][bit][component]  fraction of the time at '0' and at '1'
// seconds_of[instance]         for how long
// before, now[2][tracked]      seconds at '0' and at '1' at the start and at the end of the epoch
// begins                       whether it is the first turn of the epoch
extern "C" __global__ void __launch_bounds__(THREADS)
add_duties(const int *kernel_of, const int *instance_of, const int *cell_of, int tracked,
           const double *duties, int kernels, const double *seconds_of, double *before, double *now,
           int begins) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tracked) return;
    const int kernel = kernel_of[instance_of[i]];
    if (kernel < 0) return;
    const double seconds = seconds_of[instance_of[i]];
    const int cell = cell_of[i], component = cell / BITS % COMPONENTS;
    const int place = (cell / (COMPONENTS * BITS) * BITS + cell % BITS) * COMPONENTS + component;
    for (int which = 0; which < 2; which++) {
        const double duty = duties[static_cast<long long>(which * kernels + kernel) * CELLS + place];
        const long long at = static_cast<long long>(which) * tracked + i;
        if (begins) before[at] = now[at];
        now[at] = __dadd_rn(now[at], __dmul_rn(seconds, duty));
    }
}
