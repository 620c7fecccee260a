#include "gpu.h"

#define ITEMS 128
#define DIMENSION 64
#define QUADS (DIMENSION / 4)
#define KEYS 32   // of a tile
#define AT_ONCE 2 // keys between two rescalings

// Each work-item holds one query and its row of the output; keys and values pass through local
// memory. Scores are in powers of two.
__kernel GROUP(ITEMS, 1, 1) void attention(__global const float *restrict query,
                                           __global const float *restrict key,
                                           __global const float *restrict value,
                                           __global float *restrict output, float scale,
                                           int queries, int keys) {
    __local f32x4 tile_key[KEYS][QUADS];
    __local f32x4 tile_value[KEYS][QUADS];
    const int head = GROUP_Y;
    const int mine = (head * queries + GROUP_X * ITEMS + LOCAL_X) * QUADS;
    __global const f32x4 *from_key = (__global const f32x4 *)key + head * keys * QUADS;
    __global const f32x4 *from_value = (__global const f32x4 *)value + head * keys * QUADS;

    f32x2 q[2 * QUADS], sum[2 * QUADS];
#pragma unroll
    for (int d = 0; d < QUADS; d++) {
        const f32x4 four = ((__global const f32x4 *)query)[mine + d];
        q[2 * d] = four.xy;
        q[2 * d + 1] = four.zw;
        sum[2 * d] = sum[2 * d + 1] = 0.0f;
    }
    float largest = -1e30f;
    float weight = 0.0f;
#pragma unroll 1
    for (int start = 0; start < keys; start += KEYS) {
        const int here = keys - start < KEYS ? keys - start : KEYS;
        barrier_local();
#pragma unroll 2
        for (int to = LOCAL_X; to < (here + here % AT_ONCE) * QUADS; to += ITEMS) {
            const bool inside = to < here * QUADS;
            (&tile_key[0][0])[to] = inside ? from_key[start * QUADS + to] : 0.0f;
            (&tile_value[0][0])[to] = inside ? from_value[start * QUADS + to] : 0.0f;
        }
        barrier_local();
#pragma unroll 1
        for (int first = 0; first < here; first += AT_ONCE) {
            float score[AT_ONCE];
            float new_largest = largest;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                f32x2 product = 0.0f;
#pragma unroll
                for (int d = 0; d < QUADS; d++) {
                    const f32x4 four = tile_key[first + j][d];
                    product += q[2 * d] * four.xy;
                    product += q[2 * d + 1] * four.zw;
                }
                score[j] = first + j < here ? (product.x + product.y) * (scale * LOG2_E) : -1e30f;
                new_largest = max_f32(new_largest, score[j]);
            }
            const float rescale = __builtin_amdgcn_exp2f(largest - new_largest);
            largest = new_largest;
            weight *= rescale;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                score[j] = __builtin_amdgcn_exp2f(score[j] - largest);
                weight += score[j];
            }
#pragma unroll
            for (int d = 0; d < QUADS; d++) {
                sum[2 * d] *= rescale;
                sum[2 * d + 1] *= rescale;
#pragma unroll
                for (int j = 0; j < AT_ONCE; j++) {
                    const f32x4 four = tile_value[first + j][d];
                    sum[2 * d] += score[j] * four.xy;
                    sum[2 * d + 1] += score[j] * four.zw;
                }
            }
        }
    }
    const float inverse = __builtin_amdgcn_rcpf(weight);
#pragma unroll
    for (int d = 0; d < QUADS; d++)
        ((__global f32x4 *)output)[mine + d] = (f32x4)(sum[2 * d], sum[2 * d + 1]) * inverse;
}
