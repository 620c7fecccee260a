"""A placement program: a class of functions that the CPU engines run, and what it keeps.

A program is named in a `Technique` with placement `PROGRAM`. Its functions have no `self`: what
they keep is in the declared arrays alone, so that an engine may compile them.
"""

from functools import cached_property
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, get_type_hints

import numpy as np

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.techniques.programs.answers import NO_SWAP
from mcage.techniques.programs.source import source_digest
from mcage.techniques.programs.told import SCOPES, Entries, Integers, Value, Window

FUNCTIONS = {"allocate": 3, "write": 3, "read": 3, "release": 3}
"""What a program may define, and the number of parameters of each."""

_SETTINGS = ("State", "tolerance", "most_passes")
_MOST_PASSES = 1 << 16


class Nothing(NamedTuple):
    """The state of a program that keeps nothing."""


class PlacementProgram:
    """Decides where values live. Derive from it, and define at least `write`.

    Attributes
    ----------
    State : type
        A `NamedTuple` whose fields are annotated `PerEntry`, `PerWindow` or `PerSlice`: integer
        arrays that outlive windows, passes and epochs. They begin with zeros.
    tolerance : float
        Duties have settled when they change by no more than this as the passes double
        (`mcage.engines.programs.long_run`).
    most_passes : int
        Passes after which duties must have settled.
    """

    State: ClassVar[type[Any]] = Nothing
    tolerance: ClassVar[float] = 0.05
    most_passes: ClassVar[int] = 1024

    @staticmethod
    def allocate(state: Any, entries: Entries, window: Window) -> int:
        """A window opens. Answer `swap(entry, other)`, or `NO_SWAP`."""
        return NO_SWAP

    @staticmethod
    def write(state: Any, entries: Entries, value: Value) -> int:
        """Answer where a written value is to live: a place, or `SPILL`; `value.home` to stay.

        Values that the technique stores in the compression table are not asked about.
        """
        raise NotImplementedError

    @staticmethod
    def read(state: Any, entries: Entries, value: Value) -> None:
        """A value is read."""

    @staticmethod
    def release(state: Any, entries: Entries, window: Window) -> int:
        """A window closes; its values are still there, and are gone before entries are swapped.

        Answer `swap(entry, other)`, or `NO_SWAP`.
        """
        return NO_SWAP

    def defines(self, name: str) -> bool:
        """Whether the program has a function of its own under a name of `FUNCTIONS`."""
        return getattr(type(self), name) is not getattr(PlacementProgram, name)

    @property
    def keeps_state(self) -> bool:
        """Whether anything outlives a pass."""
        return bool(self.scopes)

    @cached_property
    def scopes(self) -> dict[str, str]:
        """Scope of each array of the state, by its name: entry, window or slice."""
        hints = get_type_hints(self.State, include_extras=True)
        return {
            name: getattr(hints.get(name), "__metadata__", ("",))[0] for name in self.State._fields
        }

    def lengths(self, entries: int, windows: int) -> list[int]:
        """Length of each array of the state, in a slice of so many entries and windows at once."""
        length = {"entry": entries, "window": windows, "slice": 1}
        return [length[scope] for scope in self.scopes.values()]

    def state_in(self, words: Integers, lengths: list[int]) -> Any:
        """The state as a `State`, whose arrays are the parts of int64[words] one after another."""
        ends = np.cumsum([0, *lengths])
        return self.State(*(words[ends[i] : ends[i + 1]] for i in range(len(lengths))))

    def check(self) -> None:
        """Refuse what no engine could run.

        Raises
        ------
        UserError
            One line that says what is wrong.
        """
        problem = self._problem()
        if problem:
            raise UserError(f"program {type(self).__name__}: {problem}")

    def _problem(self) -> str:
        kind, state = type(self), self.State
        for name in dir(kind):
            if not name.startswith("_") and not hasattr(PlacementProgram, name):
                return (
                    f"has {shortened(name)}, which nothing calls; it may have "
                    f"{', '.join((*FUNCTIONS, *_SETTINGS))}, and functions beside the class"
                )
        if not self.defines("write"):
            return "does not define write"
        for name, parameters in FUNCTIONS.items():
            function = getattr(kind, name)
            if not isinstance(function, FunctionType):
                return f"{name} is {shortened(function)}, no function"
            if function.__code__.co_argcount != parameters:
                return f"{name} takes {function.__code__.co_argcount} parameters, not {parameters}"
        if not (isinstance(state, type) and issubclass(state, tuple) and hasattr(state, "_fields")):
            return f"State is {shortened(state)}, no NamedTuple"
        for name, scope in self.scopes.items():
            if scope not in SCOPES:
                return f"State.{name} is annotated otherwise than PerEntry, PerWindow or PerSlice"
        if not (isinstance(self.tolerance, float) and 0 < self.tolerance < 1):
            return f"tolerance is {shortened(self.tolerance)}, no number between 0 and 1"
        if not (isinstance(self.most_passes, int) and 2 <= self.most_passes <= _MOST_PASSES):
            return f"most_passes is {shortened(self.most_passes)}, not one of 2 ... {_MOST_PASSES}"
        return ""

    @cached_property
    def digest(self) -> str:
        """Digest of the program's source: 16 hexadecimal digits."""
        kind = type(self)
        settings = f"{self.tolerance} {self.most_passes} {self.scopes if self.scopes else ''}"
        return source_digest([getattr(kind, name) for name in FUNCTIONS], settings)

    def __repr__(self) -> str:
        return f"{type(self).__module__}:{type(self).__qualname__} {self.digest}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementProgram) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))
