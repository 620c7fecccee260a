#include "gpu.h"

#define ITEMS 256

// The sum of squares: each group leaves its part, and the last one to do so adds the parts.
__kernel GROUP(ITEMS, 1, 1) void tree_reduction(__global const float *restrict gradient,
                                           __global float *parts, __global u32 *done,
                                           __global float *output, int quads, int groups) {
    __local float partial[ITEMS / 32];
    __local u32 ticket[1];
    f32x4 sum = 0.0f;
    for (int i = GROUP_X * ITEMS + LOCAL_X; i < quads; i += groups * ITEMS) {
        const f32x4 x = ((__global const f32x4 *)gradient)[i];
        sum += x * x;
    }
    const float mine = group_sum((sum.x + sum.y) + (sum.z + sum.w), ITEMS, partial);
    if (LOCAL_X == 0) {
        parts[GROUP_X] = mine;
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
        *ticket = __scoped_atomic_fetch_add(done, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    }
    barrier_local();
    if (*ticket + 1 < groups) return;
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    float rest = 0.0f;
    for (int i = LOCAL_X; i < groups; i += ITEMS) rest += parts[i];
    rest = group_sum(rest, ITEMS, partial);
    if (LOCAL_X == 0) *output = rest;
}
