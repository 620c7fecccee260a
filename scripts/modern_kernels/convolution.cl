#include "gpu.h"

#define SIDE 16
#define INPUTS 4
#define OUTPUTS 4 // channels of a work-item

// 3 x 3, zeros around the image, ReLU: a tile of 16 x 16 pixels a group and 4 channels of output a
// work-item; one channel of input at a time passes through local memory.
__kernel GROUP(SIDE, SIDE, 1) void convolution(__global const float *restrict input,
                                               __global const float *restrict weight,
                                               __global const float *restrict bias,
                                               __global float *restrict output, int width,
                                               int height) {
    __local float tile[SIDE + 2][SIDE + 2];
    const int lx = LOCAL_X, ly = LOCAL_Y;
    const int id = ly * SIDE + lx;
    const int x0 = GROUP_X * SIDE, y0 = GROUP_Y * SIDE, first = GROUP_Z * OUTPUTS;
    float sum[OUTPUTS];
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) sum[o] = bias[first + o];
    for (int channel = 0; channel < INPUTS; channel++) {
        __global const float *from = input + channel * width * height;
        barrier_local();
        for (int i = id; i < (SIDE + 2) * (SIDE + 2); i += SIDE * SIDE) {
            const int x = x0 + i % (SIDE + 2) - 1, y = y0 + i / (SIDE + 2) - 1;
            const bool inside = (u32)x < (u32)width && (u32)y < (u32)height;
            (&tile[0][0])[i] = inside ? from[y * width + x] : 0.0f;
        }
        barrier_local();
        float near[9];
#pragma unroll
        for (int i = 0; i < 9; i++) near[i] = tile[ly + i / 3][lx + i % 3];
        __global const float *w = weight + (first * INPUTS + channel) * 9;
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
#pragma unroll
            for (int i = 0; i < 9; i++) sum[o] += near[i] * w[o * INPUTS * 9 + i];
        }
    }
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++)
        output[((first + o) * height + y0 + ly) * width + x0 + lx] = max_f32(sum[o], 0.0f);
}
