typedef float real; typedef struct { real factor; int count; } P;
__kernel void k(__global const real *x, __global const real *none, P p, float4 v, real a,
                __global real *y) {
    int i = get_global_id(0);
    y[i] = (i < p.count ? p.factor * x[i] : a * v.y) + (none ? none[i] : 0);
}
