__attribute__((noinline)) int inner(int *p, int n) {
    volatile int own[8];
    for (int k = 0; k < 8; k++) own[k] = p[k & 3] * k + n;
    int s = 0;
    for (int k = 0; k < 8; k++) s += own[(k + n) & 7] * (k + 1);
    p[n & 3] += s;
    return s;
}
__kernel void k(__global int *y) {
    int i = get_local_id(0), mine[4] = {i, 2 * i, 3, 4};
    int a = inner(mine, i);
    a += inner(mine, i + 1);
    y[i] = a + mine[0] + 3 * mine[1] + 5 * mine[2] + 7 * mine[3];
}
