"""Record the kernels of ``scripts/modern_kernels`` on emulated processors, as they are bundled.

    python scripts/record_modern_kernels.py FOLDER [--arch gfx90a ...] [--kernel attention ...]
        [--latency 1] [--flags=-ffast-math]
    python scripts/record_modern_kernels.py FOLDER --slice nvidia

Each trace is NAME.ARCH.h5, or with ``--slice`` NAME.SLICE.h5: code for gfx1100 on the slice of
another GPU with 32 lanes. Needs clang, lld and llvm-objdump, and Triton for the kernels in Triton
(``pip install '.[triton]'``). Kernels that a processor cannot run, for want of matrix cores or of
Triton's support, are named and left out.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from mcage.errors import UserError
from mcage.geometry import preset
from mcage.traces import save_trace
from mcage.tracing.emulation.emulate import Emulation
from mcage.tracing.emulation.program import Program
from mcage.tracing.emulation.record import ready_kernel, recorded

KERNELS = Path(__file__).parent / "modern_kernels"
ARCHITECTURES = ("gfx900", "gfx90a", "gfx1100")
ALL = (*ARCHITECTURES, "gfx942", "gfx1030")
NOT_BUNDLED = (
    *("bitonic_sort", "fft", "fp8_gemm", "layernorm_backward", "moe_gemm", "paged_attention"),
)
"""Kernels whose traces would make the package too large; recorded when named."""


COMPUTE_UNITS = {("attention", "gfx900"): 2, ("gemm_mfma", "nvidia"): 2}
"""Where half of the grid gives three generations or more: few windows are open at a time."""

WITH_32_LANES = "gfx1100"


def source_of(name):
    """OpenCL C where there is any, else Triton."""
    opencl = KERNELS / f"{name}.cl"
    return opencl if opencl.exists() else KERNELS / f"{name}.py"


def names():
    """Kernels that are bundled, by their Python files."""
    return sorted({path.stem for path in KERNELS.glob("*.py")} - set(NOT_BUNDLED))


def recorded_on(name, place, latency=1.0, flags=()):
    """A kernel on a processor, or on another slice."""
    arch, geometry = (place, None) if place in ALL else (WITH_32_LANES, preset(place))
    request = Program.of(
        source_of(name),
        arch,
        KERNELS / f"{name}.py",
        compute_units=COMPUTE_UNITS.get((name, place), 1),
        latency=latency,
        flags=flags if source_of(name).suffix == ".cl" else (),
    )
    ready = ready_kernel(request)
    ready = replace(ready, launch=replace(ready.launch, geometry=geometry))
    return recorded(ready, Emulation(ready.launch).run())


def record(name, place, folder, latency, flags):
    """Record a kernel into a file; what there is to say of it."""
    begin = time.monotonic()
    try:
        made = recorded_on(name, place, latency, flags)
    except UserError as error:
        return f"{name} {place}: left out: {error}"
    trace = made.trace
    path = folder / f"{name}.{place}.h5"
    save_trace(trace, path)
    errors = ", ".join(f"{output} {error:.1e}" for output, error in made.errors.items())
    return (
        f"{name} {place}: {trace.windows} windows of {trace.window_sizes}, {trace.generations} "
        f"generations, {trace.writes:,} writes, {path.stat().st_size / 1e6:.2f} MB, "
        f"errors {errors} (at most {made.tolerance:g}), {time.monotonic() - begin:.0f} s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", action="append", choices=ALL)
    parser.add_argument("--slice", help="a preset of 32 lanes, such as nvidia")
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--flags", default="", help="further options of clang")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    places = [options.slice] if options.slice else options.arch or ARCHITECTURES
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [
            pool.submit(record, name, place, options.folder, options.latency, options.flags.split())
            for place in places
            for name in options.kernel or names()
        ]
        for job in jobs:
            print(job.result(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
