#define AT(of, a) ((int)__builtin_amdgcn_work##of##_id_##a())
__kernel void k(__global int *x) {
    int group = (AT(group, z) * 3 + AT(group, y)) * 2 + AT(group, x);
    int item = (AT(item, z) * 4 + AT(item, y)) * 5 + AT(item, x);
    x[group * 120 + item] = 10000 * group + item;
}
__kernel void none(void) {}
