#include "gpu.h"

#define ITEMS 256
#define TILE 128
#define STEP 32
#define PITCH (STEP + 8)

#if defined(__gfx90a__) || defined(__gfx942__)
#define PARTS_M 4 // parts of 16 x 16 of a wave's 64 x 64
#define PARTS_N 4
typedef f16x4 operand;
typedef f32x4 accumulator;
#elif defined(__gfx1100__)
#define PARTS_M 4 // parts of 16 x 16 of a wave's 64 x 32
#define PARTS_N 2
typedef f16x16 operand;
typedef f32x8 accumulator;
#else
#error "no matrix cores"
#endif

// c = a b^T, f16 with sums in f32: tiles of 128 x 128 by 4 waves of 64 lanes or 8 of 32, on matrix
// cores; the next tiles of a and b are loaded while the present ones are multiplied.
__kernel GROUP(ITEMS, 1, 1) void gemm_mfma(__global const half *restrict a,
                                           __global const half *restrict b,
                                           __global half *restrict c, int n, int k) {
    __local half tile_a[TILE][PITCH] __attribute__((aligned(16)));
    __local half tile_b[TILE][PITCH] __attribute__((aligned(16)));
    const int id = LOCAL_X, lane = lane_id();
    const int first_m = wave_id() % 2 * 64, first_n = wave_id() / 2 * (WAVE == 64 ? 64 : 32);
    const int row = id / 4, column = id % 4 * 8;
    __global const half *from_a = a + (GROUP_Y * TILE + row) * k + column;
    __global const half *from_b = b + (GROUP_X * TILE + row) * k + column;
    f16x8 next_a[2], next_b[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        next_a[i] = *(__global const f16x8 *)(from_a + i * 64 * k);
        next_b[i] = *(__global const f16x8 *)(from_b + i * 64 * k);
    }
    accumulator sum[PARTS_M][PARTS_N];
#pragma unroll
    for (int i = 0; i < PARTS_M; i++)
#pragma unroll
        for (int j = 0; j < PARTS_N; j++) sum[i][j] = 0.0f;

    for (int start = 0; start < k; start += STEP) {
        barrier_local();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            *(__local f16x8 *)&tile_a[row + i * 64][column] = next_a[i];
            *(__local f16x8 *)&tile_b[row + i * 64][column] = next_b[i];
        }
        barrier_local();
        if (start + STEP < k) {
            from_a += STEP;
            from_b += STEP;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                next_a[i] = *(__global const f16x8 *)(from_a + i * 64 * k);
                next_b[i] = *(__global const f16x8 *)(from_b + i * 64 * k);
            }
        }
#if defined(__gfx1100__)
#pragma unroll
        for (int at = 0; at < STEP; at += 16) {
            operand part_a[PARTS_M], part_b[PARTS_N];
#pragma unroll
            for (int i = 0; i < PARTS_M; i++)
                part_a[i] = *(__local const operand *)&tile_a[first_m + i * 16 + lane % 16][at];
#pragma unroll
            for (int j = 0; j < PARTS_N; j++)
                part_b[j] = *(__local const operand *)&tile_b[first_n + j * 16 + lane % 16][at];
#pragma unroll
            for (int i = 0; i < PARTS_M; i++)
#pragma unroll
                for (int j = 0; j < PARTS_N; j++)
                    sum[i][j] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(part_a[i], part_b[j],
                                                                           sum[i][j]);
        }
#else
#pragma unroll
        for (int at = 0; at < STEP; at += 16) {
            const int mine = at + lane / 16 * 4;
            operand part_a[PARTS_M], part_b[PARTS_N];
#pragma unroll
            for (int i = 0; i < PARTS_M; i++)
                part_a[i] = *(__local const operand *)&tile_a[first_m + i * 16 + lane % 16][mine];
#pragma unroll
            for (int j = 0; j < PARTS_N; j++)
                part_b[j] = *(__local const operand *)&tile_b[first_n + j * 16 + lane % 16][mine];
#pragma unroll
            for (int i = 0; i < PARTS_M; i++)
#pragma unroll
                for (int j = 0; j < PARTS_N; j++)
                    sum[i][j] = __builtin_amdgcn_mfma_f32_16x16x16f16(part_a[i], part_b[j],
                                                                      sum[i][j], 0, 0, 0);
        }
#endif
    }
    __global half *to = c + (GROUP_Y * TILE + first_m) * n + GROUP_X * TILE + first_n;
#pragma unroll
    for (int i = 0; i < PARTS_M; i++)
#pragma unroll
        for (int j = 0; j < PARTS_N; j++) {
#if defined(__gfx1100__)
#pragma unroll
            for (int e = 0; e < 8; e++)
                to[(i * 16 + 2 * e + lane / 16) * n + j * 16 + lane % 16] = (half)sum[i][j][e];
#else
#pragma unroll
            for (int e = 0; e < 4; e++)
                to[(i * 16 + lane / 16 * 4 + e) * n + j * 16 + lane % 16] = (half)sum[i][j][e];
#endif
        }
}
