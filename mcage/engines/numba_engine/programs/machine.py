"""The event machine that asks a placement program, compiled together with the program."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.jit import inlined
from mcage.engines.numba_engine.programs.compiling import compiled_functions, outermost
from mcage.engines.programs.runner import (
    CYCLE,
    FINE,
    LDS,
    LDS_READS,
    NEEDS_BLOCK,
    NEEDS_ENTRY,
    NO_ENTRY,
    NOT_SOUND,
    PEAK,
    PLACE,
    REGULAR,
    ROW_CYCLES,
    TAKEN,
    TO_FAULTY,
    TO_RELIABLE,
    UNTIL,
    WAKEUPS,
    WRITE_OF,
    Integers,
)
from mcage.techniques.programs import (
    IN_TABLE,
    NO_SWAP,
    NOWHERE,
    SPILL,
    WHOLE,
    PlacementProgram,
    Value,
    Window,
)
from mcage.techniques.programs.answers import PLACES, SWAPS
from mcage.techniques.programs.program import FUNCTIONS
from mcage.traces.model import ALLOC, READ, WRITE


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
def _set_up(state: Any, fault_map: NDArray[np.uint8], all_blocks: int) -> None:
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
    if state.breach[0] == FINE:
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
    problem = FINE
    if place < 0 or entry >= len(state.free):
        problem = NO_ENTRY
    elif in_block and (block == WHOLE or not all_blocks >> block & 1):
        problem = NEEDS_BLOCK
    elif not in_block and block != WHOLE:
        problem = NEEDS_ENTRY
    if problem == FINE:
        blocks = _blocks_of(place, all_blocks)
        if blocks & ~state.sound[entry]:
            problem = NOT_SOUND
        elif blocks & ~state.free[entry]:
            problem = TAKEN
    if problem != FINE:
        _report(state, problem, when, row, place)
        return False
    state.free[entry] &= ~_blocks_of(place, all_blocks)
    state.home[row] = place
    state.write[row] = write
    number = state.arrived[0]
    state.arrival[row] = number
    arrivals[number, CYCLE] = when
    arrivals[number, UNTIL] = told.end[write]
    arrivals[number, WRITE_OF] = write
    arrivals[number, PLACE] = place
    state.arrived[0] = number + 1
    return True


@inlined
def _count_redirection(state: Any, entry: Any) -> None:
    state.counters[TO_FAULTY if state.unusable[entry] else TO_RELIABLE] += 1


@inlined
def _swap(
    state: Any, arrivals: Any, told: Any, answer: Any, when: Any, row: Any, all_blocks: int
) -> None:
    """Let the values of two entries change places."""
    first, second = answer // SWAPS, answer % SWAPS
    entries = len(state.free)
    if answer < 0 or first >= entries or second >= entries:
        entry = first if answer < 0 or first >= entries else second
        _report(state, NO_ENTRY, when, row, entry * PLACES)
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
            arrivals[state.arrival[mover], UNTIL] = when
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
            counters[REGULAR] += 1
            return
        value = value_of(told, earlier, number, when, told.mask[number])
        slice_.home[row] = earlier
        place: Any = np.int64(write(kept, seen, value))
        if place == SPILL:
            slice_.home[row] = SPILL
            slice_.spilled[0] += 1
            counters[LDS] += 1
            counters[LDS_READS] += told.reads_after[number]
            counters[ROW_CYCLES] += told.end[number] - when
            counters[PEAK] = max(counters[PEAK], slice_.spilled[0])
            return
        if not _settle(slice_, arrivals, told, row, number, place, when, seen.all_blocks):
            return
        if place == earlier:
            counters[REGULAR] += 1
            return
        _count_redirection(slice_, place // PLACES)
        counters[WAKEUPS] += told.wakes[number]

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
        told: Any, slice_: Any, kept: Any, seen: Any, fault_map: NDArray[np.uint8], arrivals: Any
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
            if slice_.breach[0] != FINE:
                return

    return run_pass, functions
