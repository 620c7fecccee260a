__kernel void k(__global int *y, __global const int *x, int n) {
    int i = get_local_id(0), w[16], a = i, stack[48], top = 0;
    for (int t = 0; t < 16; t++) w[t] = x[16 * i + t];
    for (int t = 16; t < n; t++) {
        int v = w[(t - 16) & 15] + (w[(t - 7) & 15] ^ w[a & 15]);
        w[t & 15] = v;
        a = a * 31 + v;
    }
    for (int t = 0; t < 40; t++)
        if ((a >> (t & 31)) & 1) stack[top++] = w[t & 15] + t;
        else if (top) a += stack[--top];
    y[i] = a;
}
