"""Single flips into the registers of kernels of today, beside shares that others have measured.

Run it from the repository: python scripts/validation/check_injection.py [--flips N]. It needs
clang-19, lld-19, llvm-19 and libclc-19.

A second table has flips of results of instructions (``--weight instruction``) in a product of
matrices, an LU decomposition and a step of heat, beside the shares that NVBitFI found in MxM, LUD
and Hotspot (UFRGS-CAROL, dsn_2021, avf_benchmarks.csv: NVIDIA's code of other sources).

In the first, each flip is one bit of one register that the kernel uses,
in a lane of a wave of the recorded SIMD unit, before one of the instructions that the wave executes
(every instruction is as likely as any other), and all memory is compared bit for bit. So were the
shares below taken, with another emulator, other inputs and another limit of memory: there, an
address outside of a buffer was detected, here one outside of its pages.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import mcage
from mcage.engines import select_engine
from mcage.stats.estimates import proportion
from mcage.studies.inject.kernel import InjectedKernel
from mcage.studies.inject.outcomes import DETECTED, SILENT, Fate
from mcage.studies.inject.study import InjectStudy
from mcage.tracing.emulation.emulate import Emulation
from mcage.tracing.emulation.faults import End, Flip, RunFaults
from mcage.tracing.emulation.waves import Budget, Instructions, Run
from mcage.tracing.importing.contents import Contents

KERNELS = Path(__file__).parents[1] / "modern_kernels"

OTHERS = {
    "gemv_int4": (300, 87.7, 10.0, 2.3),
    "tree_reduction": (300, 81.3, 10.0, 8.7),
    "stencil": (250, 72.8, 12.8, 14.4),
    "softmax": (200, 71.5, 17.5, 11.0),
    "spmv": (250, 55.6, 22.4, 22.0),
    "gemm_mfma": (300, 44.3, 41.0, 14.7),
    "scan": (300, 39.0, 25.7, 35.3),
    "gemm": (40, 27.5, 37.5, 35.0),
    "random_numbers": None,
}
"""Flips, and shares in percent that were masked, silently wrong (SDC) and detected (DUE)."""


LIKE = {
    "mxm": (
        0.959,
        "(8,8)",
        "(8,8)",
        """__kernel void mxm(__global const float *a, __global const float *b, __global float *c) {
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += a[64 * y + k] * b[64 * k + x];
    c[64 * y + x] = sum;
}""",
        """def arguments(random):
    a, b = (random.normal(0, 1, (64, 64)).astype(np.float32) for _ in range(2))
    return {"a": a, "b": b, "c": np.zeros((64, 64), np.float32)}

def expected(a, b, c):
    return {"c": a.astype(float) @ b}""",
    ),
    "lud": (
        0.820,
        "(8,)",
        "(64,)",
        """__kernel void lud(__global float *m) {
    __local float a[32][33];
    int item = get_local_id(0), column = item % 32;
    m += 1024 * get_group_id(0);
    for (int row = item / 32; row < 32; row += 2) a[row][column] = m[32 * row + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 31; k++) {
        if (item > k && item < 32) a[item][k] /= a[k][k];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int row = k + 1 + item / 32; row < 32; row += 2)
            if (column > k) a[row][column] -= a[row][k] * a[k][column];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int row = item / 32; row < 32; row += 2) m[32 * row + column] = a[row][column];
}""",
        """def arguments(random):
    m = random.uniform(0, 1, (8, 32, 32)) + 32 * np.eye(32)
    return {"m": m.astype(np.float32)}

def expected(m):
    a = m.astype(float)
    for k in range(31):
        a[:, k + 1 :, k] /= a[:, k : k + 1, k]
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]
    return {"m": a}""",
    ),
    "hotspot": (
        0.253,
        "(4,4)",
        "(16,16)",
        """__kernel void hotspot(__global const float *heat, __global const float *power,
                      __global float *out) {
    __local float tile[18][18];
    int lx = get_local_id(0), ly = get_local_id(1), x = get_global_id(0), y = get_global_id(1);
    for (int n = 16 * ly + lx; n < 324; n += 256) {
        int ty = clamp(16 * (int)get_group_id(1) + n / 18 - 1, 0, 63);
        int tx = clamp(16 * (int)get_group_id(0) + n % 18 - 1, 0, 63);
        tile[n / 18][n % 18] = heat[64 * ty + tx];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float here = tile[ly + 1][lx + 1];
    float across = tile[ly + 1][lx] + tile[ly + 1][lx + 2] - 2 * here;
    float along = tile[ly][lx + 1] + tile[ly + 2][lx + 1] - 2 * here;
    out[64 * y + x] = here + 0.5f * power[64 * y + x] + 0.1f * (across + along)
        + 0.001f * (80.0f - here);
}""",
        """def arguments(random):
    heat = random.uniform(320, 340, (64, 64)).astype(np.float32)
    power = random.uniform(0, 0.01, (64, 64)).astype(np.float32)
    return {"heat": heat, "power": power, "out": np.zeros((64, 64), np.float32)}

def expected(heat, power, out):
    wide = np.pad(heat.astype(float), 1, mode="edge")
    here = wide[1:-1, 1:-1]
    around = wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1] - 4 * here
    return {"out": here + 0.5 * power + 0.1 * around + 0.001 * (80 - here)}""",
    ),
}
"""Share that NVBitFI changed (AVF), grid, block, source and Python file of each."""


def results_of_instructions(count: int, arch: str, seed: int) -> None:
    """Print fates of flips of results of instructions beside what NVBitFI found."""
    print(f"\n{'results':<10}{'masked':>20}{'SDC':>20}{'beyond 1 %':>20}{'DUE':>20}  NVBitFI")
    with TemporaryDirectory() as folder:
        for name, (published, grid, block, source, inputs) in LIKE.items():
            (Path(folder) / f"{name}.cl").write_text(source)
            head = f"import numpy as np\nGRID, BLOCK = {grid}, {block}\nTOLERANCE = 1e-5\n\n"
            (Path(folder) / f"{name}.py").write_text(head + inputs + "\n")
            program = {"source": f"{folder}/{name}.cl", "args": f"{folder}/{name}.py", "arch": arch}
            spec = mcage.InjectSpec.from_mapping(
                {"program": program, "inject": {"weight": "instruction"}}
                | {"instances": count, "seed": seed}
            )
            study = InjectStudy(spec, *select_engine("numba"))
            fate = np.concatenate(
                [study.compute(n, min(n + 500, count))["fate"] for n in range(0, count, 500)],
                axis=1,
            )
            words = []
            for fates in ((Fate.MASKED,), SILENT, (Fate.SDC,), DETECTED):
                of = proportion(int(np.isin(fate, fates).sum()), count)
                words.append(f"{100 * of.value:5.1f} ({100 * of.lower:.1f}...{100 * of.upper:.1f})")
            print(f"{name:<10}" + "".join(f"{word:>20}" for word in words) + f"  {100 * published}")


def flips_of(kernel: InjectedKernel, count: int, seed: int) -> list[RunFaults]:
    """Flips, every instruction of every wave and every bit of the registers in use alike."""
    random = np.random.default_rng(seed)
    steps = np.array([len(wave.issued) for wave in kernel.waves])
    asked = []
    for _ in range(count):
        window = int(random.choice(len(steps), p=steps / steps.sum()))
        bits = np.zeros(kernel.geometry.components, np.uint32)
        bits[random.integers(len(bits))] = np.uint32(1) << np.uint32(random.integers(32))
        register = int(random.integers(kernel.emulation.kernel.registers))
        flip = Flip(int(random.integers(steps[window])), register, bits)
        asked.append(RunFaults(flips={kernel.place_of(window): [flip]}))
    return asked


class _Accesses(Run):
    """Notes which registers waves read and write, instruction by instruction."""

    interprets = False

    def _begin(self, code, numbers) -> None:
        super()._begin(code, numbers)
        on = self.machine.lanes_on.any(axis=1)
        for wave in numbers[on].tolist():
            self.reads[wave].append((int(self.steps[wave]), code.reads))

    def _prepare(self) -> None:
        super()._prepare()
        waves = range(self.machine.waves)
        self.reads = [[] for _ in waves]
        self.changes = [[] for _ in waves]
        self.machine.wrote = self._note

    def _note(self, register, lanes) -> None:
        numbers = np.arange(self.machine.waves)[self.machine.group]
        for place, wave in enumerate(numbers.tolist()):
            if lanes[place].any():
                step = int(self.steps[wave]) - 1
                self.changes[wave].append((step, register, lanes[place].copy()))


def ace_by_step(kernel: InjectedKernel) -> float:
    """Share of lanes x registers x instructions whose next access is a read, of written lanes."""
    emulation: Emulation = kernel.emulation
    emulation.memory.bytes[:] = emulation.initial
    wanted = {(wave.work_group, wave.number) for wave in kernel.waves}
    needed, total, program = 0, 0, None
    each, used = emulation.waves_of_group, emulation.kernel.registers
    for first in range(0, emulation.groups, emulation.groups_together):
        groups = np.arange(first, min(first + emulation.groups_together, emulation.groups))
        machine = emulation.machine(groups)
        program = program or Instructions(emulation.code, emulation.image, machine)
        here = np.repeat(np.arange(len(groups)), each)
        nobody = np.zeros(machine.waves, np.bool_)
        run = _Accesses(machine, program, here, nobody, Contents(machine.lanes), Budget(10**9))
        run.finish()
        for wave in range(machine.waves):
            if (int(groups[here[wave]]), wave % each) not in wanted:
                continue
            steps = int(run.steps[wave])
            needed += _needed(run.reads[wave], run.changes[wave], steps, emulation)
            total += steps * used * machine.lanes
    return needed / total


def _needed(reads, changes, steps: int, emulation: Emulation) -> int:
    """Lanes x instructions before which a flip of a register meets a read."""
    lanes = emulation.kernel.lanes
    events = [(step, 0, register, None) for step, registers in reads for register in registers]
    events += [(step, 1, register, written) for step, register, written in changes]
    events += [(-1, 1, number, np.ones(lanes, bool)) for number in range(emulation.preloaded)]
    since, last, needed = {}, {}, 0
    for step, is_write, register, written in sorted(events, key=lambda event: event[:3]):
        begin = since.setdefault(register, np.full(lanes, steps))
        read = last.setdefault(register, np.full(lanes, -1))
        if not is_write:
            read[begin <= step] = step
            continue
        ended = written & (read >= begin)
        needed += int((read - begin + 1)[ended].sum())
        begin[written], read[written] = step + 1, -1
    for register, begin in since.items():
        ended = last[register] >= begin
        needed += int((last[register] - begin + 1)[ended].sum())
    return needed


def main() -> None:
    """Print a line for each kernel, and one for what others have measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--arch", default="gfx90a")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    results_of_instructions(given.flips, given.arch, given.seed)
    print(f"{'kernel':<16}{'flips':>6}  {'masked':>18}{'SDC':>18}{'DUE':>18}    ACE")
    for name, others in OTHERS.items():
        source = KERNELS / f"{name}.cl"
        request = mcage.Program.of(source, given.arch, source.with_suffix(".py"))
        kernel = InjectedKernel(request)
        ran = kernel.reruns.run(flips_of(kernel, given.flips, given.seed))
        ended = sum(each.end != End.COMPLETE for each in ran)
        silent = sum(each.end == End.COMPLETE and len(each.place) > 0 for each in ran)
        shares = (proportion(n, len(ran)) for n in (len(ran) - ended - silent, silent, ended))
        words = (
            f"{100 * s.value:5.1f} ({100 * s.lower:.1f}...{100 * s.upper:.1f})" for s in shares
        )
        print(
            f"{name:<16}{len(ran):>6}  "
            + "".join(f"{word:>18}" for word in words)
            + f"  {100 * ace_by_step(kernel):5.1f}"
        )
        if others:
            count, *known = others
            words = []
            for share in known:
                of = proportion(round(share / 100 * count), count)
                words.append(f"{share:5.1f} ({100 * of.lower:.1f}...{100 * of.upper:.1f})")
            print(f"{'  others':<16}{count:>6}  " + "".join(f"{word:>18}" for word in words))


if __name__ == "__main__":
    main()
