"""What a user asks for: only some windows, only a part of the time, only some slices."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcage.errors import UserError
from mcage.plain_text import shortened

if TYPE_CHECKING:
    from mcage.traces.importing.windows import Place


class Enough(Exception):  # noqa: N818
    """All that the user asks for has been read; the rest of the files need not be."""


@dataclass(frozen=True)
class Limits:
    """Which windows are imported.

    Attributes
    ----------
    windows : int or None
        The first so many.
    earliest, latest : int or None
        Those that open in these cycles, counted from the first allocation in the file. What happens
        later than `latest` is left out: windows that are open then are released.
    slices : frozenset of str
        Those in slices of these names, such as ``cu0.simd1``; all if it is empty.
    """

    windows: int | None = None
    earliest: int | None = None
    latest: int | None = None
    slices: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.latest is not None and self.latest < (self.earliest or 0):
            raise UserError(f"cycles {self.earliest or 0}:{self.latest}: ends before it begins")

    def keep(self, before: int, cycle: int, place: "Place") -> bool:
        """Whether a window is asked for, with so many kept before it, that opens in this cycle."""
        if self.complete(before) or cycle < (self.earliest or 0):
            return False
        return not self.slices or place.unit is None or bool(self.slices & place.names())

    def complete(self, kept: int) -> bool:
        """Whether so many windows are all that are asked for."""
        return self.windows is not None and kept >= self.windows


@dataclass(frozen=True)
class Options:
    """What a user says that files do not.

    Attributes
    ----------
    limits : Limits
        Which windows are imported.
    period : int or None
        Ticks of the file that are one cycle.
    values : str or None
        Whether the contents of registers are those ``before`` or ``after`` the instruction, where
        the format does not say (CUTracer). None: taken as those before, and refused where they
        contradict that.
    """

    limits: Limits = Limits()
    period: int | None = None
    values: str | None = None

    def __post_init__(self) -> None:
        if self.values not in (None, "before", "after"):
            raise UserError(f"values {shortened(self.values)}: must be before or after")
