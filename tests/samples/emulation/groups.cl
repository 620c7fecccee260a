#define PUT(T, k) \
        out_##T[8 * i + k] = k == 0 ? sub_group_reduce_add(x_##T[i]) : \
            k == 1 ? sub_group_reduce_min(x_##T[i]) : k == 2 ? sub_group_reduce_max(x_##T[i]) : \
            k == 3 ? sub_group_scan_inclusive_add(x_##T[i]) : \
            k == 4 ? sub_group_scan_exclusive_add(x_##T[i]) : \
            k == 5 ? sub_group_scan_exclusive_max(x_##T[i]) : \
            k == 6 ? sub_group_broadcast(x_##T[i], 3) : sub_group_shuffle_xor(x_##T[i], 1);
#define ALL(T) PUT(T, 0) PUT(T, 1) PUT(T, 2) PUT(T, 3) PUT(T, 4) PUT(T, 5) PUT(T, 6) PUT(T, 7)
__kernel void k(__global const int *x_int, __global int *out_int, __global const float *x_float,
                __global float *out_float, __global const long *x_long, __global long *out_long,
                __global uint *n) {
    uint i = get_group_id(2) * 80 + get_local_linear_id();
    ALL(int) ALL(float) ALL(long)
    uint facts[14] = {get_sub_group_size(), get_max_sub_group_size(), get_num_sub_groups(),
                      get_sub_group_id(), get_sub_group_local_id(), get_local_linear_id(),
                      get_global_linear_id(), sub_group_any(x_int[i] > 40),
                      sub_group_all(x_int[i] < 40), ctz((uint)x_int[i]), get_work_dim(),
                      get_num_groups(2), get_local_size(0), get_global_size(1)};
    for (int fact = 0; fact < 14; fact++) n[14 * i + fact] = facts[fact];
}
