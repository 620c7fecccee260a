"""Count the instructions that warps execute to place registers and to log where they lived.

    python scripts/benchmarks/gpu/count_instructions.py [--kernel NAME] [--architecture 90]

No card is needed: the host device of the tests runs the PTX that NVRTC makes, and each of its
instructions adds one to a counter of its lane. What a warp executes is taken as what its busiest
lane does. ptxas makes somewhat fewer machine instructions; what lanes wait for is not counted.
Prints, for each technique and kernel of the engine, instructions of warps for a residency in a pass
of a slice.
"""

import argparse
import collections
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
for folder in ("tests/support", "scripts/benchmarks/gpu"):
    sys.path.insert(0, str(ROOT / folder))

from host_gpu import host_device, ptx  # noqa: E402
from host_gpu.compiler import HEADERS, compile_kernels  # noqa: E402

from mcage.engines.cuda_engine import CudaEngine  # noqa: E402
from mcage.geometry import GCN  # noqa: E402
from mcage.replays.prepare import prepare  # noqa: E402
from mcage.techniques import TECHNIQUES  # noqa: E402
from mcage.traces.library import bundled_trace  # noqa: E402

LANES = 32
PLACED = 32
"""Slices in passes: a warp of lanes."""

FAULTY = 30
"""Faulty entries of a slice, one block each."""


class _Counting(ptx._Translation):
    """Translation in which each instruction of a kernel counts itself."""

    def __init__(self, text, name):
        self.counts = np.zeros((len(text.splitlines()) + 1, LANES), dtype=np.uint64)
        self.kernel_of, self._kernel = {}, ""
        super().__init__(text, name)

    def _prologue(self):
        yield from super()._prologue()
        address = self.counts.ctypes.data
        yield f"static unsigned long long *const counts = (unsigned long long *){address}ull;"
        yield "#define COUNT(line) counts[line * 32 + host_gpu::current->lane]++;"

    def _line_of_module(self, number, line):
        if match := ptx._ENTRY.match(line):
            self._kernel = match[1]
        return super()._line_of_module(number, line)

    def _line_of_body(self, number, line):
        made = super()._line_of_body(number, line)
        if ptx._INSTRUCTION.match(line) and not ptx._REGISTERS.match(line):
            self.kernel_of[number] = self._kernel
            return f"COUNT({number}) {made}"
        return made


def counts_of(translations):
    """Instructions of warps by kernel, so far."""
    totals = collections.Counter()
    for translation in translations:
        for number, kernel in translation.kernel_of.items():
            totals[kernel] += int(translation.counts[number].max())
    return totals


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="MatrixTranspose")
    parser.add_argument("--architecture", type=int, default=90)
    options = parser.parse_args()
    translations = []

    def library(text, name, architecture, races):
        translations.append(_Counting(text, name))
        return compile_kernels(translations[-1].text, name, HEADERS, {}, architecture, races)

    host_device._library_of_ptx = library
    device = host_device.HostDevice(ptx=True, architecture=options.architecture)
    placement = CudaEngine([device])._here().walk.placement
    trace = bundled_trace(options.kernel)
    draw = np.random.default_rng(1)
    for name in ("rrcd", "rrcd+rc+rar", "gr-guard"):
        replay = prepare(trace, TECHNIQUES[name])
        slices = PLACED // replay.passes
        maps = np.zeros((slices, GCN.entries), dtype=np.uint8)
        for fault_map in maps:
            faulty = draw.permutation(GCN.entries)[:FAULTY]
            fault_map[faulty] = 1 << draw.integers(GCN.blocks, size=FAULTY)
        before = counts_of(translations)
        ((_, occupants),) = placement.occupants(
            (replay,), np.zeros((slices, 1), dtype=np.int64), maps
        )
        placed = int(np.asarray(occupants.starts)[:, -1].sum())
        for kernel, count in (counts_of(translations) - before).items():
            print(f"{name} {kernel} {count / placed:.1f} ({placed} residencies)", flush=True)


if __name__ == "__main__":
    main()
