"""Register traces: the kernel's events, the windows of its slots, and what makes a trace valid."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.geometry import GCN, SliceGeometry
from mcage.plain_text import shown

ALLOC, RELEASE, WRITE, READ = 0, 1, 2, 3
"""Kinds of event, as stored in the column ``kind``."""


@dataclass(frozen=True)
class TraceColumn:
    """One column of a trace: where it is stored and as what.

    Numbers that do not fit into ``stored`` are stored as ``wide``, where a column has that.
    Shuffling the bytes of an element before compression pays for numbers that grow slowly, not
    for lane masks, whose bytes are mostly equal to one another.
    """

    attribute: str
    dataset: str
    stored: str
    held: str
    shuffled: bool = True
    wide: str | None = None

    def stored_type(self, array: npt.NDArray[Any]) -> str:
        """Type as which an array of this column is stored: the narrow one if all of it fits."""
        narrow = self.wide is None or array.max(initial=0) <= np.iinfo(self.stored).max
        return self.stored if narrow else str(self.wide)


EVENT_COLUMNS = (
    TraceColumn("cycle", "event/cycle", "<u8", "int64"),
    TraceColumn("kind", "event/kind", "|u1", "uint8", shuffled=False),
    TraceColumn("slot", "event/slot", "<u2", "uint16"),
    TraceColumn("reg", "event/reg", "|u1", "uint16", shuffled=False, wide="<u2"),
    TraceColumn("exec_mask", "event/exec", "<u8", "uint64", shuffled=False),
    TraceColumn("value", "event/value", "<i4", "int32"),
)
ALLOC_COLUMNS = (
    TraceColumn("alloc_event", "alloc/event", "<u4", "uint32"),
    TraceColumn("alloc_kernel", "alloc/kernel", "|u1", "uint8", shuffled=False),
    TraceColumn("alloc_launch", "alloc/launch", "<u4", "uint32"),
    TraceColumn("alloc_work_group", "alloc/work_group", "<u4", "uint32"),
    TraceColumn("alloc_wavefront", "alloc/wavefront", "<u4", "uint32"),
)
VALUES = TraceColumn("values", "values", "<u4", "uint32")
COLUMNS = (*EVENT_COLUMNS, *ALLOC_COLUMNS, VALUES)


@dataclass(frozen=True)
class Kernel:
    """A kernel of a trace: its name and the N registers that each of its windows has."""

    name: str
    window_size: int


@dataclass(frozen=True, eq=False)
class Trace:
    """Recorded events of one slice, ordered by cycle.

    Inside one cycle allocations come first, then writes, reads, releases.

    Parameters
    ----------
    name : str
        What users call the trace.
    source : dict
        Where it comes from (simulator, benchmark, arguments, ...), anything JSON can hold.
    kernels : tuple of Kernel
        The kernels whose windows occur.
    cycles : int
        Length of one pass; above the last event's cycle.
    cycle : int64[events]
        When, in cycles.
    kind : uint8[events]
        ``ALLOC``, ``RELEASE``, ``WRITE`` or ``READ``.
    slot : uint16[events]
        Slot of the window; slot s with N registers covers entries s*N ... s*N + N - 1.
    reg : uint16[events]
        Logical register in the window, 0 ... N-1; N for an allocation, 0 for a release. An array
        of uint8 is taken, too.
    exec_mask : uint64[events]
        Writes: bit i set = lane i was written. Otherwise 0.
    value : int32[events]
        Writes: row of ``values`` with the register's content after the write. Otherwise -1.
    values : uint32[rows, components]
        Register contents.
    alloc_event, alloc_kernel, alloc_launch, alloc_work_group, alloc_wavefront : [windows]
        One row per allocation: its event row, its kernel (index into ``kernels``), the number of
        its kernel launch, and the global ids of its work-group and wavefront.
    geometry : SliceGeometry
        The slice; by default that of the papers.

    Notes
    -----
    A Trace built by hand is checked by ``validate_trace`` (and by ``save_trace``), not here.
    """

    name: str
    source: dict[str, Any]
    kernels: tuple[Kernel, ...]
    cycles: int
    cycle: npt.NDArray[np.int64]
    kind: npt.NDArray[np.uint8]
    slot: npt.NDArray[np.uint16]
    reg: npt.NDArray[np.uint16]
    exec_mask: npt.NDArray[np.uint64]
    value: npt.NDArray[np.int32]
    values: npt.NDArray[np.uint32]
    alloc_event: npt.NDArray[np.uint32]
    alloc_kernel: npt.NDArray[np.uint8]
    alloc_launch: npt.NDArray[np.uint32]
    alloc_work_group: npt.NDArray[np.uint32]
    alloc_wavefront: npt.NDArray[np.uint32]
    geometry: SliceGeometry = GCN

    def __post_init__(self) -> None:
        if isinstance(self.reg, np.ndarray) and self.reg.dtype == np.uint8:
            object.__setattr__(self, "reg", self.reg.astype(np.uint16))

    @property
    def writes(self) -> int:
        """Number of register writes."""
        return int(np.count_nonzero(self.kind == WRITE))

    @property
    def reads(self) -> int:
        """Number of register reads, one per source register and instruction."""
        return int(np.count_nonzero(self.kind == READ))

    @property
    def windows(self) -> int:
        """Number of windows allocated in one pass."""
        return len(self.alloc_event)

    @property
    def window_sizes(self) -> tuple[int, ...]:
        """Distinct numbers of registers per window, ascending."""
        return tuple(sorted({kernel.window_size for kernel in self.kernels}))

    @cached_property
    def concurrent_windows(self) -> int:
        """Largest number of windows open at once."""
        return int(self.open_windows().max())

    @property
    def generations(self) -> int:
        """Windows that the least used of the used slots gets in one pass."""
        return int(min(count for count in self.windows_per_slot() if count))

    def windows_per_slot(self) -> npt.NDArray[np.int64]:
        """Windows of each slot in one pass, [highest used slot + 1]; 0 for an unused slot."""
        return np.bincount(self.slot[self.alloc_event])

    def open_windows(self) -> npt.NDArray[np.int64]:
        """Number of open windows after each event, [events]."""
        opened = (self.kind == ALLOC).astype(np.int64)
        return np.cumsum(opened - (self.kind == RELEASE))

    def window_of_event(self) -> npt.NDArray[np.int64]:
        """Window (row of the alloc columns) that each event belongs to, [events]."""
        order = np.argsort(self.slot, kind="stable")
        opens = self.kind[order] == ALLOC
        latest_opening = np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))
        window_of_opening = np.cumsum(self.kind == ALLOC) - 1
        window = np.empty(len(order), np.int64)
        window[order] = window_of_opening[order[latest_opening]]
        return window

    @property
    def caveat(self) -> str:
        """Caveats that belong wherever results of the trace are shown; empty of a plain recording.

        It follows from four keys of `source`, each a list, an object with such keys, or a text:
        what of the trace is ``approximate``, which outputs of the recorded program are
        ``not_compared`` with anything, ``warnings`` about them, and the profile that an earlier
        version has ``synthesized`` it from.
        """
        said = []
        if approximate := self._listed("approximate"):
            said.append("approximate in " + ", ".join(approximate))
        if not_compared := self._listed("not_compared"):
            said.append("outputs that nobody compared: " + ", ".join(not_compared))
        said += self._listed("warnings")
        if profile := self.source.get("synthesized"):
            said.append(f"synthesized from {shown(profile)}")
        return "; ".join(said)

    def _listed(self, key: str) -> list[str]:
        """Texts of a key of `source`, which may be of any file."""
        texts = self.source.get(key) or []
        return [shown(text) for text in (texts if isinstance(texts, dict | list) else [texts])]

    def digest(self) -> str:
        """Hash of the content, 32 hexadecimal digits: kernels, length, geometry and every column.

        Name and source do not enter: equal digests mean equal results. How the file was
        compressed does not matter either.
        """
        content = hashlib.blake2b(digest_size=16)
        kernels = [(kernel.name, kernel.window_size) for kernel in self.kernels]
        other = [] if self.geometry.shape == GCN.shape else [self.geometry.shape]
        content.update(json.dumps([kernels, self.cycles, *other]).encode())
        for column in COLUMNS:
            held = getattr(self, column.attribute)
            array = np.ascontiguousarray(held, dtype=column.stored_type(held))
            content.update(f"{column.dataset}{array.shape}".encode())
            content.update(array.reshape(-1).view(np.uint8).data)
        return content.hexdigest()


# Rules of the format of traces, each with the message of its violation.
#
# Past ``validate_trace`` nothing is checked again, and an engine that walks the events may index
# without looking. Rules are tried from the coarse to the fine, since the fine ones rely on the
# coarse; the first violation is reported with dataset and row.

MOST_REGISTERS = 512
"""Registers of the largest window: CDNA gives a wave 256 VGPRs and 256 AGPRs."""

MOST_CYCLES = 2**31 - 1
"""Longest trace: engines count the cycles of one pass in 32 bits."""

_ORDER_IN_CYCLE = np.array([0, 3, 1, 2])
"""Rank of each kind inside one cycle: allocation, write, read, release."""

_ROWS_AT_ONCE = 8192


def validate_trace(trace: Trace, place: str | None = None) -> None:
    """Check every rule of the trace format.

    Parameters
    ----------
    trace : Trace
        The trace to check.
    place : str, optional
        What messages name as the place of the violation, such as a file; by default the trace's
        name.

    Raises
    ------
    UserError
        At the first violation: place, dataset, row, what is wrong and what would be right.
    """
    check = _Check(trace, place or f"trace {trace.name!r}")
    check.columns()
    check.kernels()
    check.times()
    check.fields()
    check.allocations()
    check.windows()
    check.accesses()
    check.contents()


def validate_shapes(
    shapes: Mapping[str, tuple[int, ...]], geometry: SliceGeometry, place: str
) -> None:
    """Check that columns which belong together have one length, and that values can all be used.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
        Shape of every column by the path of its dataset.
    geometry : SliceGeometry
        The slice.
    place : str
        What messages name as the place of the violation.

    Raises
    ------
    UserError
        At the first column of another shape.
    """
    for first, *others in (EVENT_COLUMNS, ALLOC_COLUMNS):
        rows = next(iter(shapes[first.dataset]), 1)
        for column in (first, *others):
            shape = shapes[column.dataset]
            if shape != (rows,):
                raise UserError(
                    f"{place}: {column.dataset}: has shape {shape}, must be ({rows},) "
                    f"as {first.dataset}"
                )
    shape, (events,) = shapes[VALUES.dataset], shapes[EVENT_COLUMNS[0].dataset]
    if len(shape) != 2 or shape[1] != geometry.components:
        raise UserError(
            f"{place}: {VALUES.dataset}: has shape {shape}, must be (rows, {geometry.components})"
        )
    if shape[0] > events:
        raise UserError(
            f"{place}: {VALUES.dataset}: has {shape[0]} rows, more than there are events "
            f"({events}) to refer to them"
        )


class _Check:
    """The rules, as methods that raise; one trace, one place."""

    def __init__(self, trace: Trace, place: str) -> None:
        self.trace = trace
        self.place = place

    def fail(self, where: str, what: str) -> NoReturn:
        raise UserError(f"{self.place}: {where}: {what}")

    def refuse(self, dataset: str, bad: npt.NDArray[np.bool_], what: str) -> None:
        """Fail at the first row marked bad; ``what`` may name {row} and any column of it."""
        if not bad.any():
            return
        row = int(np.argmax(bad))
        columns = ALLOC_COLUMNS if dataset.startswith("alloc/") else EVENT_COLUMNS
        content = {c.attribute: getattr(self.trace, c.attribute)[row] for c in columns}
        self.fail(f"{dataset} row {row}", what.format(**content))

    def columns(self) -> None:
        """Every column has its type and the length that it shares with others."""
        for column in COLUMNS:
            array = getattr(self.trace, column.attribute)
            if not isinstance(array, np.ndarray) or array.dtype != column.held:
                held = getattr(array, "dtype", type(array).__name__)
                self.fail(column.dataset, f"is {held}, must be an array of {column.held}")
        shapes = {c.dataset: getattr(self.trace, c.attribute).shape for c in COLUMNS}
        validate_shapes(shapes, self.trace.geometry, self.place)
        if not self.trace.writes:
            self.fail("event/kind", "the trace is empty; it must hold at least one register write")

    def kernels(self) -> None:
        """Kernels are named and their windows fit the slice."""
        if not self.trace.kernels:
            self.fail("kernels", "is empty; a trace has at least one kernel")
        for kernel in self.trace.kernels:
            most = min(self.trace.geometry.entries, MOST_REGISTERS)
            if not 1 <= kernel.window_size <= most:
                self.fail(
                    "kernels",
                    f"{kernel.name!r} has {kernel.window_size} registers per window, "
                    f"must be 1 ... {most}",
                )

    def times(self) -> None:
        """Cycles are ordered, kinds are ordered inside a cycle, the length holds them all."""
        trace = self.trace
        if trace.cycles > MOST_CYCLES:
            self.fail(
                "cycles",
                f"{trace.cycles} is too long; the engines count a pass in 32 bits, "
                f"at most {MOST_CYCLES} cycles",
            )
        self.refuse("event/cycle", trace.cycle < 0, "cycle {cycle} is negative")
        step = np.diff(trace.cycle, prepend=0)
        self.refuse("event/cycle", step < 0, "cycle {cycle} is before that of the row above")
        self.refuse("event/kind", trace.kind > READ, "unknown kind {kind}, must be 0 ... 3")
        if trace.cycles <= trace.cycle[-1]:
            self.fail(
                "cycles",
                f"{trace.cycles} ends before the last event; must be at least "
                f"{trace.cycle[-1] + 1}",
            )
        backwards = np.diff(_ORDER_IN_CYCLE[trace.kind], prepend=0) < 0
        self.refuse(
            "event/kind",
            backwards & (step == 0),
            "kind {kind} is out of order in cycle {cycle}; "
            "allocations come first, then writes, reads, releases",
        )

    def fields(self) -> None:
        """Lane mask, value row and register are there where the kind has them, and only there."""
        trace = self.trace
        write = trace.kind == WRITE
        self.refuse(
            "event/exec", write & (trace.exec_mask == 0), "a write without lanes; leave it out"
        )
        self.refuse(
            "event/exec", ~write & (trace.exec_mask != 0), "only a write has lanes, must be 0"
        )
        self.refuse(
            "event/exec",
            (trace.exec_mask & ~trace.geometry.all_lanes) != 0,
            f"{{exec_mask:#x}} has lanes beyond the {trace.geometry.components} of the slice",
        )
        self.refuse(
            "event/value",
            write & ((trace.value < 0) | (trace.value >= len(trace.values))),
            f"row {{value}} of values does not exist; there are {len(trace.values)}",
        )
        self.refuse(
            "event/value", ~write & (trace.value != -1), "is {value}, must be -1: not a write"
        )
        self.refuse(
            "event/reg",
            (trace.kind == RELEASE) & (trace.reg != 0),
            "is {reg}, must be 0 for a release",
        )

    def allocations(self) -> None:
        """The alloc rows name the allocations one by one, and their kernel has that N."""
        trace = self.trace
        allocations = np.flatnonzero(trace.kind == ALLOC)
        if len(allocations) != trace.windows:
            self.fail(
                "alloc/event",
                f"has {trace.windows} rows, but {len(allocations)} allocations are recorded",
            )
        self.refuse(
            "alloc/event",
            trace.alloc_event != allocations,
            "event row {alloc_event} is not the allocation of that number",
        )
        self.refuse(
            "alloc/kernel",
            trace.alloc_kernel >= len(trace.kernels),
            f"kernel {{alloc_kernel}} does not exist; there are {len(trace.kernels)}",
        )
        unused = set(range(len(trace.kernels))) - set(trace.alloc_kernel.tolist())
        if unused:
            name = trace.kernels[min(unused)].name
            self.fail("kernels", f"{name!r} has no window in alloc/kernel")
        sizes = np.array([kernel.window_size for kernel in trace.kernels])
        wrong = trace.reg[allocations] != sizes[trace.alloc_kernel]
        if wrong.any():
            window = int(np.argmax(wrong))
            row, kernel = allocations[window], trace.kernels[trace.alloc_kernel[window]]
            self.fail(
                f"event/reg row {row}",
                f"the window has {trace.reg[row]} registers, but its kernel {kernel.name!r} "
                f"(alloc/kernel row {window}) has {kernel.window_size}",
            )

    def windows(self) -> None:
        """Windows open and close in turn, inside the slice, and share no entry meanwhile."""
        trace, most = self.trace, self.trace.geometry.entries
        free = -1
        holder = np.full(most, free)
        entries_of: dict[int, slice] = {}
        boundaries = np.flatnonzero(trace.kind <= RELEASE)
        for row, kind, slot, size in zip(
            boundaries.tolist(),
            trace.kind[boundaries].tolist(),
            trace.slot[boundaries].tolist(),
            trace.reg[boundaries].tolist(),
            strict=True,
        ):
            where = f"event/slot row {row}"
            if kind == RELEASE:
                if slot not in entries_of:
                    self.fail(where, f"release of slot {slot}, which is not open")
                holder[entries_of.pop(slot)] = free
                continue
            if slot in entries_of:
                self.fail(where, f"allocation of slot {slot}, which is still open")
            entries = slice(slot * size, (slot + 1) * size)
            if entries.stop > most:
                self.fail(
                    where,
                    f"slot {slot} of {size} registers ends at entry {entries.stop - 1}, "
                    f"beyond the slice of {most}",
                )
            other = int(holder[entries].max())
            if other != free:
                self.fail(where, f"entries of slot {slot} overlap those of open slot {other}")
            holder[entries] = slot
            entries_of[slot] = entries
        if entries_of:
            slot = min(entries_of)
            self.fail(
                "event/kind",
                f"slot {slot} is still open at the end; a trace repeats, so it must release "
                "all its windows",
            )

    def accesses(self) -> None:
        """Every access lies in an open window of its slot and below its N."""
        trace = self.trace
        order = np.argsort(trace.slot, kind="stable")
        kind = trace.kind[order]
        change = (kind == ALLOC).astype(np.int64) - (kind == RELEASE)
        is_open = np.empty(len(order), np.bool_)
        # Windows of a slot alternate and close, so the sum starts at 0 with each slot.
        is_open[order] = np.cumsum(change) > 0
        access = trace.kind >= WRITE
        self.refuse("event/slot", access & ~is_open, "access to slot {slot}, which is not open")
        size = trace.reg[trace.alloc_event][trace.window_of_event()]
        self.refuse(
            "event/reg",
            access & (trace.reg >= size),
            "register {reg} is outside the window of slot {slot}",
        )

    def contents(self) -> None:
        """A write leaves the lanes outside its mask as the register's previous write left them.

        What they hold at the first write in a window is not looked at: nobody wrote them.
        """
        trace, geometry = self.trace, self.trace.geometry
        writes = np.flatnonzero(trace.kind == WRITE)
        register = trace.window_of_event()[writes] * geometry.entries + trace.reg[writes]
        order = np.argsort(register, kind="stable")
        writes, register = writes[order], register[order]
        partial = trace.exec_mask[writes[1:]] != geometry.all_lanes
        again = np.flatnonzero((register[1:] == register[:-1]) & partial)
        earlier, later = writes[again], writes[again + 1]
        lane = np.arange(geometry.components, dtype=np.uint64)
        lost = np.zeros(len(trace.kind), np.bool_)
        for start in range(0, len(again), _ROWS_AT_ONCE):
            before = earlier[start : start + _ROWS_AT_ONCE]
            after = later[start : start + _ROWS_AT_ONCE]
            kept = trace.exec_mask[after, None] >> lane & np.uint64(1) == 0
            changed = trace.values[trace.value[after]] != trace.values[trace.value[before]]
            lost[after] = (changed & kept).any(axis=1)
        self.refuse(
            "event/value",
            lost,
            "row {value} of values changes a lane of register {reg} of slot {slot} that the "
            "write does not have in exec",
        )
