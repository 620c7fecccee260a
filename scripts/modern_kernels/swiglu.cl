#include "gpu.h"

#define ITEMS 256

// silu(gate) * up: each row holds gate and up side by side, `octets` of 8 values each.
__kernel GROUP(ITEMS, 1, 1) void swiglu(__global const half *restrict input,
                                        __global half *restrict output, int octets) {
    __global const f16x8 *gate = (__global const f16x8 *)input + GROUP_X * 2 * octets;
    __global const f16x8 *up = gate + octets;
    __global f16x8 *to = (__global f16x8 *)output + GROUP_X * octets;
    for (int i = LOCAL_X; i < octets; i += ITEMS) {
        const f16x8 g = gate[i], u = up[i];
        f16x8 result;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float x = (float)g[j];
            result[j] = (half)(x * __builtin_amdgcn_rcpf(1.0f + exp_fast(-x)) * (float)u[j]);
        }
        to[i] = result;
    }
}
