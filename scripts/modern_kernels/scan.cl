#include "gpu.h"

#define ITEMS 256

// The sum over this lane and those before it.
INLINE int wave_scan(int x) {
    x += DPP_I32(x, ROW_SHIFT(1));
    x += DPP_I32(x, ROW_SHIFT(2));
    x += DPP_I32(x, ROW_SHIFT(4));
    x += DPP_I32(x, ROW_SHIFT(8));
#ifdef __GFX9__
    x += __builtin_amdgcn_update_dpp(0, x, 0x142, 0xa, 0xf, false); // row_bcast:15, rows 1 and 3
    x += __builtin_amdgcn_update_dpp(0, x, 0x143, 0xc, 0xf, false); // row_bcast:31, rows 2 and 3
#else
    const int lane = lane_id();
    const int before = __builtin_amdgcn_ds_bpermute(((lane & 32) | 15) * 4, x);
    x += lane & 16 ? before : 0;
    if (WAVE == 64) {
        const int half_before = __builtin_amdgcn_ds_bpermute(31 * 4, x);
        x += lane & 32 ? half_before : 0;
    }
#endif
    return x;
}

// Inclusive sums along each row of `quads` times 4 integers (quads a multiple of 256); a row a
// group, 1,024 integers at a time.
__kernel GROUP(ITEMS, 1, 1) void scan(__global const int *restrict input,
                                      __global int *restrict output, int quads) {
    __local int total[ITEMS / 32];
    __global const i32x4 *from = (__global const i32x4 *)input + GROUP_X * quads;
    __global i32x4 *to = (__global i32x4 *)output + GROUP_X * quads;
    int carry = 0;
    for (int i = LOCAL_X; i < quads; i += ITEMS) {
        i32x4 x = from[i];
        x.y += x.x;
        x.z += x.y;
        x.w += x.z;
        const int sum = wave_scan(x.w);
        if (lane_id() == WAVE - 1) total[wave_id()] = sum;
        barrier_local();
        int before = carry + sum - x.w;
#pragma unroll
        for (int wave = 0; wave < ITEMS / WAVE; wave++) {
            const int part = total[wave];
            before += wave < wave_id() ? part : 0;
            carry += part;
        }
        to[i] = x + before;
        barrier_local();
    }
}
