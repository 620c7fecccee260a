#include "gpu.h"

#define ITEMS 256
#define DIMENSION 128
#define HALF (DIMENSION / 2)

// Rotary position embedding, in place, of the two halves of each head; a token a group. The table
// holds 64 cosines, then 64 sines, of each position.
__kernel GROUP(ITEMS, 1, 1) void rope(__global half *restrict query,
                                      __global half *restrict key,
                                      __global const float *restrict table,
                                      __global const int *restrict position, int query_heads,
                                      int key_heads) {
    const int token = GROUP_X;
    __global const float *angles = table + position[token] * DIMENSION;
    const int heads = query_heads + key_heads;
    for (int i = LOCAL_X; i < heads * (HALF / 2); i += ITEMS) {
        const int head = i / (HALF / 2);
        const int pair = i % (HALF / 2) * 2;
        __global half *row = head < query_heads
                                 ? query + (token * query_heads + head) * DIMENSION
                                 : key + (token * key_heads + head - query_heads) * DIMENSION;
        const f32x2 c = *(__global const f32x2 *)(angles + pair);
        const f32x2 s = *(__global const f32x2 *)(angles + HALF + pair);
        const f16x2 low = *(__global f16x2 *)(row + pair);
        const f16x2 high = *(__global f16x2 *)(row + HALF + pair);
        const f32x2 x = {(float)low.x, (float)low.y}, y = {(float)high.x, (float)high.y};
        const f32x2 new_low = x * c - y * s, new_high = y * c + x * s;
        *(__global f16x2 *)(row + pair) = (f16x2)((half)new_low.x, (half)new_low.y);
        *(__global f16x2 *)(row + HALF + pair) = (f16x2)((half)new_high.x, (half)new_high.y);
    }
}
