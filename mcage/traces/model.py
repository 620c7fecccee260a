"""A trace: what one register-file slice did, event by event, while kernels ran on it.

A trace is cyclic: its kernels run over and over, so what an entry holds at the end it holds until
its first write of the next pass. Columns are kept as they lie in the file (``storage.py``), one
NumPy array each, so that an engine may walk them directly; ``validation.py`` states what is
trusted about them.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mcage.geometry import GCN, SliceGeometry
from mcage.plain_text import shown

ALLOC, RELEASE, WRITE, READ = 0, 1, 2, 3
"""Kinds of event, as stored in the column ``kind``."""


@dataclass(frozen=True)
class Column:
    """One column of a trace: where it is stored and as what.

    Shuffling the bytes of an element before compression pays for numbers that grow slowly, not
    for lane masks, whose bytes are mostly equal to one another.
    """

    attribute: str
    dataset: str
    stored: str
    held: str
    shuffled: bool = True


EVENT_COLUMNS = (
    Column("cycle", "event/cycle", "<u8", "int64"),
    Column("kind", "event/kind", "|u1", "uint8", shuffled=False),
    Column("slot", "event/slot", "<u2", "uint16"),
    Column("reg", "event/reg", "|u1", "uint8", shuffled=False),
    Column("exec_mask", "event/exec", "<u8", "uint64", shuffled=False),
    Column("value", "event/value", "<i4", "int32"),
)
ALLOC_COLUMNS = (
    Column("alloc_event", "alloc/event", "<u4", "uint32"),
    Column("alloc_kernel", "alloc/kernel", "|u1", "uint8", shuffled=False),
    Column("alloc_launch", "alloc/launch", "<u4", "uint32"),
    Column("alloc_work_group", "alloc/work_group", "<u4", "uint32"),
    Column("alloc_wavefront", "alloc/wavefront", "<u4", "uint32"),
)
VALUES = Column("values", "values", "<u4", "uint32")
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
    reg : uint8[events]
        Logical register in the window, 0 ... N-1; N for an allocation, 0 for a release.
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
    reg: npt.NDArray[np.uint8]
    exec_mask: npt.NDArray[np.uint64]
    value: npt.NDArray[np.int32]
    values: npt.NDArray[np.uint32]
    alloc_event: npt.NDArray[np.uint32]
    alloc_kernel: npt.NDArray[np.uint8]
    alloc_launch: npt.NDArray[np.uint32]
    alloc_work_group: npt.NDArray[np.uint32]
    alloc_wavefront: npt.NDArray[np.uint32]
    geometry: SliceGeometry = GCN

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
        """What must be said wherever results of the trace are shown; empty of a plain recording.

        It follows from two keys of `source`: what of the trace is ``approximate`` (a list, or an
        object with that as keys), and the profile that it is ``synthesized`` from.
        """
        said = []
        if approximate := self.source.get("approximate"):
            names = approximate if isinstance(approximate, dict | list) else [approximate]
            said.append("approximate in " + ", ".join(shown(name) for name in names))
        if profile := self.source.get("synthesized"):
            said.append(f"synthesized from {shown(profile)}")
        return "; ".join(said)

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
            array = np.ascontiguousarray(getattr(self, column.attribute), dtype=column.stored)
            content.update(f"{column.dataset}{array.shape}".encode())
            content.update(array.reshape(-1).view(np.uint8).data)
        return content.hexdigest()
