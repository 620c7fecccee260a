"""A profile: what a trace is like, so that others like it can be drawn.

Docs, key by key with units: docs/trace-profiles.md.
"""

import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.geometry import COMPONENT_BITS, SliceGeometry
from mcage.plain_text import shown, shown_path
from mcage.traces.model import MOST_REGISTERS

FORMAT: Literal["mcage profile 2"] = "mcage profile 2"
MOST_BYTES = 64 * MIB
"""Largest file of a profile."""

_XZ = b"\xfd7zXZ"

BEFORE, LAST = 0, 255
"""Steps of what a register holds before its first write, and of its last write in a window."""

Pattern = Literal[
    "none", "constant", "single-delta", "double-delta", "byte-deltas", "two-byte-deltas", "other"
]
PATTERNS: tuple[Pattern, ...] = (
    "constant",
    "single-delta",
    "double-delta",
    "byte-deltas",
    "two-byte-deltas",
    "other",
    "none",
)
"""Names of patterns by their codes; the last is of what no write has left. The patterns of a trace
that are not regular are told apart by the width of their differences from lane 0."""
REGULAR = 3
"""Number of patterns that are compressible: the first ones."""

Share = Annotated[float, Field(ge=0, le=1)]
Bits = (
    Share
    | Annotated[tuple[Share, ...], Field(min_length=COMPONENT_BITS, max_length=COMPONENT_BITS)]
)
Signed = Annotated[float, Field(ge=-1, le=1)]
SignedBits = (
    Signed
    | Annotated[tuple[Signed, ...], Field(min_length=COMPONENT_BITS, max_length=COMPONENT_BITS)]
)
"""A number for each bit, the least significant first; one number stands for 32 equal ones."""
Numbers = Annotated[tuple[Annotated[float, Field(ge=0, le=2**31)], ...], Field(min_length=1)]
Shares = Annotated[tuple[Share, ...], Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=2**31)]
Length = Annotated[int, Field(ge=1, le=2**31)]


class Part(BaseModel):
    """A part of a profile; it takes no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Contents(Part):
    """What registers hold after writes of a kind.

    A bit's plane is that bit in all lanes that were written (in lane 0 of a regular content). It is
    '0', '1' or mixed. What it becomes depends on what it was in the value before of the register.
    """

    deltas: tuple[
        tuple[Annotated[int, Field(ge=-1, le=31)], Annotated[int, Field(ge=-1, le=31)], Share], ...
    ] = ()
    """Exponents of delta_e and delta_b, -1 for a delta of 0, with their share; of regular
    contents."""
    same: Share = 0.0
    """Share of values that equal the one before, of those that share its pattern."""
    same_deltas: Share = 0.0
    """Share of the other values that have its deltas, likewise; of regular contents."""
    first_block: Share = 0.0
    """Share of contents whose first block is compressible, though they are not."""
    first: tuple[Bits, Bits] = (0.0, 0.0)
    """Shares of planes that are '1', and mixed, in the first value of a window."""
    after: tuple[Bits, Bits] = (0.0, 0.0)
    """The same in later values."""
    was_zero: tuple[Bits, Bits] | None = None
    """The same of planes that were '0'; by default as in `after`."""
    was_one: tuple[Bits, Bits] | None = None
    """The same of planes that were '1'."""
    was_mixed: tuple[Bits, Bits] | None = None
    """The same of planes that were mixed."""
    kept: Bits = 0.0
    """Share of planes that were mixed and stay as they are in every lane."""
    inverted: Bits = 0.0
    """Share of planes that were mixed and are inverted in every lane."""
    mixed_ones: Bits = 0.0
    """Share of lanes with '1' in planes that become mixed."""
    neighbours: Bits = 0.0
    """Share of neighbouring lanes that differ in these planes."""
    linked: SignedBits = 0.0
    """Share of lanes that keep their bit in the other planes that were mixed and still are;
    negative if they invert it."""
    again_ones: Bits | None = None
    """Share of '1' in the other lanes of these planes; by default `mixed_ones`."""
    again_neighbours: Bits | None = None
    """Share of neighbours among these lanes that differ; by default `neighbours`."""


class Value(Part):
    """Values of a register that were written in the same step, with one pattern and lane mask."""

    step: Annotated[int, Field(ge=BEFORE, le=LAST)]
    """Step of the write; 0 of what the register holds before its first write, 255 of the last."""
    pattern: Pattern
    lanes: Annotated[int, Field(ge=0)]
    """Index into the lane masks of the kernel."""
    count: Count
    """Values in the trace."""
    then: dict[int, Share]
    """Shares of the values that follow: index into the values of the register, and share."""
    lives: Annotated[
        tuple[tuple[Share, Annotated[float, Field(ge=0, le=2**31)], Share], ...],
        Field(min_length=1),
    ]
    """Equal parts of the values by the length of their lives, the mean of each: time to the next
    write as a share of that from first to last write; reads; time to the last read as a share of
    that to the next write or the end."""
    other_reads: Numbers
    """Times to other reads, as shares of that to the last one: levels."""
    contents: Contents | None = None


class Register(Part):
    """What happens to a register of a window."""

    writes: Numbers
    """Writes in a window: levels."""
    written: Annotated[tuple[tuple[Share, Share], ...], Field(min_length=1)]
    """Equal parts of the windows by the time between the first and the last write, the mean of
    each: times of both, as shares of the window's active time."""
    steps: tuple[tuple[Length, Length], ...] = ()
    """Writes of a window but the last, in their order: so many in turn belong to so many steps that
    repeat; the steps are numbered from 1."""
    values: Annotated[tuple[Value, ...], Field(min_length=1)]


class Role(Part):
    """Windows whose wavefronts have a similar place in their work-groups."""

    active: Numbers
    """Time from the allocation of a window to its last access, as a share of its work-group's:
    levels."""
    registers: tuple[Register, ...]


class KernelProfile(Part):
    """A kernel's windows."""

    name: str
    window_size: Annotated[int, Field(ge=1, le=MOST_REGISTERS)]
    wavefronts: Numbers
    """Windows of a work-group: levels."""
    open_windows: Annotated[int, Field(ge=1, le=1024)]
    """Most windows open at once."""
    first: Numbers
    """Cycles from the begin of a launch to an allocation of fresh entries: levels."""
    following: Numbers
    """Cycles from the release of the entries to their next allocation: levels."""
    tail: Numbers | None = None
    """Cycles from the last access of a window to its release: levels; none where the windows of a
    work-group are released together."""
    lane_masks: Annotated[tuple[str, ...], Field(min_length=1)]
    """Lanes of writes, hexadecimal; the first is that of all lanes."""
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]


class Launch(Part):
    """A launch of a kernel."""

    kernel: Count
    work_groups: Annotated[int, Field(ge=1, le=1_000_000)]
    gap: Count
    """Cycles from the release of all earlier windows to the begin of the launch."""
    active: Numbers
    """Cycles from the allocation of a work-group to its last access: means of equal parts of the
    work-groups in the order of their allocation."""
    deviation: Numbers
    """The same for a work-group, relative to that mean: levels."""
    tail: Numbers
    """Cycles from the last access of a work-group to its release: means as of `active`."""
    apart: Numbers | None = None
    """Cycles between the releases of work-groups that others follow, in their order: levels; none
    where many are not released in the order of their allocation."""


class Profile(Part):
    """What a trace is like."""

    format: Literal["mcage profile 2"]
    name: str
    source: dict[str, Any]
    geometry: dict[str, int]
    statistics: dict[str, Any]
    """Statistics of the whole trace, which nothing is drawn from."""
    kernels: Annotated[tuple[KernelProfile, ...], Field(min_length=1, max_length=256)]
    launches: Annotated[tuple[Launch, ...], Field(min_length=1, max_length=10_000)]
    rest: Annotated[int, Field(ge=1, le=2**31)]
    """Cycles from the last event to the end of the pass."""

    @model_validator(mode="after")
    def _refers_to_what_there_is(self) -> "Profile":
        slice_ = self.slice
        for kernel in self.kernels:
            room = slice_.entries // kernel.window_size
            if kernel.open_windows > room:
                raise ValueError(
                    f"kernel {kernel.name!r}: open_windows is {kernel.open_windows}, and the slice "
                    f"has room for {room}"
                )
            if any(len(role.registers) != kernel.window_size for role in kernel.roles):
                raise ValueError(
                    f"kernel {kernel.name!r}: each role must have {kernel.window_size} registers"
                )
            _check_masks(kernel, int(slice_.all_lanes))
            for role in kernel.roles:
                for register in role.registers:
                    _check_values(kernel, register)
        if any(launch.kernel >= len(self.kernels) for launch in self.launches):
            raise ValueError(f"launches: there are {len(self.kernels)} kernels, counted from 0")
        return self

    @property
    def title(self) -> str:
        """Name of the profile, and what it was derived from if that was not recorded."""
        derived = self.source.get("derived")
        return f"{self.name}, {shown(derived)}" if derived else self.name

    @property
    def slice(self) -> SliceGeometry:
        """The slice."""
        try:
            return SliceGeometry(**self.geometry)
        except (TypeError, UserError) as error:
            raise ValueError(f"geometry: {error}") from error


def _check_masks(kernel: KernelProfile, all_lanes: int) -> None:
    for mask in kernel.lane_masks:
        try:
            right = 0 < int(mask, 16) <= all_lanes
        except ValueError:
            right = False
        if not right:
            raise ValueError(
                f"kernel {kernel.name!r}: lane_masks: {mask[:40]!r} must be hexadecimal, from 1 to "
                f"{all_lanes:#x}"
            )


def _check_values(kernel: KernelProfile, register: Register) -> None:
    for value in register.values:
        written = value.step != BEFORE
        wrong = value.lanes >= len(kernel.lane_masks) or any(
            not 0 <= following < len(register.values) for following in value.then
        )
        if wrong or written != (value.contents is not None) or written == (value.pattern == "none"):
            raise ValueError(
                f"kernel {kernel.name!r}: a value of step {value.step} refers to a lane mask or a "
                "value that is not there, or its contents do not suit its step"
            )
    if register.values[0].step != BEFORE:
        raise ValueError(f"kernel {kernel.name!r}: the first value of a register has step 0")


def read_profile(path: Path) -> Profile:
    """Read a profile from its file.

    Raises
    ------
    UserError
        It cannot be read, or is no profile; the message names file, key and value.
    """
    try:
        return parse_profile(_unpacked(read_regular(path, MOST_BYTES)), shown_path(path))
    except UnreadableFileError as error:
        raise UserError(f"{shown_path(path)}: cannot read the profile ({error.reason})") from error


def _unpacked(content: bytes) -> bytes:
    """Content of a file, which may be compressed with xz; what is damaged is no JSON either."""
    if not content.startswith(_XZ):
        return content
    try:
        return lzma.LZMADecompressor(memlimit=2 * MOST_BYTES).decompress(content, MOST_BYTES)
    except lzma.LZMAError:
        return b""


def parse_profile(content: bytes, place: str) -> Profile:
    """Read a profile from the content of a file.

    Raises
    ------
    UserError
        It is no profile; the message names place, key and value.
    """
    try:
        given = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: no profile: not JSON ({str(error)[:100]})") from error
    try:
        return Profile.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "profile"
        shown = (
            "" if isinstance(first["input"], dict | list | tuple) else f" = {first['input']!r:.40}"
        )
        raise UserError(f"{place}: {key}{shown}: {first['msg'][:200]}") from error


def profile_text(profile: Profile) -> str:
    """Text of a profile's file: JSON."""
    return (
        json.dumps(profile.model_dump(mode="json", exclude_defaults=True), separators=(",", ":"))
        + "\n"
    )


# Distributions as levels: the means of equal parts of the ascending samples.
#
# Levels keep the mean exactly, need no family of distributions, and a draw is a look-up. Draws are
# spread: of n of them, each n-th part of the distribution gives exactly one.

FEW, MANY = 16, 64
"""Parts of a distribution of a register, and of one of a kernel's windows."""


def levels_of(samples: NDArray[Any], parts: int = FEW) -> list[float]:
    """Means of equal parts of the ascending samples: at most ``parts`` numbers, one if all agree.

    Parameters
    ----------
    samples : array[n]
        The samples; of none, the only level is 0.
    parts : int
        Number of parts.
    """
    if not len(samples):
        return [0.0]
    ordered = np.sort(samples.astype(np.float64))
    if ordered[0] == ordered[-1]:
        return [rounded(ordered[0])]
    return trend_of(ordered, parts)


def trend_of(samples: NDArray[Any], parts: int = FEW) -> list[float]:
    """Means of equal parts of the samples in their order, at most ``parts`` numbers."""
    # Sums up to each edge; an edge inside a sample takes its share of it.
    sums = np.concatenate(([0.0], np.cumsum(samples)))
    edges = np.linspace(0, len(samples), min(parts, len(samples)) + 1)
    means = np.diff(np.interp(edges, np.arange(len(sums)), sums)) / edges[1]
    return [rounded(mean) for mean in means]


def along(trend: Sequence[float], count: int) -> NDArray[np.float64]:
    """A trend at so many places in order."""
    return np.asarray(trend)[np.arange(count) * len(trend) // max(count, 1)]


def drawn(levels: Sequence[float], spread_: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw from levels by numbers between 0 and 1, one each."""
    return np.asarray(levels)[(spread_ * len(levels)).astype(np.int64)]


def spread(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Numbers between 0 and 1 in random order, one in each of ``count`` equal parts."""
    return (random.permutation(count) + random.random(count)) / max(count, 1)


def rounded(number: "float | np.floating[Any]") -> float:
    """The number with six significant digits: more than samples tell."""
    return float(f"{number:.6g}")


def chosen(shares: Sequence[float], spread_: NDArray[np.float64]) -> NDArray[np.int64]:
    """Choose among as many as there are shares, by numbers between 0 and 1."""
    upper = np.cumsum(shares)
    return np.minimum(
        np.searchsorted(upper / upper[-1], spread_, side="right"), len(shares) - 1
    ).astype(np.int64)
