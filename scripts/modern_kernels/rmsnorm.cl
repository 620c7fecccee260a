#include "gpu.h"

#define ITEMS 256
#define HIDDEN 2048 // 8 values a work-item

// residual += x; output = residual / rms(residual) * weight: a token a group.
__kernel GROUP(ITEMS, 1, 1) void rmsnorm(__global const half *restrict x,
                                         __global half *restrict residual,
                                         __global const half *restrict weight,
                                         __global half *restrict output, float epsilon) {
    __local float partial[ITEMS / 32];
    const int at = GROUP_X * (HIDDEN / 8) + LOCAL_X;
    const f16x8 added = ((__global const f16x8 *)x)[at] + ((__global const f16x8 *)residual)[at];
    ((__global f16x8 *)residual)[at] = added;
    float value[8];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        value[i] = (float)added[i];
        squares += value[i] * value[i];
    }
    squares = group_sum(squares, ITEMS, partial);
    const float factor = __builtin_amdgcn_rsqf(squares * (1.0f / HIDDEN) + epsilon);
    const f16x8 w = ((__global const f16x8 *)weight)[LOCAL_X];
    f16x8 result;
#pragma unroll
    for (int i = 0; i < 8; i++) result[i] = (half)(value[i] * factor * (float)w[i]);
    ((__global f16x8 *)output)[at] = result;
}
