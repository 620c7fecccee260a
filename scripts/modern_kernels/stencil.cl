#include "gpu.h"

#define WIDTH 32
#define HEIGHT 8

// A step of heat flow, 7 points: a group walks along z with a plane in local memory, the planes
// above and below in registers. Cells beyond the box are held at their neighbour's value.
__kernel GROUP(WIDTH, HEIGHT, 1) void stencil(__global const float *restrict input,
                                              __global float *restrict output, float centre,
                                              float side, int nx, int ny, int nz) {
    __local float plane[HEIGHT + 2][WIDTH + 2];
    const int lx = LOCAL_X, ly = LOCAL_Y;
    const int x = GROUP_X * WIDTH + lx, y = GROUP_Y * HEIGHT + ly;
    const int pitch = nx * ny;
    const int at = y * nx + x;
    const int west = x > 0 ? at - 1 : at, east = x < nx - 1 ? at + 1 : at;
    const int north = y > 0 ? at - nx : at, south = y < ny - 1 ? at + nx : at;
    float here = input[at];
    float below = here;
    for (int z = 0; z < nz; z++) {
        __global const float *from = input + z * pitch;
        const float above = z + 1 < nz ? from[pitch + at] : here;
        barrier_local();
        plane[ly + 1][lx + 1] = here;
        if (lx == 0) plane[ly + 1][0] = from[west];
        if (lx == WIDTH - 1) plane[ly + 1][WIDTH + 1] = from[east];
        if (ly == 0) plane[0][lx + 1] = from[north];
        if (ly == HEIGHT - 1) plane[HEIGHT + 1][lx + 1] = from[south];
        barrier_local();
        const float around = (plane[ly + 1][lx] + plane[ly + 1][lx + 2]) +
                             (plane[ly][lx + 1] + plane[ly + 2][lx + 1]) + (below + above);
        output[z * pitch + at] = centre * here + side * around;
        below = here;
        here = above;
    }
}
