// Functions of OpenCL C that libclc does not have (OpenCL C 2.0, sections 6.13.1, 6.13.3, 6.13.10,
// 6.13.11, 6.13.15), and those of sub-groups (Extension Specification 2.0, section 9.17), by the
// builtins of clang. A sub-group is a wave; sums and scans add lane l - 1, l - 2, l - 4 ... of each
// lane l in turn, and those of a work-group then add the sums of waves.

#define MCAGE static inline __attribute__((always_inline, overloadable))

MCAGE size_t get_local_linear_id(void) {
    return (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) +
           get_local_id(0);
}
MCAGE size_t get_global_linear_id(void) {
    return (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) +
           get_global_id(0);
}
MCAGE uint get_max_sub_group_size(void) { return __builtin_amdgcn_wavefrontsize(); }
MCAGE uint mcage_items(void) { return get_local_size(0) * get_local_size(1) * get_local_size(2); }
MCAGE uint get_num_sub_groups(void) {
    return (mcage_items() + get_max_sub_group_size() - 1) / get_max_sub_group_size();
}
MCAGE uint get_enqueued_num_sub_groups(void) { return get_num_sub_groups(); }
MCAGE uint get_sub_group_id(void) { return get_local_linear_id() / get_max_sub_group_size(); }
MCAGE uint get_sub_group_local_id(void) {
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)) &
           (get_max_sub_group_size() - 1);
}
MCAGE uint get_sub_group_size(void) {
    return min(get_max_sub_group_size(),
               mcage_items() - get_sub_group_id() * get_max_sub_group_size());
}
MCAGE void sub_group_barrier(cl_mem_fence_flags flags) {
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup");
    __builtin_amdgcn_wave_barrier();
}

__local long *mcage_local(void);
MCAGE void work_group_barrier(cl_mem_fence_flags flags) { barrier(flags); }
MCAGE void wait_group_events(int count, event_t *events) {
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

MCAGE int mcage_from(int x, uint lane) { return __builtin_amdgcn_ds_bpermute(lane << 2, x); }

#define MCAGE_OPERATION(T, name, operation, neutral)                                               \
    MCAGE T sub_group_scan_inclusive_##name(T x) {                                                 \
        uint lane = get_sub_group_local_id();                                                      \
        for (uint step = 1; step < get_max_sub_group_size(); step *= 2) {                          \
            T y = sub_group_shuffle(x, lane < step ? lane : lane - step);                          \
            x = lane < step ? x : operation;                                                       \
        }                                                                                          \
        return x;                                                                                  \
    }                                                                                              \
    MCAGE T sub_group_scan_exclusive_##name(T x) {                                                 \
        uint lane = get_sub_group_local_id();                                                      \
        T before = sub_group_shuffle(sub_group_scan_inclusive_##name(x), lane - (lane != 0));      \
        return lane == 0 ? (neutral) : before;                                                     \
    }                                                                                              \
    MCAGE T sub_group_reduce_##name(T x) {                                                         \
        return sub_group_shuffle(sub_group_scan_inclusive_##name(x), get_sub_group_size() - 1);    \
    }                                                                                              \
    MCAGE T mcage_add_waves_##name(T x, T last) {                                                  \
        __local T *sums = mcage_share(last, get_sub_group_local_id() == get_sub_group_size() - 1,  \
                                      get_sub_group_id());                                         \
        for (uint wave = get_sub_group_id(); wave-- > 0;) {                                        \
            T y = sums[wave];                                                                      \
            x = operation;                                                                         \
        }                                                                                          \
        return x;                                                                                  \
    }                                                                                              \
    MCAGE T work_group_scan_inclusive_##name(T x) {                                                \
        T last = sub_group_scan_inclusive_##name(x);                                               \
        return mcage_add_waves_##name(last, last);                                                 \
    }                                                                                              \
    MCAGE T work_group_scan_exclusive_##name(T x) {                                                \
        return mcage_add_waves_##name(sub_group_scan_exclusive_##name(x),                          \
                                      sub_group_scan_inclusive_##name(x));                         \
    }                                                                                              \
    MCAGE T work_group_reduce_##name(T x) {                                                        \
        return mcage_broadcast(work_group_scan_inclusive_##name(x), mcage_items() - 1);            \
    }

#define MCAGE_TYPE(T, least, most, moved)                                                          \
    MCAGE T sub_group_shuffle(T x, uint lane) { return moved; }                                    \
    MCAGE T sub_group_broadcast(T x, uint lane) { return sub_group_shuffle(x, lane); }             \
    MCAGE T sub_group_shuffle_xor(T x, uint mask) {                                                \
        return sub_group_shuffle(x, get_sub_group_local_id() ^ mask);                              \
    }                                                                                              \
    MCAGE T sub_group_shuffle_up(T x, uint by) {                                                   \
        return sub_group_shuffle(x, get_sub_group_local_id() - by);                                \
    }                                                                                              \
    MCAGE T sub_group_shuffle_down(T x, uint by) {                                                 \
        return sub_group_shuffle(x, get_sub_group_local_id() + by);                                \
    }                                                                                              \
    MCAGE __local T *mcage_share(T x, int mine, uint place) {                                      \
        __local T *shared = (__local T *)mcage_local();                                            \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        if (mine)                                                                                  \
            shared[place] = x;                                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        return shared;                                                                             \
    }                                                                                              \
    MCAGE T mcage_broadcast(T x, uint item) {                                                      \
        return *mcage_share(x, get_local_linear_id() == item, 0);                                  \
    }                                                                                              \
    MCAGE T work_group_broadcast(T x, size_t i) { return mcage_broadcast(x, i); }                  \
    MCAGE T work_group_broadcast(T x, size_t i, size_t j) {                                        \
        return mcage_broadcast(x, j * get_local_size(0) + i);                                      \
    }                                                                                              \
    MCAGE T work_group_broadcast(T x, size_t i, size_t j, size_t k) {                              \
        return mcage_broadcast(x, (k * get_local_size(1) + j) * get_local_size(0) + i);            \
    }                                                                                              \
    MCAGE_OPERATION(T, add, y + x, 0)                                                              \
    MCAGE_OPERATION(T, min, min(y, x), most)                                                       \
    MCAGE_OPERATION(T, max, max(y, x), least)

#define MCAGE_TWO(as)                                                                              \
    as((int2)(mcage_from(as_int2(x).x, lane), mcage_from(as_int2(x).y, lane)))

MCAGE_TYPE(int, INT_MIN, INT_MAX, mcage_from(x, lane))
MCAGE_TYPE(uint, 0, UINT_MAX, mcage_from(x, lane))
MCAGE_TYPE(float, -INFINITY, INFINITY, as_float(mcage_from(as_int(x), lane)))
MCAGE_TYPE(long, LONG_MIN, LONG_MAX, MCAGE_TWO(as_long))
MCAGE_TYPE(ulong, 0, ULONG_MAX, MCAGE_TWO(as_ulong))
MCAGE_TYPE(double, -INFINITY, INFINITY, MCAGE_TWO(as_double))

MCAGE int sub_group_any(int x) { return sub_group_reduce_max((int)(x != 0)); }
MCAGE int sub_group_all(int x) { return sub_group_reduce_min((int)(x != 0)); }
MCAGE int work_group_any(int x) { return work_group_reduce_max((int)(x != 0)); }
MCAGE int work_group_all(int x) { return work_group_reduce_min((int)(x != 0)); }

#define MCAGE_CTZ(T, U)                                                                            \
    MCAGE T ctz(T x) { return x == 0 ? 8 * sizeof(T) : popcount((U)(~(U)x & (U)((U)x - 1))); }
MCAGE_CTZ(char, uchar)
MCAGE_CTZ(uchar, uchar)
MCAGE_CTZ(short, ushort)
MCAGE_CTZ(ushort, ushort)
MCAGE_CTZ(int, uint)
MCAGE_CTZ(uint, uint)
MCAGE_CTZ(long, ulong)
MCAGE_CTZ(ulong, ulong)

#define mad_hi(a, b, c) (mul_hi(a, b) + (c))

#define MCAGE_SCOPE(...) (memory_scope_device, ##__VA_ARGS__)
#define atomic_init(p, v) __opencl_atomic_init(p, v)
#define atomic_load_explicit(p, order, ...)                                                        \
    __opencl_atomic_load(p, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_store_explicit(p, v, order, ...)                                                    \
    __opencl_atomic_store(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_exchange_explicit(p, v, order, ...)                                                 \
    __opencl_atomic_exchange(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_compare_exchange_strong_explicit(p, expected, v, order, failure, ...)               \
    __opencl_atomic_compare_exchange_strong(p, expected, v, order, failure,                        \
                                            MCAGE_SCOPE(__VA_ARGS__))
#define atomic_compare_exchange_weak_explicit(p, expected, v, order, failure, ...)                 \
    __opencl_atomic_compare_exchange_weak(p, expected, v, order, failure, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_fetch_add_explicit(p, v, order, ...) \
    __opencl_atomic_fetch_add(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_fetch_add(p, v) atomic_fetch_add_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_sub_explicit(p, v, order, ...) \
    __opencl_atomic_fetch_sub(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_fetch_sub(p, v) atomic_fetch_sub_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_or_explicit(p, v, order, ...) \
    __opencl_atomic_fetch_or(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_fetch_or(p, v) atomic_fetch_or_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_xor_explicit(p, v, order, ...) \
    __opencl_atomic_fetch_xor(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_fetch_xor(p, v) atomic_fetch_xor_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_and_explicit(p, v, order, ...) \
    __opencl_atomic_fetch_and(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_fetch_and(p, v) atomic_fetch_and_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_min_explicit(p, v, order, ...) \
    __opencl_atomic_fetch_min(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_fetch_min(p, v) atomic_fetch_min_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_max_explicit(p, v, order, ...) \
    __opencl_atomic_fetch_max(p, v, order, MCAGE_SCOPE(__VA_ARGS__))
#define atomic_fetch_max(p, v) atomic_fetch_max_explicit(p, v, memory_order_seq_cst)
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store(p, v) atomic_store_explicit(p, v, memory_order_seq_cst)
#define atomic_exchange(p, v) atomic_exchange_explicit(p, v, memory_order_seq_cst)
