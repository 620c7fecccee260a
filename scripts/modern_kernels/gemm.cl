#include "gpu.h"

#define TILE 64
#define STEP 16
#define PITCH (TILE + 4)

// c = alpha a b + beta c: tiles of 64 x 64, of which a work-item holds 4 x 4 in registers; the
// next tiles of a and b are loaded while the present ones, in the other half of local memory, are
// multiplied.
__kernel GROUP(256, 1, 1) void gemm(__global const float *restrict a,
                                    __global const float *restrict b, __global float *restrict c,
                                    float alpha, float beta, int n, int k) {
    __local float tile_a[2][STEP][PITCH] __attribute__((aligned(16))); // transposed
    __local float tile_b[2][STEP][TILE] __attribute__((aligned(16)));
    const int id = LOCAL_X;
    const int column = (id % 16) * 4;
    const int row = (id / 16) * 4;
    const int a_row = id / 4;
    const int a_column = (id % 4) * 4;
    const int b_row = id / 16;
    __global const float *from_a = a + (GROUP_Y * TILE + a_row) * k + a_column;
    __global const float *from_b = b + b_row * n + GROUP_X * TILE + column;

    f32x4 next_a = *(__global const f32x4 *)from_a;
    f32x4 next_b = *(__global const f32x4 *)from_b;
    f32x4 sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int start = 0; start < k; start += STEP) {
        const int now = start / STEP % 2;
        tile_a[now][a_column + 0][a_row] = next_a.x;
        tile_a[now][a_column + 1][a_row] = next_a.y;
        tile_a[now][a_column + 2][a_row] = next_a.z;
        tile_a[now][a_column + 3][a_row] = next_a.w;
        *(__local f32x4 *)&tile_b[now][b_row][column] = next_b;
        barrier_local();
        if (start + STEP < k) {
            from_a += STEP;
            from_b += STEP * n;
            next_a = *(__global const f32x4 *)from_a;
            next_b = *(__global const f32x4 *)from_b;
        }
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            const f32x4 part_a = *(__local const f32x4 *)&tile_a[now][i][row];
            const f32x4 part_b = *(__local const f32x4 *)&tile_b[now][i][column];
            sum[0] += part_a.x * part_b;
            sum[1] += part_a.y * part_b;
            sum[2] += part_a.z * part_b;
            sum[3] += part_a.w * part_b;
        }
    }
    __global float *to = c + (GROUP_Y * TILE + row) * n + GROUP_X * TILE + column;
#pragma unroll
    for (int i = 0; i < 4; i++, to += n)
        *(__global f32x4 *)to = alpha * sum[i] + beta * *(__global const f32x4 *)to;
}
