#include "gpu.h"

#define ITEMS 256
#define LANES 16 // of a row

// y = matrix x, compressed sparse rows, 16 lanes a row.
__kernel GROUP(ITEMS, 1, 1) void spmv(__global const int *restrict start,
                                      __global const int *restrict column,
                                      __global const float *restrict value,
                                      __global const float *restrict x, __global float *restrict y,
                                      int rows) {
    const int row = GROUP_X * (ITEMS / LANES) + LOCAL_X / LANES;
    const int lane = LOCAL_X % LANES;
    float sum = 0.0f;
    if (row < rows) {
        const int end = start[row + 1];
        for (int i = start[row] + lane; i < end; i += LANES) sum += value[i] * x[column[i]];
    }
    sum = row_sum(sum);
    if (row < rows && lane == 0) y[row] = sum;
}
