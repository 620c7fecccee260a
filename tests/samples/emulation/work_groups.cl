__kernel void k(__global const int *x, __global const float *f, __global int *y,
                __global float *z, __global half *h, __local float *t) {
    size_t i = get_global_id(0), n = get_global_size(0), l = get_local_id(0), m = get_local_size(0);
    event_t copied = async_work_group_copy(t, f + get_group_id(0) * m, m, 0);
    int v = x[i];
    y[i] = work_group_reduce_add(v);
    y[n + i] = work_group_scan_inclusive_add(v);
    y[2 * n + i] = work_group_scan_exclusive_max(v);
    y[3 * n + i] = work_group_broadcast(v, 70);
    y[4 * n + i] = work_group_any(v > 48);
    y[5 * n + i] = work_group_all(v < 49);
    y[6 * n + i] = mad_hi(v << 20, v << 20, v);
    wait_group_events(1, &copied);
    z[i] = work_group_reduce_min(t[m - 1 - l]);
    vstore_half_rtz(t[l], i, h);
    z[n + i] = vload_half(i, h);
    work_group_barrier(CLK_LOCAL_MEM_FENCE);
}
