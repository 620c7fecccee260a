"""Runs of a kernel with wrong registers, one at a time, from the parts of the emulator alone.

The oracle of `mcage.tracing.emulation.faults`, without its memories side by side, its work-groups
that run alone and its plans: one memory, the whole grid, and after each write and before each
instruction a look at what is wrong.
"""

from pathlib import Path

import numpy as np

import mcage
from mcage.errors import UserError
from mcage.tracing.emulation.emulate import Emulation
from mcage.tracing.emulation.machine import Machine
from mcage.tracing.emulation.memory import ALIGNMENT
from mcage.tracing.emulation.record import ready_kernel
from mcage.tracing.emulation.waves import Budget, Instructions, Run
from mcage.tracing.importing.contents import Contents

BLEND = """__kernel void blend(__global const int *index, __global const float *x,
                     __global float *y, int n) {
    __local float part[64];
    int item = __builtin_amdgcn_workitem_id_x();
    int i = __builtin_amdgcn_workgroup_id_x() * 128 + item;
    if (item < 64) part[item] = x[index[i]];
    __builtin_amdgcn_s_barrier();
    float sum = 0;
    for (int k = 0; k < 6; k++) sum += part[(item + k * 5) & 63] * (k + 1);
    if (item & 1) sum = sum * 0.5f + x[i];
    if (i < n) y[i] = sum;
}
"""
"""Two waves of a work-group that meet, branches, indices, local memory."""

BLEND_ARGUMENTS = """
import numpy as np
GRID, BLOCK = (8,), (128,)

def arguments(random):
    return {
        "index": random.integers(0, 1024, 1024).astype(np.int32),
        "x": random.normal(0, 1, 1024).astype(np.float32),
        "y": np.zeros(1024, np.float32),
        "n": 1000,
    }
"""
"""Its Python file."""

TICKETS = """__kernel void tickets(__global int *next, __global int *y) {
    int item = __builtin_amdgcn_workitem_id_x();
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + item;
    int ticket = __builtin_amdgcn_workgroup_id_x();
    if (item == 0) ticket = __sync_fetch_and_add(next, 1);
    ticket = __builtin_amdgcn_readfirstlane(ticket);
    y[ticket * 64 + item] = i * 3 + 1;
}
"""
"""Work-groups that hang on one another: where each writes, an atomic addition says."""


def request_of(folder: Path, kernel: str, arch: str = "gfx90a") -> mcage.Program:
    """What is asked of the emulator for one of these kernels."""
    folder.mkdir(exist_ok=True)
    source = folder / f"{kernel}.cl"
    source.write_text({"blend": BLEND, "tickets": TICKETS}[kernel])
    random = np.random.default_rng(3)
    if kernel == "tickets":
        arguments = {"next": np.zeros(1, np.int32), "y": np.zeros(6 * 64, np.int32)}
        return mcage.Program.of(source, arch, arguments, (6,), (64,))
    arguments = {
        "index": random.integers(0, 1024, 1024).astype(np.int32),
        "x": random.normal(0, 1, 1024).astype(np.float32),
        "y": np.zeros(1024, np.float32),
        "n": 1000,
    }
    return mcage.Program.of(source, arch, arguments, (8,), (128,))


def emulation_of(request: mcage.Program) -> Emulation:
    """The kernel in memory."""
    ready = ready_kernel(request)
    return Emulation(ready.launch)


class _Machine(Machine):
    """Cells of some registers give one value for ever."""

    stuck: dict
    global_waves: list
    on_read = False
    been_read: set

    def put(self, number, bits, lanes=None):
        if self.on_read:  # what the write leaves alone has been lost by a read before
            written = self.lanes_on if lanes is None else lanes
            for place, wave in enumerate(np.arange(self.waves)[self.group].tolist()):
                if written[place].any():
                    if (wave, number) in self.been_read:
                        self.force_wave(number, wave)
                    self.been_read.discard((wave, number))
        super().put(number, bits, lanes)
        if not self.on_read:
            self.force(number)

    def force(self, number):
        for wave in np.arange(self.waves)[self.group].tolist():
            self.force_wave(number, wave)

    def force_wave(self, number, wave):
        if (found := self.stuck.get((*self.global_waves[wave], number))) is not None:
            mask, value = found
            row = self.vector[number, wave]
            row[:] = (row & ~mask) | (value & mask)


class _Run(Run):
    interprets = False

    def set_flips(self, flips):
        self.flips = flips

    def _begin(self, code, numbers):
        super()._begin(code, numbers)
        m = self.machine
        for wave in numbers.tolist():
            for flip in self.flips.get(m.global_waves[wave], ()):
                if flip.step == self.steps[wave]:
                    m.vector[flip.register, wave] ^= flip.bits
            for register in code.reads if m.on_read else ():
                if (wave, register) in m.been_read:
                    m.force_wave(register, wave)
                m.been_read.add((wave, register))


def memory_after(emulation: Emulation, flips=None, stuck=None, on_read=False, most=10_000_000):
    """Memory after a run with faults, or the text of the error with which it ended."""
    memory = emulation.memory
    memory.bytes[:] = emulation.initial
    pages = memory.valid.reshape(-1, ALIGNMENT // 4)
    pages[:] = pages.any(axis=1)[:, None]
    each, program = emulation.waves_of_group, None
    for first in range(0, emulation.groups, emulation.groups_together):
        groups = np.arange(first, min(first + emulation.groups_together, emulation.groups))
        m = emulation.machine(groups, _Machine)
        m.stuck = stuck or {}
        m.global_waves = [(int(group), wave) for group in groups for wave in range(each)]
        m.on_read, m.been_read = on_read, set()
        for number in range(emulation.preloaded if not on_read else 0):
            m.force(number)
        program = program or Instructions(emulation.code, emulation.image, m)
        here = np.repeat(np.arange(len(groups)), each)
        nobody = np.zeros(m.waves, np.bool_)
        run = _Run(m, program, here, nobody, Contents(m.lanes), Budget(most))
        run.set_flips(flips or {})
        try:
            run.finish()
        except UserError as error:
            return str(error)
    return memory.bytes.copy()
