"""How fast are kernels emulated, and in how much memory? Four kernels in OpenCL C, on one core.

    python scripts/benchmarks/bench_emulate.py [--arch gfx90a] [--against CHECKOUT] [--rounds 3]

For each kernel: wave instructions; seconds of processor time (user and system) of execution alone,
and of the whole run to the trace without the compiler; the largest memory beyond that of a small
run, in bytes an instruction. With another checkout, runs alternate with runs of that one, and the
least of each are compared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[2]

KERNELS = {
    "mandelbrot": """
__kernel void mandelbrot(__global int *steps, int width, int most) {
    int i = get_global_id(0);
    float cx = (i % width) * 3.0f / width - 2.0f, cy = (i / width) * 2.0f / width - 1.0f;
    float x = 0, y = 0;
    int step = 0;
    while (step < most && x * x + y * y < 4.0f) {
        float next = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = next;
        step++;
    }
    steps[i] = step;
}""",
    "gemm": """
__kernel void gemm(__global const float *a, __global const float *b, __global float *c, int n) {
    __local float from_a[16][16], from_b[16][17];
    int x = get_local_id(0) & 15, y = get_local_id(0) >> 4;
    int tiles = n / 16, column = get_group_id(0) % tiles * 16 + x;
    int row = get_group_id(0) / tiles * 16 + y;
    float sum = 0;
    for (int tile = 0; tile < tiles; tile++) {
        from_a[y][x] = a[row * n + tile * 16 + x];
        from_b[y][x] = b[(tile * 16 + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 16; k++) sum += from_a[y][k] * from_b[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}""",
    "bodies": """
__kernel void bodies(__global const float4 *place, __global float4 *force, int n) {
    int i = get_global_id(0);
    float4 own = place[i];
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < n; j++) {
        float4 other = place[j];
        float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
        float inverse = native_rsqrt(dx * dx + dy * dy + dz * dz + 0.01f);
        float scale = other.w * inverse * inverse * inverse;
        x += dx * scale;
        y += dy * scale;
        z += dz * scale;
    }
    force[i] = (float4)(x, y, z, 0);
}""",
    "scan": """
__kernel void scan(__global const int *x, __global int *y, int rounds) {
    __local int sums[256];
    int item = get_local_id(0), carry = 0;
    for (int round = 0; round < rounds; round++) {
        int i = (get_group_id(0) * rounds + round) * 256 + item;
        sums[item] = x[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int step = 1; step < 256; step *= 2) {
            int before = item >= step ? sums[item - step] : 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            sums[item] += before;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        y[i] = carry + sums[item];
        carry += sums[255];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}""",
}

ARGUMENTS = {
    "mandelbrot": (64, "steps=i32[16384] width=128 most=300"),
    "gemm": (144, "a=f32[36864]~normal b=f32[36864]~normal c=f32[36864] n=192"),
    "bodies": (8, "place=f32[8192]~normal force=f32[8192] n=512"),
    "scan": (64, "x=i32[262144]~integers(0,9) y=i32[262144] rounds=16"),
}
"""Work-groups of 256 work-items, and arguments."""

RUN = """
import json, resource, sys, time
import mcage
from mcage.tracing.emulation import waves
from mcage.tracing.emulation.emulate import Emulation
from mcage.tracing.emulation.record import ready_kernel

source, arch, groups, arguments, most = sys.argv[1:]
inside = [0.0]
finish = waves.Run.finish

def timed(run):
    begin = time.process_time()
    finish(run)
    inside[0] += time.process_time() - begin

def run(groups):
    ready = ready_kernel(mcage.Program.of(
        source, arch, arguments, (groups,), (256,), most_instructions=int(most)))
    inside[0], begin = 0.0, time.process_time()
    made = Emulation(ready.launch).run()
    return made.instructions, inside[0], time.process_time() - begin

waves.Run.finish = timed
run(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([*run(int(groups)),
                  (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024]))
"""


def measured(checkout, name, source, arch):
    groups, arguments = ARGUMENTS[name]
    command = [sys.executable, "-c", RUN, source, arch, str(groups), arguments, "50000000"]
    core = {min(os.sched_getaffinity(0))}
    said = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        cwd=checkout,
        check=True,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, core),
    )
    return json.loads(said.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="gfx90a")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kernel", choices=KERNELS, action="append")
    options = parser.parse_args()
    checkouts = [HERE, *([options.against] if options.against else [])]
    with tempfile.TemporaryDirectory() as folder:
        for name in options.kernel or KERNELS:
            source = Path(folder) / f"{name}.cl"
            source.write_text(KERNELS[name])
            rounds = [
                [measured(checkout, name, source, options.arch) for checkout in checkouts]
                for _ in range(options.rounds)
            ]
            best = [list(map(min, zip(*runs, strict=True))) for runs in zip(*rounds, strict=True)]
            for checkout, (count, inside, whole, memory) in zip(checkouts, best, strict=True):
                print(
                    f"{name:10} {options.arch} {checkout.name}: {count:,} instructions, execution "
                    f"{inside:.2f} s ({count / inside:,.0f} a second), run {whole:.2f} s, "
                    f"{memory / count:.0f} bytes an instruction"
                )
            if len(best) > 1:
                (_, *own), (_, *other) = best
                ratios = [theirs / mine for mine, theirs in zip(own, other, strict=True)]
                print("{:10} times: execution {:.1f}, run {:.1f}".format(name, *ratios))


if __name__ == "__main__":
    main()
