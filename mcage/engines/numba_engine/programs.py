"""Placement programs in the Numba engine: compiled with the machine that asks them, then run."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba.core.errors import NumbaError
from numba.core.types import Integer
from numpy.typing import NDArray

from mcage.compiled import OPTIONS, LightDispatcher
from mcage.concurrency import FreeList
from mcage.engines import programs
from mcage.engines.numba_engine.cell_times import new_events, new_times
from mcage.engines.numba_engine.jit import Dispatcher, inlined
from mcage.engines.numba_engine.program_times import (
    Stored,
    first_words,
    new_shown,
    sort_by_entry,
    times_of_entries,
)
from mcage.engines.numba_engine.residencies import (
    BITS,
    FIRST_PARTIAL,
    RECORD,
    by_bit,
    contents_of,
    planes_of,
)
from mcage.engines.numba_engine.simd import COMPONENTS, PARTS
from mcage.engines.programs import PassRecord, ProgramRunner, breach
from mcage.errors import UserError
from mcage.geometry import Bytes, Integers, SliceGeometry, Words
from mcage.plain_text import said_by
from mcage.replays.prepare import ProgrammedReplay
from mcage.techniques.programs import (
    FUNCTIONS,
    IN_TABLE,
    NO_SWAP,
    NOWHERE,
    PLACES,
    SPILL,
    SWAPS,
    WHOLE,
    Entries,
    PlacementProgram,
    Value,
    Window,
    globals_used,
    reachable,
)
from mcage.traces.model import ALLOC, READ, WRITE

# Compiles the functions of a placement program, and those that they call.

Function = TypeVar("Function", bound=Callable[..., Any])


_OF_USERS = OPTIONS | {"no_cpython_wrapper": True, "boundscheck": True}
"""How a program's functions are compiled: those of the machine call them, and nothing else does."""


def outermost(function: Function) -> Function:
    """Compile a function that Python calls, and keep no machine code of it."""
    return cast(Function, Dispatcher(function, targetoptions=OPTIONS))


def compiled_functions(program: PlacementProgram) -> dict[str, Callable[..., Any]]:
    """Functions that a program defines, compiled; a function that it calls by a name is, too.

    An index outside an array is an error, as it is in Python; so is a division by zero.
    """
    functions = {name: getattr(type(program), name) for name in FUNCTIONS if program.defines(name)}
    met = reachable(functions.values())
    anew = {
        function: FunctionType(
            function.__code__,
            dict(function.__globals__),
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        for function in met
    }
    compiled = {
        function: LightDispatcher(copy, targetoptions=_OF_USERS) for function, copy in anew.items()
    }
    for function in met:
        for name, value in globals_used(function).items():
            if isinstance(value, FunctionType):
                anew[function].__globals__[name] = compiled[value]
    return {name: compiled[function] for name, function in functions.items()}


def answers_that_are_no_integers(functions: dict[str, Any]) -> str:
    """What compiled functions answer otherwise than an integer, in words; empty if none does."""
    for name, function in functions.items():
        for overload in function.overloads.values():
            kind = overload.signature.return_type
            if name != "read" and not isinstance(kind, Integer):
                return f"{name} answers a {kind}, where an integer is needed"
    return ""


def in_words(error: Exception) -> str:
    """What a program or its compilation fails with: for the latter why, and in which line."""
    if not isinstance(error, NumbaError):
        return said_by(error)
    text = str(error)
    lines = (line.strip() for line in text.splitlines())
    why = next((line for line in lines if line and not line.startswith("Failed in ")), "")
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    of_user = [place for place in places if not _MACHINE.search(place[0])]
    where = f"; {Path(of_user[0][0]).name} line {of_user[0][1]}" if of_user else ""
    return f"Numba does not compile it: {why.rstrip(':'):.200}{where}"


_MACHINE = re.compile(r"numba_engine.programs\.py$|site-packages")
"""Files that are not the user's."""


# The event machine that asks a placement program, compiled together with the program.


class SliceState(NamedTuple):
    """A slice while the events of a pass go by; arrays int64.

    Attributes
    ----------
    unusable, sound, free : int64[entries]
        Sets of blocks: those that are faulty, those that are not, and of these those that hold no
        value.
    home, write, arrival : int64[rows]
        Place of each row, the write that its value is of, and the arrival of that value.
    counters : int64[8]
        Counted events.
    spilled, arrived : int64[1]
        Rows in the LDS; arrivals so far.
    breach : int64[5]
        What is wrong, in which cycle, with which row, in which entry, and the answer.
    """

    unusable: Integers
    sound: Integers
    free: Integers
    home: Integers
    write: Integers
    arrival: Integers
    counters: Integers
    spilled: Integers
    arrived: Integers
    breach: Integers


def new_slice(entries: int) -> SliceState:
    """Make memory for a slice."""
    lengths = (*[entries] * 6, 8, 1, 1, 5)
    return SliceState(*(np.zeros(length, dtype=np.int64) for length in lengths))


@inlined
def _set_up(state: Any, fault_map: Bytes, all_blocks: int) -> None:
    """Begin a pass with every entry empty."""
    state.counters[:] = 0
    state.spilled[0] = state.arrived[0] = state.breach[0] = 0
    for entry in range(len(state.free)):
        unusable = np.int64(fault_map[entry])
        state.unusable[entry] = unusable
        state.sound[entry] = state.free[entry] = all_blocks & ~unusable
        state.home[entry] = NOWHERE


@inlined
def _report(state: Any, problem: int, when: int, row: int, answer: int) -> None:
    """Keep what is wrong first."""
    if state.breach[0] == programs.FINE:
        state.breach[0] = problem
        state.breach[1] = when
        state.breach[2] = row
        state.breach[3] = answer // PLACES
        state.breach[4] = answer


@inlined
def _blocks_of(place: Any, all_blocks: int) -> int:
    block = place % PLACES
    return all_blocks if block == WHOLE else 1 << block


@inlined
def _vacate(state: Any, row: Any, all_blocks: int) -> None:
    """Free the place of a row."""
    place = state.home[row]
    if place >= 0:
        state.free[place // PLACES] |= _blocks_of(place, all_blocks)
    elif place == SPILL:
        state.spilled[0] -= 1


@inlined
def _settle(
    state: Any,
    arrivals: Any,
    told: Any,
    row: int,
    write: int,
    place: int,
    when: int,
    all_blocks: int,
) -> bool:
    """Let a value live in a place; False, and a report, if it may not."""
    entry, block, in_block = place // PLACES, place % PLACES, told.compressed[write]
    problem = programs.FINE
    if place < 0 or entry >= len(state.free):
        problem = programs.NO_ENTRY
    elif in_block and (block == WHOLE or not all_blocks >> block & 1):
        problem = programs.NEEDS_BLOCK
    elif not in_block and block != WHOLE:
        problem = programs.NEEDS_ENTRY
    if problem == programs.FINE:
        blocks = _blocks_of(place, all_blocks)
        if blocks & ~state.sound[entry]:
            problem = programs.NOT_SOUND
        elif blocks & ~state.free[entry]:
            problem = programs.TAKEN
    if problem != programs.FINE:
        _report(state, problem, when, row, place)
        return False
    state.free[entry] &= ~_blocks_of(place, all_blocks)
    state.home[row] = place
    state.write[row] = write
    number = state.arrived[0]
    state.arrival[row] = number
    arrivals[number, programs.CYCLE] = when
    arrivals[number, programs.UNTIL] = told.end[write]
    arrivals[number, programs.WRITE_OF] = write
    arrivals[number, programs.PLACE] = place
    state.arrived[0] = number + 1
    return True


@inlined
def _count_redirection(state: Any, entry: Any) -> None:
    state.counters[programs.TO_FAULTY if state.unusable[entry] else programs.TO_RELIABLE] += 1


@inlined
def _swap(
    state: Any, arrivals: Any, told: Any, answer: Any, when: Any, row: Any, all_blocks: int
) -> None:
    """Let the values of two entries change places."""
    first, second = answer // SWAPS, answer % SWAPS
    entries = len(state.free)
    if answer < 0 or first >= entries or second >= entries:
        entry = first if answer < 0 or first >= entries else second
        _report(state, programs.NO_ENTRY, when, row, entry * PLACES)
        return
    if first == second:
        return
    for turn in range(2):  # first all leave, then all arrive
        for mover in range(len(state.home)):
            place = state.home[mover]
            entry = place // PLACES
            if place < 0 or (entry != first and entry != second):
                continue
            if turn == 0:
                state.free[entry] |= _blocks_of(place, all_blocks)
                continue
            other = second if entry == first else first
            arrivals[state.arrival[mover], programs.UNTIL] = when
            target = other * PLACES + place % PLACES
            if not _settle(
                state, arrivals, told, mover, state.write[mover], target, when, all_blocks
            ):
                return
            _count_redirection(state, other)


@cache
def machine_of(program: PlacementProgram) -> tuple[Callable[..., None], dict[str, Any]]:
    """Machine that runs a pass and asks a program.

    Parameters
    ----------
    program : PlacementProgram
        Is compiled with it.

    Returns
    -------
    callable, dict of str to callable
        Fills in arrivals; its arguments are what is told, the slice, the program's state, what the
        program sees of the entries, and the fault map. And the functions that the program defines,
        which are compiled when it is first called.
    """
    functions: dict[str, Any] = compiled_functions(program)
    allocate, write, read, release = (cast(Any, functions.get(name)) for name in FUNCTIONS)
    # Numba compiles no branch whose condition is known to be false.
    at_allocation, at_read, at_release = (
        function is not None for function in (allocate, read, release)
    )
    may_swap = at_allocation or at_release

    @inlined
    def value_of(told: Any, home: Any, number: Any, when: Any, mask: Any) -> Any:
        window = told.window[number]
        return Value(
            when,
            window,
            told.slot[window],
            told.size[window],
            told.register[number],
            told.row[number],
            mask,
            told.compressible[number],
            told.compressed[number],
            home,
            told.words[told.value[number]],
        )

    @inlined
    def put(told: Any, slice_: Any, kept: Any, seen: Any, number: Any, arrivals: Any) -> None:
        row, when, counters = told.row[number], told.cycle[number], slice_.counters
        earlier = slice_.home[row]
        _vacate(slice_, row, seen.all_blocks)
        if told.in_table[number]:
            slice_.home[row] = IN_TABLE
            counters[programs.REGULAR] += 1
            return
        value = value_of(told, earlier, number, when, told.mask[number])
        slice_.home[row] = earlier
        place: Any = np.int64(write(kept, seen, value))
        if place == SPILL:
            slice_.home[row] = SPILL
            slice_.spilled[0] += 1
            counters[programs.LDS] += 1
            counters[programs.LDS_READS] += told.reads_after[number]
            counters[programs.ROW_CYCLES] += told.end[number] - when
            counters[programs.PEAK] = max(counters[programs.PEAK], slice_.spilled[0])
            return
        if not _settle(slice_, arrivals, told, row, number, place, when, seen.all_blocks):
            return
        if place == earlier:
            counters[programs.REGULAR] += 1
            return
        _count_redirection(slice_, place // PLACES)
        counters[programs.WAKEUPS] += told.wakes[number]

    @inlined
    def turn(
        told: Any, slice_: Any, kept: Any, seen: Any, window: int, opens: bool, arrivals: Any
    ) -> None:
        base, size = told.base[window], told.size[window]
        when = told.alloc[window] if opens else told.release[window]
        subject = Window(when, window, told.slot[window], base, size)
        answer = np.int64(NO_SWAP)
        if opens:
            if at_allocation:
                answer = np.int64(allocate(kept, seen, subject))
        else:
            if at_release:
                answer = np.int64(release(kept, seen, subject))
            for row in range(base, base + size):
                _vacate(slice_, row, seen.all_blocks)
                slice_.home[row] = NOWHERE
        if may_swap and answer != NO_SWAP:
            _swap(slice_, arrivals, told, answer, when, base, seen.all_blocks)

    @outermost
    def run_pass(
        told: Any, slice_: Any, kept: Any, seen: Any, fault_map: Bytes, arrivals: Any
    ) -> None:
        _set_up(slice_, fault_map, seen.all_blocks)
        for event in range(len(told.kind)):
            kind, which = told.kind[event], int(told.which[event])
            if kind == WRITE:
                put(told, slice_, kept, seen, which, arrivals)
            elif kind == READ:
                if at_read:
                    home, when = slice_.home[told.row[which]], told.when[event]
                    read(kept, seen, value_of(told, home, which, when, 0))
            else:
                turn(told, slice_, kept, seen, which, kind == ALLOC, arrivals)
            if slice_.breach[0] != programs.FINE:
                return

    return run_pass, functions


# Placement programs in the Numba engine: passes of a slice, and the times of its cells.

_TOGETHER = 1 << 18
"""Arrivals whose entries are worked out together: 4 MB of them."""


class _Memory(NamedTuple):
    """Memory for a pass of a slice.

    Attributes
    ----------
    slice_ : SliceState
        The slice.
    arrivals : int32[most arrivals, 4]
        Arrivals in the order of time.
    first : int64[entries + 1]
        First arrival of each entry.
    """

    slice_: SliceState
    arrivals: NDArray[np.int32]
    first: Integers


class NumbaProgramRunner(ProgramRunner):
    """Runs programs as machine code."""

    def __init__(self, replay: ProgrammedReplay) -> None:
        super().__init__(replay)
        told = replay.told
        self._machine, self._functions = machine_of(replay.program)
        self._memory = FreeList(self._new_memory)
        self._told = told._replace(words=_read_only(told.words))
        swaps = replay.program.defines("allocate") + replay.program.defines("release")
        self._most = len(told.cycle) + swaps * len(told.base) * 2 * replay.geometry.blocks
        self._stored = _stored(replay)
        self._has_partial = bool((self._stored.mask >= FIRST_PARTIAL).any())

    def _new_memory(self) -> "_Memory":
        entries = self.replay.geometry.entries
        return _Memory(
            new_slice(entries),
            np.empty((self._most, len(programs.ARRIVAL)), np.int32),
            np.empty(entries + 1, np.int64),
        )

    def run_pass(self, fault_map: Bytes, state: Integers) -> PassRecord:
        """See `ProgramRunner.run_pass`."""
        replay, memory = self.replay, self._memory.take()
        slice_, arrivals = memory.slice_, memory.arrivals
        seen = Entries(
            _read_only(slice_.unusable),
            _read_only(slice_.free),
            replay.geometry.all_blocks,
            _read_only(slice_.home),
        )
        kept = replay.program.state_in(state, replay.lengths)
        try:
            self._machine(self._told, slice_, kept, seen, fault_map, arrivals)
        except Exception as error:
            raise UserError(
                f"technique {replay.technique.name!r}: its program fails ({in_words(error)})"
            ) from error
        wrong = answers_that_are_no_integers(self._functions)
        if wrong:
            raise UserError(f"technique {replay.technique.name!r}: {wrong}")
        problem, cycle, row, entry, answer = slice_.breach.tolist()
        if problem != programs.FINE:
            raise breach(replay, cycle, row, entry, problem, answer)
        arrivals = arrivals[: int(slice_.arrived[0])]
        record = PassRecord(slice_.counters.copy(), np.empty_like(arrivals))
        sort_by_entry(arrivals, memory.first, record.arrivals)
        self._memory.give_back(memory)
        return record

    def cell_times(self, passes: Sequence[PassRecord]) -> tuple[Integers, Integers]:
        """See `ProgramRunner.cell_times`. So many entries at a time that they stay in the cache."""
        geometry, orbit_cycles = self.replay.geometry, len(passes) * self.replay.cycles
        entries, components = geometry.entries, geometry.components
        ones = np.zeros((entries, components, BITS), dtype=np.int64)
        powered = np.zeros_like(ones)
        first = np.stack([_first_of_entries(record.arrivals, entries) for record in passes])
        in_entry, merged = np.diff(first).sum(axis=0), self._most_merged(passes)
        cycles = np.zeros(0, np.uint32 if orbit_cycles < 1 << 32 else np.int64)
        workspaces = (
            new_events(int(in_entry.max()), 1, cycles),
            new_shown(self._stored, int(in_entry.max()), merged, cycles),
            new_times(cycles),
        )
        for part in np.array_split(np.arange(entries), -(-int(in_entry.sum()) // _TOGETHER) or 1):
            begin, end = int(part[0]), int(part[-1]) + 1
            of_part = [
                record.arrivals[bounds[begin] : bounds[end]]
                for record, bounds in zip(passes, first, strict=True)
            ]
            starts = np.cumsum([0, *map(len, of_part)])[:-1]
            times_of_entries(
                self._stored,
                np.concatenate(of_part),
                first[:, begin : end + 1] - first[:, begin, None] + starts[:, None],
                self.replay.cycles,
                *workspaces,
                ones[begin:end],
                powered[begin:end],
            )
        return ones.reshape(entries, -1), powered.reshape(entries, -1)

    def _most_merged(self, passes: Sequence[PassRecord]) -> int:
        """Most writes of some lanes that come to an entry."""
        if not self._has_partial:
            return 0
        entries = self.replay.geometry.entries
        merged = np.zeros(entries, np.int64)
        for record in passes:
            partial = self._stored.mask[record.arrivals[:, programs.WRITE_OF]] >= FIRST_PARTIAL
            merged += np.bincount(
                record.arrivals[partial, programs.PLACE] // PLACES, minlength=entries
            )
        return int(merged.max())


def _first_of_entries(arrivals: NDArray[np.int32], entries: int) -> Integers:
    """Where the arrivals of each entry begin, and the end of the last: int64[entries + 1]."""
    return np.searchsorted(arrivals[:, programs.PLACE] // PLACES, np.arange(entries + 1))


def _stored(replay: ProgrammedReplay) -> Stored:
    """What the writes of a replay store."""
    schedule, stored_values = replay.schedule, replay.schedule.stored_values
    held = np.flatnonzero(~schedule.in_table)
    image, mask = np.zeros((2, schedule.writes), dtype=np.int64)
    planes, image[held] = planes_of(schedule, held)
    mask[:] = stored_values.mask
    mask[mask > 0] += FIRST_PARTIAL - 1
    mask[stored_values.is_record] = RECORD
    contents = contents_of(schedule, planes, [by_bit(stored_values.masks[1:])])
    geometry = replay.geometry
    words, mask_words = (
        _first_words(of_bits, geometry) for of_bits in (contents.planes, contents.masks)
    )
    return Stored(
        contents,
        image,
        mask,
        replay.technique.gates_released,
        geometry.blocks,
        words,
        mask_words,
        _block_of_part(geometry),
    )


def _first_words(planes: Words, geometry: SliceGeometry) -> Words:
    """See `Stored.words`."""
    words = np.empty((len(planes), geometry.blocks), dtype=np.uint64)
    first_words(planes, geometry.block_components, words)
    return words


def _block_of_part(geometry: SliceGeometry) -> Integers:
    """See `Stored.block_of_part`."""
    component = np.arange(PARTS) * (COMPONENTS // PARTS) % geometry.components
    whole = geometry.block_components >= COMPONENTS // PARTS
    return component // geometry.block_components if whole else np.full(PARTS, -1)


def _read_only(array: Integers) -> Integers:
    view = array.view()
    view.flags.writeable = False
    return view
