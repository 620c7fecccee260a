"""Placement programs of users: their input, state and answers."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Annotated, Any, ClassVar, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.plugins import plugin_source

# Answers of a placement program, as numbers: a place, a spill, a swap.
#
# A place is ``64 * entry + block``, with the block `WHOLE` for the whole entry. These functions may
# be called in programs: every engine knows them.

NOWHERE, SPILL, IN_TABLE = -1, -2, -3
"""In place of a place: no value yet; in the LDS; in the compression table."""

NO_SWAP = -1
"""No two entries are swapped."""

WHOLE = 63
"""In place of a block: all blocks of the entry."""

PLACES = 64
"""Places of an entry: more than it has blocks, so that a power of two makes them."""

SWAPS = 1 << 20
"""More than there are entries."""


def in_entry(entry: int) -> int:
    """Place of a value that takes a whole entry."""
    return entry * PLACES + WHOLE


def in_block(entry: int, block: int) -> int:
    """Place of a compressed value in a block of an entry."""
    return entry * PLACES + block


def entry_of(place: int) -> int:
    """Entry of a place."""
    return place // PLACES


def block_of(place: int) -> int:
    """Block of a place, or `WHOLE`."""
    return place % PLACES


def lowest_block(blocks: int) -> int:
    """Number of the lowest block in a set that is not empty."""
    number = 0
    while blocks & 1 == 0:
        blocks >>= 1
        number += 1
    return number


def swap(entry: int, other: int) -> int:
    """Answer of `allocate` or `release`: let the values of two entries change places."""
    return entry * SWAPS + other


# Arguments of a placement program, and the kinds of arrays of its state.
#
# All numbers are signed 64-bit integers, so that Python and compiled code compute the same.

Integers = NDArray[np.int64]

PerEntry = Annotated[Integers, "entry"]
"""Kept for each entry: int64[entries]."""
PerWindow = Annotated[Integers, "window"]
"""Kept for each slot, that is for the window which lies in it: int64[windows at once]."""
PerSlice = Annotated[Integers, "slice"]
"""Kept once for the slice: int64[1]."""

SCOPES = ("entry", "window", "slice")


class Entries(NamedTuple):
    """The entries of the slice as they are. A program reads them, and does not change them.

    Attributes
    ----------
    unusable : int64[entries]
        Fault map: bit b set = block b of the entry is unusable. 0: the entry is reliable.
    free : int64[entries]
        Bit b set = block b of the entry is sound and holds no value.
    all_blocks : int
        Set of all blocks of an entry: an entry whose `free` equals it is reliable and empty.
    home : int64[rows]
        Where the value of each row lives: a place, `NOWHERE`, `SPILL` or `IN_TABLE`.
    """

    unusable: Integers
    free: Integers
    all_blocks: int
    home: Integers


class Window(NamedTuple):
    """A window that is allocated or released.

    Attributes
    ----------
    cycle : int
        When, from the start of the pass.
    number, slot : int
        Number of the window in the pass, and the slot that it lies in.
    base, size : int
        Its first row, and its number of registers: its rows are base ... base + size - 1.
    """

    cycle: int
    number: int
    slot: int
    base: int
    size: int


class Value(NamedTuple):
    """A value that is written or read.

    Attributes
    ----------
    cycle : int
        When, from the start of the pass.
    window, slot, size : int
        Its window: number in the pass, slot, registers.
    register, row : int
        Register in the window; row, which is the window's first row + register.
    mask : int
        Lanes that are written, lane i as bit i; all 64 lanes are -1. 0 for a read.
    compressible : bool
        Whether its pattern is compressible and all its lanes were written at once.
    compressed : bool
        Whether it is stored compressed, so that it needs a block and not an entry.
    home : int
        Where the row's value has lived so far: a place, `NOWHERE`, `SPILL` or `IN_TABLE`.
        While a write is answered, that place is free.
    words : int64[components]
        The register's content, an unsigned number of 32 bits for each component.
    """

    cycle: int
    window: int
    slot: int
    size: int
    register: int
    row: int
    mask: int
    compressible: bool
    compressed: bool
    home: int
    words: Integers


# Functions that a program consists of, wherever they stand, and the digest of their source.


def globals_used(function: FunctionType) -> dict[str, Any]:
    """Names of a function's module, and of what it is defined in, and what they stand for."""
    names = sorted(set(_names(function.__code__)))
    used = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return used | {name: cell.cell_contents for name, cell in cells}


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def reachable(functions: Iterable[FunctionType]) -> list[FunctionType]:
    """Functions, and those that they call by a global name, each once."""
    met: dict[FunctionType, None] = {}
    waiting = list(functions)
    while waiting:
        function = waiting.pop(0)
        if function not in met:
            met[function] = None
            called = globals_used(function).values()
            waiting += [value for value in called if isinstance(value, FunctionType)]
    return list(met)


def source_digest(functions: Iterable[FunctionType], settings: str) -> str:
    """Digest of the files that functions stand in and import, and of the constants that they use.

    Parameters
    ----------
    functions : iterable of function
        Functions; those that they call count as well.
    settings : str
        What else decides.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    content = hashlib.blake2b(settings.encode(), digest_size=8)
    met = reachable(functions)
    for module in sorted({function.__module__ for function in met}):
        if not module.startswith("mcage."):  # mcage's sources have a digest of their own
            content.update(f"\n{module}\n".encode() + _source(module))
    for function in met:
        code = function.__code__
        constants = [value for value in code.co_consts if not isinstance(value, CodeType)]
        where = function.__qualname__, code.co_firstlineno  # in a file there may be several
        content.update(f"\n{where} {code.co_names} {code.co_varnames} {constants}".encode())
        if not Path(code.co_filename).is_file():  # typed into an interpreter
            content.update(code.co_code)
        for name, value in globals_used(function).items():
            if not isinstance(value, FunctionType | ModuleType | type):
                content.update(f"\n{name} = {_constant(value)}".encode())
    return content.hexdigest()


def _source(module: str) -> bytes:
    try:
        return plugin_source(module)
    except (KeyError, AttributeError, OSError):
        return b""


def _constant(value: Any) -> str:
    return str(value.tolist()) if isinstance(value, np.ndarray) else repr(value)


# A placement program: a class of functions that the CPU engines run, and what it keeps.
#
# A program is named in a `Technique` with placement `PROGRAM`. Its functions have no `self`: what
# they keep is in the declared arrays alone, so that an engine may compile them.

FUNCTIONS = {"allocate": 3, "write": 3, "read": 3, "release": 3}
"""Functions that a program may define, and the number of parameters of each."""

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
        (`mcage.engines.programs`).
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


__all__ = [
    "IN_TABLE",
    "NOWHERE",
    "NO_SWAP",
    "SPILL",
    "WHOLE",
    "Entries",
    "PerEntry",
    "PerSlice",
    "PerWindow",
    "PlacementProgram",
    "Value",
    "Window",
    "block_of",
    "entry_of",
    "in_block",
    "in_entry",
    "lowest_block",
    "swap",
]
