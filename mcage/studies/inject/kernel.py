"""The kernel that runs: its trace, its runs with faults, and where a technique keeps its values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import COMPONENT_BITS, Bytes, Floats, Integers, SliceGeometry
from mcage.replays.prepare import RedirectedReplay, prepare
from mcage.replays.schedule import Writes, writes_of
from mcage.replays.stored_values import packed_deltas, record_codes
from mcage.results.differences import refuse_other_programs
from mcage.soft_errors.ace import (
    RECORD_BYTES,
    Needs,
    PlacedWrites,
    needs_of,
    placed,
    placed_on_maps,
    vulnerability,
)
from mcage.studies.inject.spec import CODE, COMPILER, INPUTS, LAUNCH, SOURCE
from mcage.techniques import Technique
from mcage.traces.model import WRITE, Trace
from mcage.traces.patterns import GROUP, classify, compressible, wc_bytes, wc_sizes
from mcage.traces.transforms import released
from mcage.tracing.emulation.arithmetic import Array, as_bits
from mcage.tracing.emulation.faults import Ran, Reruns
from mcage.tracing.emulation.program import Program
from mcage.tracing.emulation.record import ready_kernel, recorded, relative_error
from mcage.tracing.emulation.waves import Say, Wave


class InjectedKernel:
    """A kernel that has run once without faults.

    Parameters
    ----------
    program : Program
        The kernel, its arguments and its processor.
    registers : callable, optional
        As of `Reruns`.
    release : str
        When windows are freed: ``wavefront`` or ``work-group``.
    say : callable, optional
        Receives the progress of the run without faults now and then.
    wanted : mapping of str to str, optional
        Digests that the kernel must have; see `programs`.

    Attributes
    ----------
    trace : Trace
        Registers of one SIMD unit.
    digest : str
        Hash of the code and of all arguments.
    programs : dict of str to str
        Digests of source, code object and arguments, compiler and launch, as files record them.
    reruns : Reruns
        Runs it with faults.
    needs : Needs
        Until when the values of the trace are needed.
    waves : list of Wave
        Wave of each window of the trace.

    Raises
    ------
    UserError
        As `mcage.tracing.emulation.record.record_kernel`; or it is another kernel.
    """

    def __init__(
        self,
        program: Program,
        registers: Any = None,
        release: str = "wavefront",
        say: Say | None = None,
        wanted: Mapping[str, str] | None = None,
    ) -> None:
        ready = ready_kernel(program)
        self.programs = {
            SOURCE: ready.digests["source"],
            CODE: ready.digests["code_object"],
            COMPILER: ready.compiled.facts["compiler"],
            INPUTS: ready.digests["inputs"],
            LAUNCH: f"{ready.launch.kernel.name}, {ready.launch.grid} of {ready.launch.block}",
        }
        refuse_other_programs(wanted, self.programs)
        self.emulation, emulated = ready.run(say, keeps=True)
        made = recorded(ready, emulated)
        for line in made.warnings:
            if say:
                say(f"warning: {ready.place}: {line}")
        self.trace: Trace = released(made.trace, release)
        self.digest, self._registers = ready.digest, registers
        self.waves: list[Wave] = emulated.waves
        self._codes = emulated.codes
        self.needs: Needs = needs_of(self.trace)
        begins = np.array([wave.begin for wave in self.waves])
        self._first_cycle = int(begins.min())  # of the emulator, in which the trace begins
        if not np.array_equal(begins - self._first_cycle, self.writes.windows.alloc_cycle):
            raise AssertionError("windows of the trace are not the waves that ran")

    @cached_property
    def reruns(self) -> Reruns:
        """Runs of the kernel with faults."""
        return Reruns(self.emulation, self._registers)

    @property
    def geometry(self) -> SliceGeometry:
        """The slice."""
        return self.trace.geometry

    @property
    def writes(self) -> Writes:
        """Writes of the trace."""
        return writes_of(self.trace)

    def step_after(self, window: int, cycle: int) -> int:
        """Instructions of a window's wave that have issued by the end of a cycle of the trace."""
        issued = self.waves[window].issued
        return int(np.searchsorted(issued, cycle + self._first_cycle, side="right"))

    def place_of(self, window: int) -> tuple[int, int]:
        """Work-group of a window, and number of its wave in it."""
        wave = self.waves[window]
        return wave.work_group, wave.number

    @cached_property
    def step_of_write(self) -> Integers:
        """Instruction of its wave that each write is of, from 0: int64[writes].

        -1 of what a register holds before the first.
        """
        step = np.full(len(self.writes.reg), -1)
        for window, wave in enumerate(self.waves):
            if wave.step is None:
                continue
            writes, on = self.writes_of_window(window), np.flatnonzero(wave.mask)
            order = on[np.argsort(wave.register[on], kind="stable")]
            registers = self.writes.reg[writes]
            most = int(registers.max()) + 1
            more = np.bincount(registers, minlength=most)
            more -= np.bincount(wave.register[order], minlength=most)
            # Before the first instruction a register is written once, or not at all.
            is_first = np.append(True, registers[1:] != registers[:-1])
            step[writes[~(is_first & (more[registers] > 0))]] = wave.step[order]
        return step

    @cached_property
    def _previous(self) -> Integers:
        return self.writes.previous

    @cached_property
    def lanes_of_write(self) -> NDArray[np.uint64]:
        """Lanes that each write has written: uint64[writes]."""
        return np.asarray(self.trace.exec_mask[self.trace.kind == WRITE])

    def step_of_value(self, write: int, lane: int) -> int:
        """Instruction of its wave that has left what a lane holds after a write.

        Parameters
        ----------
        write : int
            The write, which may have written other lanes; -1 if the register has none.
        lane : int
            The lane; -1 of several, for which the write speaks.

        Returns
        -------
        int
            From 0; -1 before the first.
        """
        while write >= 0 and lane >= 0 and not int(self.lanes_of_write[write]) >> lane & 1:
            write = -1 if self.writes.first[write] else int(self._previous[write])
        return int(self.step_of_write[write]) if write >= 0 else -1

    def instruction_at(self, window: int, step: int) -> int:
        """Address of an instruction of a window's wave in the code object; -1 before the first."""
        if step < 0:
            return -1
        code = self._codes[int(self.waves[window].codes[step]) >> 1]
        return code.inst.address - self.emulation.image

    @property
    def listing(self) -> dict[int, str]:
        """Text of each instruction that was reached, by its address, rising."""
        texts = {code.inst.address - self.emulation.image: code.inst.text for code in self._codes}
        return dict(sorted(texts.items()))

    def cycle_of(self, window: int, step: int) -> int:
        """Cycle of the trace in which an instruction of a window's wave issues."""
        return int(self.waves[window].issued[step]) - self._first_cycle

    def writes_of_window(self, window: int) -> Integers:
        """Writes of a window, register by register, each in the order of time."""
        first, last = self._first_of_window[window : window + 2]
        return self.writes.by_register[first:last]

    @cached_property
    def _first_of_window(self) -> Integers:
        window = self.writes.window[self.writes.by_register]
        return np.searchsorted(window, np.arange(len(self.waves) + 1))

    def wrong_outputs(self, ran: Ran) -> "WrongOutputs":
        """How outputs of a run differ from those without faults."""
        return WrongOutputs.of(self.reruns.outputs, self.reruns.outputs_of(ran), len(ran.place))


@dataclass(frozen=True)
class WrongOutputs:
    """How the outputs of a run differ from right ones, by names of variables of results files.

    Attributes
    ----------
    output_error : float
        Largest error of any output, relative to the largest value of that output without faults;
        infinite where a number has become infinite or no number.
    wrong_elements : int
        Elements of outputs that differ.
    wrong_bits : int
        Most bits in which an element differs.
    not_finite : bool
        Whether an element has become infinite or no number.
    """

    output_error: float
    wrong_elements: int
    wrong_bits: int
    not_finite: bool

    @classmethod
    def of(
        cls, right: dict[str, Array], wrong: dict[str, Array], changed_bytes: int = 0
    ) -> "WrongOutputs":
        """Compare outputs.

        Parameters
        ----------
        right, wrong : dict of str to array
            Outputs by name.
        changed_bytes : int
            Bytes of memory that differ. If no output differs, they lie elsewhere: the error is
            infinite, since nobody knows who reads them.
        """
        error, elements, bits, not_finite = 0.0, 0, 0, False
        for name, good in right.items():
            words = [as_bits(each.reshape(-1)) for each in (good, wrong[name])]
            differ = words[0] != words[1]
            if not differ.any():
                continue
            elements += int(differ.sum())
            changed = words[0][differ] ^ words[1][differ]
            bits = max(bits, int(np.bitwise_count(changed).max()))
            of_output = relative_error(wrong[name], good)
            error = float("inf") if np.isnan(of_output) else max(error, of_output)
            if good.dtype.kind == "f":
                values = wrong[name].reshape(-1)[differ], good.reshape(-1)[differ]
                lost = ~np.isfinite(values[0]) & np.isfinite(values[1])
                not_finite |= bool(lost.any())
        if not_finite or (changed_bytes and not elements):
            error = float("inf")
        return cls(error, elements, bits, not_finite)


# How a technique keeps values in the cells of an entry, and what wrong cells make of them. Forms
# are those of `mcage.replays.stored_values`: there, a trace says what a write stores; here, values
# are put into cells and read back, since a program with a wrong register writes other values.

Words = NDArray[np.uint32]

CODE_BITS = 6
"""Cells of a record's fifth byte that hold something: two exponents of three bits."""

RECORD_BITS = COMPONENT_BITS + CODE_BITS
assert RECORD_BITS == 8 * RECORD_BYTES - 2


class Form(IntEnum):
    """How a value is stored."""

    PLAIN = 0
    RECORD = 1
    """A base and two exponents, at the start of a block."""
    BASE = 2
    """Warped-Compression: the base alone."""
    BYTES = 3
    """The base, and differences of a byte."""
    HALVES = 4
    """The base, and differences of two bytes."""


@dataclass(frozen=True)
class Storing:
    """Data that decide the form of a value.

    Parameters
    ----------
    components : int
        Components of a register, a lane each.
    block_words : int
        Components of a block.
    inline : bool
        Whether values are compressed by Warped-Compression; otherwise as records.
    delta_limit : int or None
        Largest delta of a record.
    """

    components: int
    block_words: int
    inline: bool
    delta_limit: int | None = 64

    def forms(self, values: Words) -> Integers:
        """Return the form of each value if it is compressed: uint32[n, components] to int64[n]."""
        if not self.inline:
            fits = compressible(classify(values), self.delta_limit)
            return np.where(fits, Form.RECORD, Form.PLAIN)
        sizes = np.searchsorted(wc_sizes(self.components), wc_bytes(values))
        return np.array([Form.BASE, Form.BYTES, Form.HALVES, Form.PLAIN])[sizes]

    def cells(self, values: Words, form: Integers, block: Integers) -> Words:
        """Return what values leave in the cells of their entries.

        Parameters
        ----------
        values : uint32[n, components]
            The values.
        form, block : int64[n]
            `Form` of each, which must be able to hold it, and the block of a record.

        Returns
        -------
        uint32[n, components]
            Bit b of component c is cell 32 c + b; 0 in cells that hold nothing.
        """
        cells = np.where((form == Form.PLAIN)[:, None], values, np.uint32(0))
        for row in np.flatnonzero(form == Form.RECORD).tolist():
            place = int(block[row]) * self.block_words
            cells[row, place] = values[row, 0]
            cells[row, place + 1] = record_codes(values[row : row + 1])[0]
        sizes = wc_sizes(self.components)
        for kind, size in zip((Form.BASE, Form.BYTES, Form.HALVES), sizes[:3], strict=True):
            rows = np.flatnonzero(form == kind)
            if len(rows):
                cells[rows] = packed_deltas(values[rows], np.full(len(rows), size))
        return cells

    def values(self, cells: Words, form: Integers, block: Integers) -> Words:
        """Return what is read from the cells of entries; arguments and result as of `cells`."""
        values = cells.copy()
        lane = np.arange(self.components, dtype=np.uint32)
        for row in np.flatnonzero(form == Form.RECORD).tolist():
            place = int(block[row]) * self.block_words
            code = int(cells[row, place + 1])
            e, b = (_delta(code >> shift & 7) for shift in (0, 3))
            values[row] = cells[row, place] + e * (lane % GROUP) + b * (lane // GROUP)
        rows = np.flatnonzero(form == Form.BASE)
        values[rows] = cells[rows, :1]
        content = np.ascontiguousarray(cells).view(np.uint8)
        others = self.components - 1
        for kind, dtype in ((Form.BYTES, "<i1"), (Form.HALVES, "<i2")):
            rows = np.flatnonzero(form == kind)
            width = np.dtype(dtype).itemsize
            parts = np.ascontiguousarray(content[rows, 4 : 4 + width * others]).view(dtype)
            values[rows] = cells[rows, :1]
            values[rows, 1:] += parts.astype(np.int32).view(np.uint32)
        return values

    def used(self, form: Integers, block: Integers) -> Words:
        """Return the cells of entries that values occupy; arguments and result as of `cells`."""
        used = np.zeros((len(form), self.components), np.uint32)
        used[form == Form.PLAIN] = 0xFFFF_FFFF
        record = np.flatnonzero(form == Form.RECORD)
        used[record, block[record] * self.block_words] = 0xFFFF_FFFF
        used[record, block[record] * self.block_words + 1] = (1 << CODE_BITS) - 1
        content = used.view(np.uint8)
        sizes = wc_sizes(self.components)
        for kind, size in zip((Form.BASE, Form.BYTES, Form.HALVES), sizes[:3], strict=True):
            content[form == kind, :size] = 0xFF
        return used


def _delta(code: int) -> np.uint32:
    """Delta of an exponent code, of which 7 means 0."""
    return np.uint32(0 if code == 7 else 1 << code)


# Where values lie under a technique, as bits that are needed.

_BYTES_OF_MAPS = 1 << 28
"""Memory of the placements that are worked out together."""

_PLAIN, _PLAIN_SURVIVING, _SHARED, _DELTAS, _DELTAS_SURVIVING = range(5)
"""Parts of a value that are needed alike: its lanes, by the columns of `Needs`; what all lanes of a
compressed value share; the differences of its lanes."""


class PlacedKernel:
    """Where a technique keeps the values of a kernel, on a fault map.

    Parameters
    ----------
    kernel : InjectedKernel
        The kernel.
    technique : Technique
        The technique.
    delta_limit : int or None
        Largest delta of a compressible value.
    on_map : PlacedWrites, optional
        Where the values lie on a slice with faults; by default, on one without.

    Raises
    ------
    UserError
        The technique lays windows in other cycles than the trace, or a program of the user places
        values.
    """

    def __init__(
        self,
        kernel: InjectedKernel,
        technique: Technique,
        delta_limit: int | None,
        on_map: PlacedWrites | None = None,
    ) -> None:
        if technique.packs:
            raise UserError(
                f"technique {technique.name!r}: the fault map decides which kernels wait for "
                "room, so that the trace of the emulator does not hold; choose another technique"
            )
        if technique.stores_in_blocks and delta_limit is None:
            raise UserError(
                f'technique {technique.name!r}: registers.delta_limit = "none": what a record of '
                "such deltas holds is not published; give a power of two"
            )
        self.kernel, self.technique = kernel, technique
        self.placed: PlacedWrites = on_map or placed(prepare(kernel.trace, technique, delta_limit))
        geometry = kernel.geometry
        self.storing = Storing(
            geometry.components,
            geometry.block_bits // COMPONENT_BITS,
            technique.stores_inline,
            delta_limit,
        )

    def on_maps(self, fault_maps: Bytes) -> "Iterator[PlacedKernel]":
        """Where the technique keeps the values on slices with faults, one after the other.

        Parameters
        ----------
        fault_maps : uint8[n, entries]
            Bit b set: block b cannot be used. A technique that avoids no fault ignores them.
        """
        limit = self.storing.delta_limit
        replay = prepare(self.kernel.trace, self.technique, limit)
        if not isinstance(replay, RedirectedReplay):
            yield from [self] * len(fault_maps)
            return
        size = max(1, _BYTES_OF_MAPS // (16 * replay.passes * len(self.value)))
        for first in range(0, len(fault_maps), size):
            for where in placed_on_maps(replay, fault_maps[first : first + size]):
                yield PlacedKernel(self.kernel, self.technique, limit, where)

    @cached_property
    def values(self) -> NDArray[np.uint32]:
        """Content of the register after each write, as rows of the contents of the trace."""
        return np.asarray(self.kernel.trace.values)

    @property
    def value(self) -> Integers:
        """Row of `values` of each write."""
        return self.kernel.writes.value

    @cached_property
    def form(self) -> Integers:
        """`Form` of each write."""
        schedule = self.placed.schedule
        if not (self.technique.stores_inline or self.technique.stores_in_blocks):
            return np.zeros(len(self.value), np.int64)
        forms = self.storing.forms(self.values)[self.value]
        return np.where(schedule.compressed, forms, Form.PLAIN)

    @cached_property
    def in_file(self) -> NDArray[np.bool_]:
        """Whether each write lies in the register file: bool[passes, writes]."""
        return np.asarray((self.placed.entry >= 0)[:, self.placed.home])

    @cached_property
    def _weights(self) -> Floats:
        """Bits x cycles for which each part of each write is needed: float64[5, writes]."""
        needs, form = self.kernel.needs, self.form
        cycles = needs.cycles.astype(np.float64)
        lanes = np.bitwise_count(needs.lanes).astype(np.float64)
        plain = form == Form.PLAIN
        weights = np.zeros((5, len(form)))
        weights[_PLAIN : _PLAIN_SURVIVING + 1] = (COMPONENT_BITS * lanes * cycles).T * plain
        shared = np.where(form == Form.RECORD, RECORD_BITS, COMPONENT_BITS)
        together = np.where(needs.lanes != 0, cycles, 0).max(axis=1)
        weights[_SHARED] = np.where(plain, 0, shared * together)
        width = np.select([form == Form.BYTES, form == Form.HALVES], [8.0, 16.0], 0.0)
        others = np.bitwise_count(needs.lanes & ~np.uint64(1)).astype(np.float64)
        weights[_DELTAS : _DELTAS_SURVIVING + 1] = (width[:, None] * others * cycles).T
        return np.asarray(weights * self.in_file.sum(axis=0))

    @cached_property
    def _entries_used(self) -> Integers:
        entry = self.placed.entry
        return np.unique(entry[entry >= 0])

    def refuses(self, fault_map: Bytes) -> bool:
        """Whether faults keep a slice from running the kernel: uint8[entries].

        A technique that avoids faults refuses none: its life ends when it finds no room.
        """
        if self.technique.heeds_faults:
            return False
        return bool(fault_map[self._entries_used].any())

    @property
    def needed_share(self) -> float:
        """Share of all bits of the file that are needed, on the mean over time: an AVF by ACE."""
        geometry, passes = self.kernel.geometry, len(self.placed.entry)
        total = geometry.cells * self.kernel.trace.cycles * passes
        return float(self._weights.sum()) / total

    @property
    def allocated_share(self) -> float:
        """Share of all bits of the file in allocated windows, on the mean over time."""
        return vulnerability(self.kernel.trace, self.kernel.needs).allocated

    @cached_property
    def _cumulated(self) -> Floats:
        return np.asarray(np.cumsum(self._weights.ravel()))

    def needed_bit(self, draws: Floats) -> "NeededBit":
        """Choose one of the needed bits of all moments, each as likely as any other.

        Parameters
        ----------
        draws : float64[4]
            Uniform numbers, 0 ... 1.
        """
        total = self._cumulated[-1]
        assert total, "no bit of this kernel is ever needed"
        place = int(np.searchsorted(self._cumulated, draws[0] * total, side="right"))
        part, write = divmod(min(place, len(self._cumulated) - 1), len(self.form))
        passes = np.flatnonzero(self.in_file[:, write])
        which = int(passes[int(draws[1] * len(passes))])
        column = int(part in (_PLAIN_SURVIVING, _DELTAS_SURVIVING))
        lanes, cycles = self.kernel.needs.lanes[write], self.kernel.needs.cycles[write]
        home = self.placed.home[write]
        block = int(self.placed.block[which, home])
        if part == _SHARED:
            count = RECORD_BITS if self.form[write] == Form.RECORD else COMPONENT_BITS
            cell = block * self.kernel.geometry.block_bits + int(draws[2] * count)
            lasting = int(np.where(lanes != 0, cycles, 0).max())
        else:
            cell = self._cell_of_lane(part, write, int(lanes[column]), draws[2])
            lasting = int(cycles[column])
        cycle = int(self.kernel.writes.cycle[write]) + int(draws[3] * lasting)
        return NeededBit(write, int(self.placed.entry[which, home]), block, cell, cycle)

    def _cell_of_lane(self, part: int, write: int, lanes: int, draw: float) -> int:
        """Cell of an entry that holds a bit of one of the lanes of a value."""
        if part in (_PLAIN, _PLAIN_SURVIVING):
            width, first, of_lane = COMPONENT_BITS, 0, 0
        else:
            width = 8 if self.form[write] == Form.BYTES else 16
            first, of_lane, lanes = COMPONENT_BITS, 1, lanes & ~1
        numbers = [lane for lane in range(self.kernel.geometry.components) if lanes >> lane & 1]
        number, bit = divmod(int(draw * len(numbers) * width), width)
        return first + (numbers[number] - of_lane) * width + bit

    def needed_lanes(self, write: int, cycle: int) -> NDArray[np.bool_]:
        """Lanes of a value that somebody still reads at a moment: bool[components].

        The others may hold what a write in flight has left there already.
        """
        needs = self.kernel.needs
        still = cycle - self.kernel.writes.cycle[write] < needs.cycles[write]
        lanes = int(np.bitwise_or.reduce(needs.lanes[write][still]))
        return np.array([lanes >> lane & 1 == 1 for lane in range(self.kernel.geometry.components)])

    def needed_cells(self, write: int, block: int, cycle: int) -> NDArray[np.uint32]:
        """Cells of an entry that a value needs at a moment, as sets: uint32[components]."""
        lanes, form = self.needed_lanes(write, cycle), self.form[write : write + 1]
        if form[0] == Form.PLAIN:
            return np.asarray(np.where(lanes, np.uint32(0xFFFF_FFFF), np.uint32(0)))
        used: NDArray[np.uint32] = self.storing.used(form, np.array([block]))[0]
        if not lanes.any():
            used[:] = 0
        if form[0] in (Form.BYTES, Form.HALVES):  # differences of the lanes after the first
            width = 1 if form[0] == Form.BYTES else 2
            used.view(np.uint8)[4 : 4 + width * (len(lanes) - 1)] *= np.repeat(lanes[1:], width)
        return used

    def read_with(self, write: int, block: int, errors: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Bits of a value that are wrong when its cells are.

        Parameters
        ----------
        write, block : int
            The write, and the block of its record.
        errors : uint32[components]
            Cells of the entry that do not hold what the write has left there.

        Returns
        -------
        uint32[components]
            Bits of the register that are read wrong.
        """
        form, where = self.form[write : write + 1], np.array([block])
        value = self.values[self.value[write]][None]
        cells = self.storing.cells(value, form, where)
        wrong = self.storing.values(cells ^ errors[None], form, where)
        right = self.storing.values(cells, form, where)
        return np.asarray((wrong ^ right)[0], dtype=np.uint32)


@dataclass(frozen=True)
class NeededBit:
    """A bit of the register file that is needed at a moment.

    Attributes
    ----------
    write : int
        Write of the trace that has left it.
    entry, block, cell : int
        Physical entry, block of a record, and cell of the entry.
    cycle : int
        The moment, a cycle of the trace.
    """

    write: int
    entry: int
    block: int
    cell: int
    cycle: int
