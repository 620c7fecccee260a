#include "gpu.h"

__kernel GROUP(256, 1, 1) void saxpy(__global const float *restrict x, __global float *restrict y,
                                     float a, int n, int stride) {
    for (int i = GROUP_X * 256 + LOCAL_X; i < n; i += stride) y[i] = a * x[i] + y[i];
}
