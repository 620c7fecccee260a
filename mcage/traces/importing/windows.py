"""Register windows of an import: where they come from, where they lie, what is counted of them."""

import struct
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

MOST_REGISTERS = 255
"""Registers of a window in the trace format."""

_HEAD_OF_WRITE = struct.Struct("<BQ")


@dataclass(frozen=True)
class Origin:
    """Where a window comes from.

    Attributes
    ----------
    kernel : str
        Name of its kernel.
    launch : int
        Number of the kernel launch.
    work_group, wavefront : int or None
        Global numbers. Without a work-group, the window is alone in its own.
    """

    kernel: str = "kernel"
    launch: int = 0
    work_group: int | None = None
    wavefront: int | None = None


@dataclass(frozen=True)
class Place:
    """The part of a GPU whose registers hold a window.

    Attributes
    ----------
    unit : int or None
        Compute unit (64 lanes) or SM (32 lanes). If the file does not say, work-groups fill one
        unit after the other.
    part : int
        SIMD unit of a compute unit, or partition of an SM.
    """

    unit: int | None = None
    part: int = 0

    def names(self) -> frozenset[str]:
        """What the slice is called with 64 and with 32 lanes."""
        return frozenset({self.name(64), self.name(32)})

    def name(self, lanes: int) -> str:
        """What the slice is called: ``cu0.simd1`` or ``sm0.part1``."""
        unit, part = ("cu", "simd") if lanes == 64 else ("sm", "part")
        return f"{unit}{self.unit}.{part}{self.part}"


class Counted:
    """Numbers and digests of the writes and reads of a window."""

    def __init__(self) -> None:
        self.writes = self.exact_writes = self.lane_writes = self.partial_writes = self.reads = 0
        self.most_register = -1
        self._all: Any = blake2b(digest_size=12)
        self._states: Any = blake2b(digest_size=12)
        self._registers = bytearray()
        self._exact: Any = None  # that of all writes, until one is not exact
        self._digests: dict[str, str] = {}

    def write(self, register: int, lanes: int, packed: bytes, content: bytes, exact: bool) -> None:
        """Count a write: the values of its lanes, and what the whole register holds after it."""
        written = _HEAD_OF_WRITE.pack(register, lanes) + packed
        self.writes += 1
        self.exact_writes += exact
        self.lane_writes += len(packed) // 4
        self.partial_writes += len(packed) < len(content)
        if self._exact is not None and exact:
            self._exact.update(written)
        elif self._exact is None and not exact:
            self._exact = self._all.copy()
        self._all.update(written)
        self._states.update(written[:1] + content)
        self._registers.append(register)

    def facts(self) -> dict[str, Any]:
        """Numbers and digests by name."""
        numbers = ("writes", "exact_writes", "lane_writes", "partial_writes", "reads")
        self.close()
        return {name: getattr(self, name) for name in numbers} | self._digests

    def close(self) -> None:
        """Keep the digests only as text, which is smaller."""
        if self._digests:
            return
        registers = blake2b(self._registers, digest_size=12)
        digests = (self._all, self._exact or self._all, self._states, registers)
        names = ("digest", "digest_of_exact", "state_digest", "registers_written")
        texts = (digest.hexdigest() for digest in digests)
        self._digests = dict(zip(names, texts, strict=True))
        self._all = self._exact = self._states = None
        self._registers = bytearray()


@dataclass(eq=False, slots=True)
class Window:
    """A register window; what it holds is known to the recording alone.

    Attributes
    ----------
    number : int
        From 0, in the order in which windows open; -1 for one that the user has not asked for.
    size : int or None
        Registers; None until they are known, which `Recording.close_window` may say.
    begin, last, end : int
        Time of the allocation, of the last access so far, and of the release (None: not yet).
    lanes : int
        Lanes that have a work-item.
    facts : dict
        What `--json` says of this window besides what the recording counts.
    """

    number: int
    size: int | None
    begin: int
    origin: Origin
    place: Place
    first_entry: int | None
    lanes: int
    facts: dict[str, Any]
    last: int = 0
    end: int | None = None
    contents: dict[int, bytes] = field(default_factory=dict)
    counted: Counted = field(default_factory=Counted)


@dataclass
class Gaps:
    """Reads that do not see what the last recorded write has left.

    Attributes
    ----------
    reads : int
        All reads of the windows that were kept.
    before_any_write : int
        Reads of a register that nothing has written since its window was opened.
    other_contents : int
        Reads for which the file shows other contents than the last write.
    """

    reads: int = 0
    before_any_write: int = 0
    other_contents: int = 0

    @property
    def share(self) -> float:
        """Share of the reads."""
        return (self.before_any_write + self.other_contents) / max(self.reads, 1)
