// Stand-in for the CUDA runtime's header: memory of the device is memory of the host.
#pragma once

#include <stdlib.h>
#include <string.h>

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
};
inline const char *cudaGetErrorString(cudaError_t) { return "out of memory"; }
inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    *properties = {"Simulated \"GPU\"", 8, 0, 2};
    return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int *version) { return *version = 12040, cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
template <typename T>
cudaError_t cudaMalloc(T **address, size_t bytes) {
    *address = static_cast<T *>(malloc(bytes));
    if (*address) memset(static_cast<void *>(*address), 0xDB, bytes < 1 << 20 ? bytes : 1 << 20);
    return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    return memcpy(to, from, bytes), cudaSuccess;
}
