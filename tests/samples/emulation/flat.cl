__kernel void k(__global int *y, __global int *old, __local int *t) {
    int i = get_local_id(0);
    volatile int mine[4];
    for (int k = 0; k < 4; k++) mine[k] = 10 * i + k;
    t[i] = 100 * i;
    barrier(CLK_LOCAL_MEM_FENCE);
    volatile int *p = i % 3 == 0 ? (volatile int *)&mine[i & 3]
                      : i % 3 == 1 ? (volatile int *)&t[i] : (volatile int *)&y[i];
    *p += 7;
    old[i] = *p;
    if (i % 3) old[i] += atomic_fetch_add_explicit((volatile atomic_int *)p, 5,
                                                   memory_order_relaxed, memory_scope_work_group);
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = t[i] + mine[i & 3] + (i % 3 == 2 ? y[i] : 0);
}
