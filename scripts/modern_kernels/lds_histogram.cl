#include "gpu.h"

#define ITEMS 256
#define BINS 256
#define COPIES 4

// Counts bytes, 16 a load; each 64 work-items have bins of their own in local memory.
__kernel GROUP(ITEMS, 1, 1) void lds_histogram(__global const u32 *restrict image,
                                           __global u32 *restrict bins, int quads, int groups) {
    __local u32 count[COPIES][BINS];
#pragma unroll
    for (int copy = 0; copy < COPIES; copy++) count[copy][LOCAL_X] = 0;
    barrier_local();
    __local u32 *mine = count[LOCAL_X / 64];
    for (int i = GROUP_X * ITEMS + LOCAL_X; i < quads; i += groups * ITEMS) {
        const u32x4 four = ((__global const u32x4 *)image)[i];
#pragma unroll
        for (int w = 0; w < 4; w++) {
#pragma unroll
            for (int shift = 0; shift < 32; shift += 8)
                __scoped_atomic_fetch_add(&mine[(four[w] >> shift) & 255], 1u, __ATOMIC_RELAXED,
                                          __MEMORY_SCOPE_WRKGRP);
        }
    }
    barrier_local();
    u32 total = 0;
#pragma unroll
    for (int copy = 0; copy < COPIES; copy++) total += count[copy][LOCAL_X];
    if (total)
        __scoped_atomic_fetch_add(&bins[LOCAL_X], total, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
