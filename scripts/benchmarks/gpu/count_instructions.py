"""Count the instructions that warps execute to place registers and to live epochs.

    python scripts/benchmarks/gpu/count_instructions.py [--kernel NAME] [--architecture 90]
        [--slices 24] [--life NAMES]

No card is needed: the host device of the tests runs the PTX that NVRTC makes, and each of its
instructions adds one to a counter of its lane. What a warp executes is taken as what its busiest
lane does. ptxas makes somewhat fewer machine instructions; what lanes wait for is not counted.
Prints, for each technique and kernel of the engine, instructions of warps for a residency in a pass
of a slice. Then slices live two epochs of some kernels in turn, the second with more faults:
instructions for a slice and turn, bytes that are read of sums of residencies, and launches.
"""

import argparse
import collections
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
for folder in ("tests/support", "scripts/benchmarks/gpu"):
    sys.path.insert(0, str(ROOT / folder))

from engine_cases import duties_of  # noqa: E402
from host_gpu import host_device, ptx  # noqa: E402
from host_gpu.compiler import HEADERS, compile_kernels  # noqa: E402

from mcage.engines.cuda_engine import CudaEngine  # noqa: E402
from mcage.engines.cuda_engine.programs import Runner  # noqa: E402
from mcage.engines.stress import TrackedCells, Turns  # noqa: E402
from mcage.geometry import GCN  # noqa: E402
from mcage.replays.prepare import prepare  # noqa: E402
from mcage.techniques import TECHNIQUES  # noqa: E402
from mcage.traces.library import bundled_trace  # noqa: E402

LANES = 32
PLACED = 32
"""Slices in passes: a warp of lanes."""

FAULTY = 30
"""Faulty entries of a slice, one block each."""


TRACKED = 380
"""Cells of a slice that are tracked."""

SUMS = np.zeros(2, dtype=np.uint64)
"""Where the table of sums is in memory, and how many bytes it has."""


class _Counting(ptx._Translation):
    """Translation in which each instruction counts itself, and what it reads of sums."""

    def __init__(self, text, name):
        self.counts, self.bytes = (
            np.zeros((len(text.splitlines()) + 1, LANES), dtype=np.uint64) for _ in range(2)
        )
        self.kernel_of, self._kernel = {}, ""
        super().__init__(text, name)

    def _prologue(self):
        yield from super()._prologue()
        address = self.counts.ctypes.data
        yield f"static unsigned long long *const counts = (unsigned long long *){address}ull;"
        yield "#define COUNT(line) counts[line * 32 + host_gpu::current->lane]++;"
        read, sums = self.bytes.ctypes.data, SUMS.ctypes.data
        yield f"static unsigned long long *const read_bytes = (unsigned long long *){read}ull;"
        yield f"static const unsigned long long *const sums = (unsigned long long *){sums}ull;"
        yield (
            "#define READ(line, address, size) if ((address) - sums[0] < sums[1]) "
            "read_bytes[line * 32 + host_gpu::current->lane] += size;"
        )

    def _line_of_module(self, number, line):
        if match := ptx._ENTRY.match(line):
            self._kernel = match[1]
        return super()._line_of_module(number, line)

    def _line_of_body(self, number, line):
        made = super()._line_of_body(number, line)
        match = ptx._INSTRUCTION.match(line)
        if not match or ptx._REGISTERS.match(line):
            return made
        self.kernel_of[number] = self._kernel
        return f"COUNT({number}) {self._reading(number, *match.groups())} {made}"

    def _reading(self, number, negated, guard, instruction, operands):
        """What counts the bytes of sums that an instruction reads."""
        access = ptx._MEMORY.match(instruction)
        if not access or access[1] != "ld" or access[3] not in (None, "global"):
            return ""
        base, offset = ptx._ADDRESS.match(ptx._split(operands)[1]).groups()
        size = int(access[5] or 1) * ptx._bits(access[6]) // 8
        read = f"READ({number}, {base[1:]} + u64({offset or 0}ll), {size})"
        return f"if ({'!' if negated else ''}{guard[1:]}) {{ {read} }}" if guard else read


def counts_of(translations):
    """Instructions of warps by kernel, so far."""
    totals = collections.Counter()
    for translation in translations:
        for number, kernel in translation.kernel_of.items():
            totals[kernel] += int(translation.counts[number].max())
    return totals


def bytes_of(translations):
    """Bytes of sums that kernels have read so far: the lanes of a warp read side by side."""
    totals = collections.Counter()
    for translation in translations:
        for number, kernel in translation.kernel_of.items():
            totals[kernel] += int(translation.bytes[number].sum())
    return totals


def count_life(engine, translations, name, kernels, slices):
    """Print what two epochs of slices take that run kernels in turn."""
    replays = [prepare(bundled_trace(kernel), TECHNIQUES[name]) for kernel in kernels]
    duties, draw = duties_of(replays), np.random.default_rng(2)
    cells = draw.integers(GCN.cells, size=slices * TRACKED)
    tracked = TrackedCells(np.repeat(np.arange(slices), TRACKED), cells)
    sums = engine._here().tables.of(duties).residencies.arrays[6]
    SUMS[:] = sums.__array_interface__["data"][0], sums.nbytes
    stress, launched, launch = (
        engine.stress(duties, tracked, slices),
        collections.Counter(),
        Runner.launch,
    )

    def counting(runner, program, kernel, *given, **named):
        launched[kernel] += 1
        launch(runner, program, kernel, *given, **named)

    Runner.launch = counting
    counts, read = counts_of(translations), bytes_of(translations)
    maps, turns = np.zeros((slices, GCN.entries), dtype=np.uint8), len(kernels)
    for _ in range(2):
        for fault_map in maps:
            faulty = draw.permutation(GCN.entries)[:FAULTY]
            fault_map[faulty] |= (1 << draw.integers(GCN.blocks, size=FAULTY)).astype(np.uint8)
        order = np.array([draw.permutation(turns) for _ in range(slices)])
        stress.add(np.arange(slices), Turns(order, np.full(order.shape, 1 / turns)), maps, 1e7)
        assert stress.longest.all()
    Runner.launch = launch
    lived = 2 * turns * slices
    counts, read = counts_of(translations) - counts, bytes_of(translations) - read
    for kernel, count in counts.items():
        print(
            f"{name} {kernel}: {count / lived:,.0f} instructions, "
            f"{read[kernel] / lived:,.0f} bytes of sums for a slice and turn, "
            f"{launched[kernel]} launches",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="MatrixTranspose")
    parser.add_argument("--architecture", type=int, default=90)
    parser.add_argument("--slices", type=int, default=24, help="that live")
    parser.add_argument("--life", default="DCT,Reduction,MatrixTranspose", help="kernels in turn")
    options = parser.parse_args()
    translations = []

    def library(text, name, architecture, races):
        translations.append(_Counting(text, name))
        return compile_kernels(translations[-1].text, name, HEADERS, {}, architecture, races)

    host_device._library_of_ptx = library
    device = host_device.HostDevice(ptx=True, architecture=options.architecture)
    engine = CudaEngine([device])
    placement = engine._here().walk.placement
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
    count_life(engine, translations, "rrcd+rc+rar", options.life.split(","), options.slices)


if __name__ == "__main__":
    main()
