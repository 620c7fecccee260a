#include "gpu.h"

#define ITEMS 256
#define POINTS 1024

INLINE f32x2 times(f32x2 a, f32x2 b) {
    return (f32x2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// Discrete Fourier transforms of 1,024 complex numbers, one a group: radix 4, self-sorting
// (Stockham), 5 passes through local memory.
__kernel GROUP(ITEMS, 1, 1) void fft(__global const float *restrict input,
                                     __global float *restrict output) {
    __local float real[POINTS], imaginary[POINTS];
    __global const f32x2 *from = (__global const f32x2 *)input + GROUP_X * POINTS;
    __global f32x2 *to = (__global f32x2 *)output + GROUP_X * POINTS;
    const int id = LOCAL_X;
    f32x2 x[4];
#pragma unroll
    for (int r = 0; r < 4; r++) x[r] = from[id + r * ITEMS];
#pragma unroll
    for (int done = 1; done < POINTS; done *= 4) {
        const int rest = id & (done - 1);
        const float turn = (float)rest * (-0.25f / (float)done);
        if (done > 1) {
#pragma unroll
            for (int r = 1; r < 4; r++) {
                const f32x2 twiddle = {__builtin_amdgcn_cosf(turn * (float)r),
                                       __builtin_amdgcn_sinf(turn * (float)r)};
                x[r] = times(x[r], twiddle);
            }
        }
        const f32x2 even = x[0] + x[2], odd = x[0] - x[2], more = x[1] + x[3];
        const f32x2 less = x[1] - x[3];
        const f32x2 turned = {less.y, -less.x}; // -i times it
        x[0] = even + more;
        x[1] = odd + turned;
        x[2] = even - more;
        x[3] = odd - turned;
        const int at = (id - rest) * 4 + rest;
        if (done * 4 == POINTS) {
#pragma unroll
            for (int r = 0; r < 4; r++) to[at + r * done] = x[r];
        } else {
#pragma unroll
            for (int r = 0; r < 4; r++) {
                real[at + r * done] = x[r].x;
                imaginary[at + r * done] = x[r].y;
            }
            barrier_local();
#pragma unroll
            for (int r = 0; r < 4; r++)
                x[r] = (f32x2)(real[id + r * ITEMS], imaginary[id + r * ITEMS]);
            barrier_local();
        }
    }
}
