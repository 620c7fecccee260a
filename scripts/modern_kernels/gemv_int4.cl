#include "gpu.h"

#define ITEMS 256
#define COLUMNS 2048
#define SHARE 128 // columns of a scale
#define ROWS 8    // of a group

// output = weight x: rows of weights of 4 bits (8 a word, low bits first, 8 means 0), with a scale
// for each 128 of a row. A wave takes a row at a time; x waits in local memory.
__kernel GROUP(ITEMS, 1, 1) void gemv_int4(__global const u32 *restrict weight,
                                           __global const half *restrict scale,
                                           __global const half *restrict x,
                                           __global float *restrict output) {
    __local f16x8 tile[COLUMNS / 8];
#pragma unroll
    for (int i = LOCAL_X; i < COLUMNS / 8; i += ITEMS)
        tile[i] = ((__global const f16x8 *)x)[i];
    barrier_local();
    for (int i = wave_id(); i < ROWS; i += ITEMS / WAVE) {
        const int row = GROUP_X * ROWS + i;
        __global const u32x4 *words = (__global const u32x4 *)weight + row * (COLUMNS / 32);
        __global const half *scales = scale + row * (COLUMNS / SHARE);
        float sum = 0.0f;
        for (int j = lane_id(); j < COLUMNS / 32; j += WAVE) {
            const u32x4 four = words[j];
            float part = 0.0f;
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const f16x8 factor = tile[j * 4 + w];
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    const int digit = (int)((four[w] >> (4 * e)) & 15) - 8;
                    part += (float)digit * (float)factor[e];
                }
            }
            sum += part * (float)scales[j / (SHARE / 32)];
        }
        sum = wave_sum(sum);
        if (lane_id() == 0) output[row] = sum;
    }
}
