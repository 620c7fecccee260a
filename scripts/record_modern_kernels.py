"""Record the kernels of ``scripts/modern_kernels`` on emulated processors, as they are bundled.

    python scripts/record_modern_kernels.py FOLDER [--arch gfx90a ...] [--kernel attention ...]
        [--latency 1] [--flags=-ffast-math]

Each trace is NAME.ARCH.h5. Needs clang, lld and llvm-objdump, and Triton for the kernels in Triton
(``pip install '.[triton]'``). Kernels that a processor cannot run, for want of matrix cores or of
Triton's support, are named and left out.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from mcage.errors import UserError
from mcage.traces import save_trace
from mcage.tracing.emulation.record import Request, record_kernel

KERNELS = Path(__file__).parent / "modern_kernels"
ARCHITECTURES = ("gfx900", "gfx90a", "gfx1100")
NOT_BUNDLED = (
    *("bitonic_sort", "fft", "fp8_gemm", "layernorm_backward", "moe_gemm", "paged_attention"),
)
"""Kernels whose traces would make the package too large; recorded when named."""


COMPUTE_UNITS = {("attention", "gfx900"): 2}
"""Where half of the grid gives four generations: one window of the kernel is open at a time."""


def source_of(name):
    """OpenCL C where there is any, else Triton."""
    opencl = KERNELS / f"{name}.cl"
    return opencl if opencl.exists() else KERNELS / f"{name}.py"


def names():
    """Kernels that are bundled, by their Python files."""
    return sorted({path.stem for path in KERNELS.glob("*.py")} - set(NOT_BUNDLED))


def record(name, arch, folder, latency, flags):
    """Record a kernel; what there is to say of it."""
    begin = time.monotonic()
    request = Request(
        source_of(name),
        arch,
        KERNELS / f"{name}.py",
        compute_units=COMPUTE_UNITS.get((name, arch), 1),
        latency=latency,
        flags=flags if source_of(name).suffix == ".cl" else (),
    )
    try:
        recorded = record_kernel(request)
    except UserError as error:
        return f"{name} {arch}: left out: {error}"
    trace = recorded.trace
    path = folder / f"{name}.{arch}.h5"
    save_trace(trace, path)
    errors = ", ".join(f"{output} {error:.1e}" for output, error in recorded.errors.items())
    return (
        f"{name} {arch}: {trace.windows} windows of {trace.window_sizes}, {trace.generations} "
        f"generations, {trace.writes:,} writes, {path.stat().st_size / 1e6:.2f} MB, "
        f"errors {errors} (at most {recorded.tolerance:g}), {time.monotonic() - begin:.0f} s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", action="append", choices=(*ARCHITECTURES, "gfx942", "gfx1030"))
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--flags", default="", help="further options of clang")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [
            pool.submit(record, name, arch, options.folder, options.latency, options.flags.split())
            for arch in options.arch or ARCHITECTURES
            for name in options.kernel or names()
        ]
        for job in jobs:
            print(job.result(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
