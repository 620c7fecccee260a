#include "gpu.h"

#define ITEMS 256

// Normal numbers: Philox 4x32-10 with the index as counter, then Box-Muller.
__kernel GROUP(ITEMS, 1, 1) void random_numbers(__global float *restrict output, u32 seed_low,
                                                u32 seed_high, u32 offset, int quads, int groups) {
    for (int i = GROUP_X * ITEMS + LOCAL_X; i < quads; i += groups * ITEMS) {
        u32 c0 = (u32)i, c1 = offset, c2 = 0, c3 = 0;
        u32 k0 = seed_low, k1 = seed_high;
#pragma unroll
        for (int round = 0; round < 10; round++) {
            const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
            c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
            c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
            c1 = (u32)p1;
            c3 = (u32)p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        const float u0 = (float)((c0 >> 8) + 1) * 0x1p-24f, u1 = (float)(c1 >> 8) * 0x1p-24f;
        const float u2 = (float)((c2 >> 8) + 1) * 0x1p-24f, u3 = (float)(c3 >> 8) * 0x1p-24f;
        // sqrt(-2 ln u) with the logarithm to base 2
        const float r0 = __builtin_amdgcn_sqrtf(-1.38629436111989062f * __builtin_amdgcn_logf(u0));
        const float r1 = __builtin_amdgcn_sqrtf(-1.38629436111989062f * __builtin_amdgcn_logf(u2));
        const f32x4 result = {r0 * __builtin_amdgcn_cosf(u1), r0 * __builtin_amdgcn_sinf(u1),
                              r1 * __builtin_amdgcn_cosf(u3), r1 * __builtin_amdgcn_sinf(u3)};
        ((__global f32x4 *)output)[i] = result;
    }
}
