// CUDA's vector types, as plain structures with CUDA's alignments.
#pragma once

#define HOST_GPU_VECTORS(scalar, name, bytes)                                                    \
    struct alignas(2 * bytes) name##2 { scalar x, y; };                                          \
    struct name##3 { scalar x, y, z; };                                                          \
    struct alignas(4 * bytes > 16 ? 16 : 4 * bytes) name##4 { scalar x, y, z, w; };              \
    inline name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                         \
    inline name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }            \
    inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

HOST_GPU_VECTORS(signed char, char, 1)
HOST_GPU_VECTORS(unsigned char, uchar, 1)
HOST_GPU_VECTORS(short, short, 2)
HOST_GPU_VECTORS(unsigned short, ushort, 2)
HOST_GPU_VECTORS(int, int, 4)
HOST_GPU_VECTORS(unsigned int, uint, 4)
HOST_GPU_VECTORS(long long, longlong, 8)
HOST_GPU_VECTORS(unsigned long long, ulonglong, 8)
HOST_GPU_VECTORS(float, float, 4)
HOST_GPU_VECTORS(double, double, 8)

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
