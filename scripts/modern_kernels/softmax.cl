#include "gpu.h"

#define ITEMS 256
#define EACH 8

// A row of at most 2,048 columns a group, held in registers between the passes.
__kernel GROUP(ITEMS, 1, 1) void softmax(__global const float *restrict input,
                                         __global float *restrict output, int columns) {
    __local float partial[ITEMS / 32];
    const int row = GROUP_X * columns;
    float x[EACH];
    float largest = -1e30f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int column = i * ITEMS + LOCAL_X;
        x[i] = column < columns ? input[row + column] : -1e30f;
        largest = max_f32(largest, x[i]);
    }
    largest = group_max(largest, ITEMS, partial);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        x[i] = exp_fast(x[i] - largest);
        sum += x[i];
    }
    const float inverse = __builtin_amdgcn_rcpf(group_sum(sum, ITEMS, partial));
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int column = i * ITEMS + LOCAL_X;
        if (column < columns) output[row + column] = x[i] * inverse;
    }
}
