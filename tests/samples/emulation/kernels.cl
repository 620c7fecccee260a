// Two kernels of a file: one with loads, arithmetic and stores; one with LDS, barriers, a loop,
// private memory and atomics. Compiled into the code objects beside it, as README.md says.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

#define ID(axis) ((int)__builtin_amdgcn_workitem_id_##axis())
#define GROUP(axis) ((int)__builtin_amdgcn_workgroup_id_##axis())

__kernel void saxpy(__global const float *x, __global float *y, float a, int n, int width) {
    int i = (GROUP(y) * 4 + ID(y)) * width + GROUP(x) * 16 + ID(x);
    if (i < n) y[i] = a * x[i] + y[i];
}

__kernel void mixed(__global const half *values, __global int *counts, __local int *part, int n) {
    __local float sums[64];
    int id = ID(x), group = GROUP(x);
    int kept[8];
    float sum = 0;
    for (int i = id; i < n; i += 64) {
        float value = values[group * n + i];
        kept[i & 7] = (int)(value * 16.0f);
        sum += __builtin_amdgcn_exp2f(value) / (1.0f + value * value);
    }
    sums[id] = sum;
    part[id] = kept[id & 7];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    for (int step = 32; step; step /= 2) {
        if (id < step) sums[id] += sums[id + step];
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    }
    __scoped_atomic_fetch_add(counts + (part[63 - id] & 15), 1, __ATOMIC_RELAXED,
                              __MEMORY_SCOPE_DEVICE);
    if (id == 0) counts[16 + group] = (int)sums[0];
}
