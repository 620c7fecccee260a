#include "gpu.h"

#define KEYS 512
#define ITEMS (KEYS / 2)

// Sorts keys and what they carry, 512 a group, in local memory: a pair a work-item and step.
__kernel GROUP(ITEMS, 1, 1) void bitonic_sort(__global u32 *restrict key,
                                              __global u32 *restrict value) {
    __local u32 keys[KEYS], values[KEYS];
    const int start = GROUP_X * KEYS;
#pragma unroll
    for (int i = LOCAL_X; i < KEYS; i += ITEMS) {
        keys[i] = key[start + i];
        values[i] = value[start + i];
    }
    for (int size = 2; size <= KEYS; size *= 2) {
        for (int distance = size / 2; distance > 0; distance /= 2) {
            barrier_local();
            const int low = 2 * LOCAL_X - (LOCAL_X & (distance - 1));
            const int high = low + distance;
            const bool up = (low & size) == 0;
            const u32 a = keys[low], b = keys[high];
            if (a > b == up && a != b) {
                const u32 carried = values[low];
                keys[low] = b;
                keys[high] = a;
                values[low] = values[high];
                values[high] = carried;
            }
        }
    }
    barrier_local();
#pragma unroll
    for (int i = LOCAL_X; i < KEYS; i += ITEMS) {
        key[start + i] = keys[i];
        value[start + i] = values[i];
    }
}
