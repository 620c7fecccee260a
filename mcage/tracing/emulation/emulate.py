"""From a kernel and its arguments to a register trace: dispatch, execution, time, recording."""

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from mcage.errors import UserError
from mcage.geometry import SliceGeometry, preset
from mcage.plain_text import shown
from mcage.tracing.emulation.arithmetic import Array
from mcage.tracing.emulation.code_object import MOST_ITEMS, Argument, CodeObject, KernelObject
from mcage.tracing.emulation.compilers import bytes_by_value, described, fitting, require_elements
from mcage.tracing.emulation.machine import EXEC, PRIVATE_BASE, SHARED_BASE, TTMP, Machine
from mcage.tracing.emulation.memory import SCRATCH_BASE, Memory, address_of_runtime
from mcage.tracing.emulation.program import Program
from mcage.tracing.emulation.timing import accesses_in_order, time_waves
from mcage.tracing.emulation.waves import Budget, Instructions, Reached, Run, Say, Wave
from mcage.tracing.importing.contents import Contents
from mcage.tracing.importing.recording import Origin, Place, Recording, WindowLog

GEOMETRIES = {
    **{"gfx900": "gcn", "gfx906": "gcn", "gfx90a": "cdna2", "gfx942": "cdna3"},
    **{"gfx1030": "rdna2", "gfx1100": "rdna3"},
}
"""Processors that are emulated, and the slice of each."""

_WAVES = {"gfx900": 10, "gfx906": 10}
"""Waves of a SIMD unit where the processor keeps fewer than the slice's machine of 2011.

LLVM, AMDGPUBaseInfo, ``getMaxWavesPerEU``.
"""

_WAVES_TOGETHER = 128
_BYTES_TOGETHER = 1 << 27
_LDS_BYTES = 65536
_MOST_SCRATCH = 1 << 30
_LDS_GRAIN = 512
_UNITS = 4
_LONGEST_LIST = 160


@dataclass(frozen=True, eq=False)
class Launch:
    """A launch of a kernel.

    Attributes
    ----------
    program : Program
        What was asked for; compute units, latencies and the most instructions are read from it.
    code : CodeObject
        The code.
    kernel : KernelObject
        Its kernel that runs.
    grid : (int, int, int)
        Work-groups in x, y, z.
    block : (int, int, int)
        Work-items of a work-group.
    arguments : mapping of str to array or number
        By name; arrays are buffers.
    geometry : SliceGeometry or None
        Slice of as many lanes that runs and records in place of the processor's.
    """

    program: Program
    code: CodeObject
    kernel: KernelObject
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Mapping[str, Any]
    geometry: SliceGeometry | None = None


@dataclass
class Emulated:
    """Record of a run.

    Attributes
    ----------
    recording : Recording
        Registers of one SIMD unit.
    outputs : dict of str to array
        What each buffer holds afterwards.
    instructions : int
        Wave instructions, of all work-groups.
    approximate : dict of str to float
        Instructions whose last bit depends on the hardware: their shares of those that the recorded
        compute unit has executed.
    waves : list of Wave
        Waves of the recorded SIMD unit, in the order in which their windows were allocated.
    codes : list of Reached
        Instructions by number.
    """

    recording: Recording
    outputs: dict[str, Array]
    instructions: int
    approximate: dict[str, float]
    waves: list[Wave]
    codes: list[Reached]


def geometry_of(arch: str) -> SliceGeometry:
    """Return the slice of a processor.

    Raises
    ------
    UserError
        The processor is not emulated.
    """
    if arch not in GEOMETRIES:
        raise UserError(
            f"processor {shown(arch)} is not emulated; choose one of {', '.join(GEOMETRIES)}"
        )
    return preset(GEOMETRIES[arch])


_MODES = (
    (12, 4, 0, "to round otherwise than to the nearest number"),
    (16, 4, 15, "to flush subnormal numbers to zero (-cl-denorms-are-zero)"),
    (21, 1, 1, "to keep NaNs where results are clamped"),
    (23, 1, 1, "for arithmetic that is not IEEE's"),
)
"""First bit, bits and value of the modes of arithmetic in COMPUTE_PGM_RSRC1 of a descriptor."""


class Emulation:
    """A kernel with its arguments in memory, ready to run.

    Parameters
    ----------
    launch : Launch
        Code, kernel, grid, block and arguments.

    Raises
    ------
    UserError
        Arguments do not fit.

    Attributes
    ----------
    memory : Memory
        What a run changes.
    initial : uint8[bytes]
        What the memory holds before it.
    waves_of_group : int
        Waves of a work-group.
    """

    def __init__(self, launch: Launch) -> None:
        self.launch, self.code, self.kernel = launch, launch.code, launch.kernel
        code, kernel = self.code, self.kernel
        self.geometry = launch.geometry or geometry_of(code.arch)
        self.generation = int(code.arch[3:-2])
        if kernel.lanes != self.geometry.components:
            raise UserError(
                f"kernel {kernel.name} has waves of {kernel.lanes} lanes; on {code.arch} waves of "
                f"{self.geometry.components} are recorded"
            )
        self.waves_of_group = -(-prod(launch.block) // kernel.lanes)
        self.lds_bytes = kernel.lds_bytes
        self._require_fit()
        self.memory = Memory()
        self.image = self.memory.add(np.frombuffer(bytes(code.image), np.uint8))
        pointers = {a.name for a in kernel.arguments if a.kind == "global_buffer"}
        self.buffers: dict[str, int] = {}
        places: dict[int, int] = {}
        for name, value in launch.arguments.items():
            if name in pointers and isinstance(value, np.ndarray):
                if id(value) not in places:  # one array for two arguments is one buffer
                    places[id(value)] = self.memory.add(value)
                self.buffers[name] = places[id(value)]
        self.arguments = self.memory.add(self._argument_segment())
        self.packet = self.memory.add(self._packet())
        self.memory.seal()
        for offset, addend in code.relative:
            place = self.memory.bytes[offset : offset + 8]
            place[:] = bytearray((self.image + addend & (1 << 64) - 1).to_bytes(8, "little"))
        self.initial = self.memory.bytes.copy()

    @property
    def window(self) -> int:
        """Registers of a window, a multiple of the granularity."""
        grain = self.geometry.granularity
        return -(-max(self.kernel.registers, 1) // grain) * grain

    @property
    def accumulators_from(self) -> int:
        """Number of the first accumulator among the vector registers."""
        if self.code.arch in ("gfx90a", "gfx942"):
            return 4 * (self.kernel.field(44, 0, 6) + 1)
        return 512

    def _require_fit(self) -> None:
        launch, kernel, name = self.launch, self.kernel, self.kernel.name
        if kernel.unknown:
            raise UserError(f"{name}: {kernel.unknown}")
        for first, bits, emulated, what in _MODES:
            if kernel.field(48, first, bits) != emulated:
                raise UserError(f"{name}: was compiled {what}, which is not emulated")
        if min(launch.grid) < 1 or min(launch.block) < 1:
            raise UserError(f"{name}: grid and block must be 1 or more in each direction")
        if prod(launch.block) > MOST_ITEMS or prod(launch.grid) > 1 << 22:
            raise UserError(
                f"{name}: a block has at most {MOST_ITEMS:,} work-items, and a grid at most "
                f"{1 << 22:,} work-groups"
            )
        block = ",".join(map(str, launch.block))
        if kernel.block is not None and kernel.block != launch.block:
            wanted = ",".join(map(str, kernel.block))
            raise UserError(f"{name}: was compiled for a block of {wanted}, not of {block}")
        if prod(launch.block) > kernel.most_items:
            raise UserError(
                f"{name}: was compiled for a block of at most {kernel.most_items:,} work-items, "
                f"not of {prod(launch.block):,}; in OpenCL C, "
                f"__attribute__((reqd_work_group_size({block}))) asks for more"
            )
        for axis, groups, most in zip("xyz", launch.grid, kernel.most_groups, strict=True):
            if groups > most:
                raise UserError(
                    f"{name}: was compiled for a grid of at most {most:,} work-groups in {axis}, "
                    f"not of {groups:,}"
                )
        if self.kernel.lds_bytes > _LDS_BYTES:
            raise UserError(
                f"{name}: needs {self.kernel.lds_bytes:,} bytes of LDS of {_LDS_BYTES:,}"
            )
        each = -(-self.waves_of_group // _UNITS)
        if each > self.windows:
            raise UserError(
                f"{name}: a work-group has {self.waves_of_group} waves of {self.window} registers, "
                f"for which {_UNITS} SIMD units with {self.windows} windows each have no room"
            )

    @property
    def windows(self) -> int:
        """Windows of a SIMD unit that may be open at once."""
        most = _WAVES.get(self.code.arch, self.geometry.max_windows)
        return min(most, self.geometry.entries // self.window)

    # Arguments.

    def _packet(self) -> Array:
        """The dispatch packet (HSA Platform System Architecture, kernel dispatch packet)."""
        sizes = self.kernel.scratch_bytes, self.lds_bytes
        fields = self._dimensions, *self.launch.block, *self._items, *sizes, self.arguments
        return np.frombuffer(struct.pack("<2xH3H2x3I2I8xQ16x", *fields), np.uint8)

    def _argument_segment(self) -> Array:
        segment = np.zeros(self.kernel.argument_bytes + 256, np.uint8)
        unused = dict(self.launch.arguments)
        for argument in self.kernel.arguments:
            if argument.kind.startswith("hidden_"):
                content = self._hidden(argument)
            elif argument.name not in unused:
                raise UserError(
                    f"{self.kernel.name}: argument {argument.name} ({described(argument)}) is "
                    f"missing; the kernel takes {self._taken()}"
                )
            else:
                content = self._bytes_of(argument, unused.pop(argument.name))
            segment[argument.offset : argument.offset + len(content)] = np.frombuffer(
                content, np.uint8
            )
        if unused:
            raise UserError(
                f"{self.kernel.name}: has no argument {shown(next(iter(unused)))}; it takes "
                f"{self._taken()}"
            )
        return segment

    def _taken(self) -> str:
        visible = [a for a in self.kernel.arguments if not a.kind.startswith("hidden_")]
        return shown(
            ", ".join(f"{a.name} ({described(a)})" for a in visible) or "none", _LONGEST_LIST
        )

    def _bytes_of(self, argument: Argument, value: Any) -> bytes:
        name = f"{self.kernel.name}: argument {argument.name}"
        if argument.kind == "global_buffer":
            if value is None:
                return bytes(8)
            if argument.name not in self.buffers:
                raise UserError(f"{name} is a buffer, must be an array, or None of no buffer")
            require_elements(argument, self.launch.arguments[argument.name].dtype, name)
            return self.buffers[argument.name].to_bytes(8, "little")
        if argument.kind == "dynamic_shared_pointer":
            return self._local_buffer(argument, value, name).to_bytes(4, "little")
        if argument.kind != "by_value":
            raise UserError(f"{name} is {argument.kind}, which is not supported")
        return bytes_by_value(argument, value, name)

    def _local_buffer(self, argument: Argument, value: Any, name: str) -> int:
        """Place a buffer in LDS behind what is there; return its address."""
        if type(value) is not int or not 0 <= value <= _LDS_BYTES:
            raise UserError(
                f"{name} is a local buffer, must be its size in bytes, 0 ... {_LDS_BYTES:,}"
            )
        start = -(-self.lds_bytes // argument.alignment) * argument.alignment
        self.lds_bytes = start + value
        if self.lds_bytes > _LDS_BYTES:
            raise UserError(f"{name} needs LDS up to byte {self.lds_bytes:,} of {_LDS_BYTES:,}")
        return start

    @property
    def _items(self) -> list[int]:
        """Work-items in x, y, z."""
        return [n * size for n, size in zip(self.launch.grid, self.launch.block, strict=True)]

    @property
    def _dimensions(self) -> int:
        """Directions in which the grid has more than one work-item, and those before them."""
        items = self._items
        return max([axis + 1 for axis in range(3) if items[axis] > 1], default=1)

    def _hidden(self, argument: Argument) -> bytes:
        kind = argument.kind.removeprefix("hidden_")
        numbers = {
            **{f"block_count_{axis}": of for axis, of in zip("xyz", self.launch.grid, strict=True)},
            **{f"group_size_{axis}": of for axis, of in zip("xyz", self.launch.block, strict=True)},
            "grid_dims": self._dimensions,
            "dynamic_lds_size": self.lds_bytes - self.kernel.lds_bytes,
            "private_base": PRIVATE_BASE >> 32,
            "shared_base": SHARED_BASE >> 32,
        }
        if kind in numbers:
            return fitting(numbers[kind], argument)
        if (address := address_of_runtime(argument.kind)) is not None:
            return fitting(address, argument)
        stem = kind.rpartition("_")[0]
        if kind == "none" or stem in ("global_offset", "remainder"):  # whole work-groups only
            return bytes(argument.size)
        raise UserError(f"{self.kernel.name}: needs {shown(argument.kind)}, which is not known")

    # Execution.

    def run(self, say: Say | None = None, *, keeps: bool = False) -> Emulated:
        """Run the kernel once, and record the registers of one SIMD unit.

        Parameters
        ----------
        say : callable, optional
            As of `Budget`.
        keeps : bool
            Whether waves keep all that they have done.

        Raises
        ------
        UserError
            The run cannot go on: an instruction that is not supported, an access outside of every
            buffer, too many instructions.
        """
        launch = self.launch
        groups, together = self.groups, self.groups_together
        contents = Contents(self.kernel.lanes)
        budget = Budget(launch.program.most_instructions, say)
        program: Instructions | None = None
        ran: list[Wave] = []
        units_before = 0
        for first in range(0, groups, together):
            count = min(together, groups - first)
            machine = self.machine(np.arange(first, first + count))
            if program is None:
                program = Instructions(self.code, self.image, machine)
            here = np.repeat(np.arange(count), self.waves_of_group)
            on_unit = (first + here) % launch.program.compute_units == 0
            order = units_before + np.cumsum(on_unit) - 1
            recorded = on_unit & (order % _UNITS == 0)
            units_before += int(on_unit.sum())
            run = Run(machine, program, here, recorded, contents, budget)
            run.finish()
            in_group = np.tile(np.arange(self.waves_of_group), count)
            these = run.waves(first, in_group, np.tile(self.masks, count))
            ran += [wave for wave, kept in zip(these, on_unit, strict=True) if kept]
        assert program
        return self._recorded(ran, program.codes, contents, budget, keeps)

    @property
    def groups(self) -> int:
        """Work-groups of the grid."""
        return prod(self.launch.grid)

    @property
    def groups_together(self) -> int:
        """Work-groups that run together, one part of the grid after the other."""
        of_memory = _BYTES_TOGETHER // (self.window * self.kernel.lanes * 4)
        return max(1, min(_WAVES_TOGETHER, of_memory) // self.waves_of_group)

    def machine(self, groups: Array, kind: type[Machine] = Machine) -> Machine:
        """Make a machine with all waves of some work-groups before their first instruction.

        Parameters
        ----------
        groups : int64[n]
            Global numbers of the work-groups; the same one may be there several times.
        kind : type
            Class of the machine.
        """
        kernel, count = self.kernel, len(groups)
        waves = count * self.waves_of_group
        if waves * kernel.lanes * kernel.scratch_bytes > _MOST_SCRATCH:
            raise UserError(
                f"{kernel.name}: needs {kernel.scratch_bytes:,} bytes of private memory"
            )
        m = kind(waves, kernel.lanes, self.window, self.generation, self.accumulators_from)
        m.memory = self.memory
        m.lds = np.zeros((count, -(-self.lds_bytes // _LDS_GRAIN) * _LDS_GRAIN or 4), np.uint8)
        m.lds_of_wave = np.repeat(np.arange(count), self.waves_of_group)
        m.scratch = np.zeros((waves, kernel.lanes, kernel.scratch_bytes), np.uint8)
        m.pc[:] = self.image + kernel.entry
        group = groups[m.lds_of_wave]
        grid = self.launch.grid
        ids = [group % grid[0], group // grid[0] % grid[1], group // (grid[0] * grid[1])]
        self._set_scalars(m, ids)
        for number, items in enumerate(self._first_vectors):
            m.vector[number] = np.tile(items, (count, 1))
        m.put_bits(slice(None), EXEC, np.tile(self.masks, count))
        m.run_group(slice(None))
        return m

    def _set_scalars(self, m: Machine, ids: list[Array]) -> None:
        """User and system SGPRs, in the order of LLVM's guide (initial kernel execution state)."""
        field, number = self.kernel.field, 0
        values: list[int] = []
        queue = address_of_runtime("hidden_queue_ptr") or 0
        enabled = [bool(field(56, bit, 1)) for bit in range(7)]
        parts = (
            (SCRATCH_BASE & 0xFFFFFFFF, SCRATCH_BASE >> 32, 0xFFFFFFFF, 0),
            _two_words(self.packet),
            _two_words(queue),
            _two_words(self.arguments),
            (0, 0),
            (0, 0),
            (self.kernel.scratch_bytes,),
        )
        for on, words in zip(enabled, parts, strict=True):
            values += words if on else ()
        for number, value in enumerate(values):
            m.scalar[number] = value
        number = field(52, 1, 5)
        for axis in range(3):
            if field(52, 7 + axis, 1):
                m.scalar[number] = ids[axis]
                number += 1
        m.scalar[TTMP + 9] = ids[0]
        m.scalar[TTMP + 7] = ids[1] | ids[2] << 16

    @property
    def preloaded(self) -> int:
        """Registers that hold something before the first instruction, from 0."""
        return len(self._first_vectors)

    @cached_property
    def _first_vectors(self) -> list[Array]:
        """Registers that hold ids of work-items at first, uint32[waves of a work-group, lanes]."""
        block, lanes = self.launch.block, self.kernel.lanes
        item = np.arange(self.waves_of_group * lanes)
        ids = [item % block[0], item // block[0] % block[1], item // (block[0] * block[1])]
        exists = item < prod(block)
        if self.generation >= 11 or self.code.arch in ("gfx90a", "gfx942"):
            packed = [ids[0] | ids[1] << 10 | ids[2] << 20]
        else:
            packed = ids[: self.kernel.field(52, 11, 2) + 1]
        return [
            np.where(exists, value, 0).astype(np.uint32).reshape(-1, lanes)
            for value in packed[: self.window]
        ]

    @cached_property
    def masks(self) -> Array:
        """Lanes of each wave of a work-group that have a work-item, uint64[waves of a group]."""
        items, lanes = prod(self.launch.block), self.kernel.lanes
        left = [min(items - wave * lanes, lanes) for wave in range(self.waves_of_group)]
        return np.array([(1 << number) - 1 for number in left], np.uint64)

    # Recording.

    def _recorded(
        self,
        ran: list[Wave],
        codes: list[Reached],
        contents: Contents,
        budget: Budget,
        keeps: bool,
    ) -> Emulated:
        lds = -(-self.lds_bytes // _LDS_GRAIN) * _LDS_GRAIN
        room = _LDS_BYTES // lds if lds else len(ran) + 1
        clock = self.generation, self.launch.program.latency
        of_unit = slice(None, None, _UNITS)  # SIMD unit 0
        time_waves(ran, codes, clock, _UNITS, self.windows, room, of_unit)
        outputs = {
            name: self.memory.content(self.buffers[name], value)
            for name, value in self.launch.arguments.items()
            if name in self.buffers
        }
        counts = np.zeros(len(codes), np.int64)
        for wave in ran:
            counts += np.bincount(wave.codes >> 1, minlength=len(codes))
        approximate: Counter[str] = Counter()
        for code, count in zip(codes, counts.tolist(), strict=True):
            if code.approximate:
                approximate[code.inst.name] += count
        shares = {name: count / int(counts.sum()) for name, count in approximate.items()}
        waves = sorted(ran[of_unit], key=lambda wave: wave.begin)
        ran.clear()
        recording = self._recording(waves, codes, contents, budget, keeps)
        return Emulated(recording, outputs, budget.most - budget.left, shares, waves, codes)

    def _recording(
        self,
        waves: list[Wave],
        codes: list[Reached],
        contents: Contents,
        budget: Budget,
        keeps: bool,
    ) -> Recording:
        """Record the accesses of waves, whose windows open in this order, in the order of time."""
        recording, still_open = Recording(), dict[WindowLog, int]()
        preloads = [contents.numbers(items) for items in self._first_vectors]
        recording.has_lanes(self.kernel.lanes, contents)
        recording.geometry = self.geometry
        last = max(wave.end for wave in waves)
        for until, events in accesses_in_order(waves, codes, preloads, keeps=keeps):
            for wave in waves[len(recording.windows) :]:
                if wave.begin >= until:
                    break
                still_open[self._open(recording, wave)] = wave.end
            recording.record(events)
            for window in [window for window, end in still_open.items() if end < until]:
                recording.close_window(window, still_open.pop(window))
            budget.say(f"recorded {min(until, last):,} of {last:,} cycles")
        recording.finish()
        return recording

    def _open(self, recording: Recording, wave: Wave) -> WindowLog:
        """Open the window of a wave."""
        number = wave.work_group * 64 + wave.number
        return recording.open_window(
            wave.begin,
            self.window,
            Origin(self.kernel.name, 0, wave.work_group, number),
            Place(0, 0),
            wave.slot * self.window,
            lanes=wave.lanes.bit_count(),
        )


def _two_words(address: int) -> tuple[int, int]:
    return address & 0xFFFFFFFF, address >> 32
