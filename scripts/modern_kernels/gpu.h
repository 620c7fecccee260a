// What the kernels share: types, ids, barriers and sums across lanes, from compiler builtins alone.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef half f16x2 __attribute__((ext_vector_type(2)));
typedef half f16x4 __attribute__((ext_vector_type(4)));
typedef half f16x8 __attribute__((ext_vector_type(8)));
typedef half f16x16 __attribute__((ext_vector_type(16)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

#define GROUP(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))
#define INLINE static inline __attribute__((always_inline))

#define LOCAL_X ((int)__builtin_amdgcn_workitem_id_x())
#define LOCAL_Y ((int)__builtin_amdgcn_workitem_id_y())
#define GROUP_X ((int)__builtin_amdgcn_workgroup_id_x())
#define GROUP_Y ((int)__builtin_amdgcn_workgroup_id_y())
#define GROUP_Z ((int)__builtin_amdgcn_workgroup_id_z())
#define WAVE __AMDGCN_WAVEFRONT_SIZE

#define LOG2_E 1.44269504088896341f

INLINE void barrier_local(void) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// The lane of a work-item of a one-dimensional group.
INLINE int lane_id(void) { return LOCAL_X & (WAVE - 1); }

INLINE int wave_id(void) { return LOCAL_X / WAVE; }

INLINE float exp_fast(float x) { return __builtin_amdgcn_exp2f(x * LOG2_E); }

INLINE float max_f32(float a, float b) { return __builtin_fmaxf(a, b); }

INLINE float from_lane(float x, int lane) {
    return __builtin_astype(__builtin_amdgcn_ds_bpermute(lane * 4, __builtin_astype(x, int)), float);
}

// Lanes of a row of 16 by data-parallel primitives; lanes without a source read 0.
#define DPP_I32(x, control) __builtin_amdgcn_update_dpp(0, (x), (control), 0xf, 0xf, true)
#define DPP_F32(x, control) \
    __builtin_astype(DPP_I32(__builtin_astype((x), int), (control)), float)
#define QUAD_XOR_1 0xB1
#define QUAD_XOR_2 0x4E
#define ROW_SHIFT(lanes) (0x110 + (lanes))
#define ROW_ROTATE(lanes) (0x120 + (lanes))
#define XOR_16(x) \
    __builtin_astype(__builtin_amdgcn_ds_swizzle(__builtin_astype((x), int), 0x401F), float)

// The sum over each row of 16 lanes, in all of its lanes.
INLINE float row_sum(float x) {
    x += DPP_F32(x, QUAD_XOR_1);
    x += DPP_F32(x, QUAD_XOR_2);
    x += DPP_F32(x, ROW_ROTATE(4));
    x += DPP_F32(x, ROW_ROTATE(8));
    return x;
}

INLINE float wave_sum(float x) {
    x = row_sum(x);
    x += XOR_16(x);
    if (WAVE == 64) x += from_lane(x, lane_id() ^ 32);
    return x;
}

INLINE float wave_max(float x) {
    x = max_f32(x, DPP_F32(x, QUAD_XOR_1));
    x = max_f32(x, DPP_F32(x, QUAD_XOR_2));
    x = max_f32(x, DPP_F32(x, ROW_ROTATE(4)));
    x = max_f32(x, DPP_F32(x, ROW_ROTATE(8)));
    x = max_f32(x, XOR_16(x));
    if (WAVE == 64) x = max_f32(x, from_lane(x, lane_id() ^ 32));
    return x;
}

// Over a group of `size` work-items, in all of them; `partial` holds a number for each wave.
INLINE float group_sum(float x, int size, __local float *partial) {
    x = wave_sum(x);
    if (lane_id() == 0) partial[wave_id()] = x;
    barrier_local();
    float total = 0.0f;
#pragma unroll
    for (int wave = 0; wave < size / WAVE; wave++) total += partial[wave];
    barrier_local();
    return total;
}

INLINE float group_max(float x, int size, __local float *partial) {
    x = wave_max(x);
    if (lane_id() == 0) partial[wave_id()] = x;
    barrier_local();
    float largest = partial[0];
#pragma unroll
    for (int wave = 1; wave < size / WAVE; wave++) largest = max_f32(largest, partial[wave]);
    barrier_local();
    return largest;
}
