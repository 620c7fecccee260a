"""Placement programs in the Numba engine: compiled with the machine that asks them, then run."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import CellType, FunctionType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba.core.errors import NumbaError
from numba.core.types import Integer
from numpy.typing import NDArray
from typing_extensions import override

from mcage.compiled import OPTIONS, LightDispatcher
from mcage.concurrency import FreeList
from mcage.engines import programs
from mcage.engines.numba_engine.cell_times import (
    ALL_BITS,
    clear,
    hand_over,
    new_events,
    new_times,
    plane_times,
)
from mcage.engines.numba_engine.homes import WHOLE_ENTRY
from mcage.engines.numba_engine.jit import (
    AT_ONCE,
    COMPONENTS,
    PARTS,
    Dispatcher,
    aligned_zeros,
    compiled,
    inlined,
    inner,
    sum_components,
    sum_planes_in_parts,
)
from mcage.engines.numba_engine.residencies import (
    ALL_REGIONS,
    BITS,
    FIRST_PARTIAL,
    RECORD,
    Contents,
    by_bit,
    contents_of,
    planes_of,
)
from mcage.engines.numba_engine.residencies import WHOLE as WHOLE_WRITE
from mcage.engines.programs import CYCLE, PLACE, UNTIL, WRITE_OF, PassRecord, ProgramRunner, breach
from mcage.errors import UserError
from mcage.geometry import Bytes, Integers, SliceGeometry, Words
from mcage.plain_text import said_by
from mcage.plugins import blamed_on
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

# Cell times of a slice from the arrivals of its values, entry by entry.
#
# All that counts is for how long an entry shows each content. Contents come back pass after pass:
# their cycles are added up first, and their cells are looked at once. A record overwrites few
# cells of its block, which are added up for themselves; all others go on showing what the entry
# showed.

_OF_PART = COMPONENTS // PARTS
_TILE = 128
"""Contents whose planes are looked at together: 32 KB, so that they stay in the cache."""


class Stored(NamedTuple):
    """Stored bits of each write.

    Attributes
    ----------
    contents : Contents
        Distinct contents.
    image, mask : int64[writes]
        Row of `Contents.planes` that each stores, and row of `Contents.masks` that it overwrites.
    gated : bool
        Whether a place is off while it holds no value.
    blocks : int
        Blocks of an entry.
    words, mask_words : uint64[contents, blocks], uint64[masks, blocks]
        Of `contents` and its masks, the first two components of each block in a word.
    block_of_part : int64[4]
        Block in which each part of 16 components lies; -1 if it is a part of several.
    """

    contents: Contents
    image: Integers
    mask: Integers
    gated: bool
    blocks: int
    words: Words
    mask_words: Words
    block_of_part: Integers


class ShownContent(NamedTuple):
    """For how long an entry shows each content; T is the type of sums of cycles.

    Contents are numbered as the rows of `Contents.planes`; those that writes of some lanes leave
    behind follow.

    Attributes
    ----------
    cycles : T[contents, 4]
        Cycles of each, in each part of the components.
    met : int32[contents]
        The latest entry, counted from 1, that has shown it.
    merged : uint64[contents left behind, 32]
        Planes of what writes of some lanes leave behind.
    row, of_row : uint32[contents], T[contents, 4]
        Rows of `Contents.planes` that the entry at hand shows, and their cycles.
    word : uint64[events]
        The cells that records write, after each event of a block.
    of_words : T[blocks, 64]
        Cycles of these cells at '1'.
    """

    cycles: NDArray[np.integer]
    met: NDArray[np.int32]
    merged: Words
    row: NDArray[np.uint32]
    of_row: NDArray[np.integer]
    word: Words
    of_words: NDArray[np.integer]


def new_shown(stored: Stored, events: int, merged: int, cycles: Any) -> ShownContent:
    """Make memory for entries of so many events, of which so many leave contents behind."""
    contents = len(stored.contents.planes) + merged
    return ShownContent(
        np.empty((contents, PARTS), cycles.dtype),
        np.zeros(contents, np.int32),
        np.empty((merged, BITS), np.uint64),
        np.empty(contents, np.uint32),
        np.empty((contents, PARTS), cycles.dtype),
        np.empty(events, np.uint64),
        aligned_zeros((stored.blocks, COMPONENTS), cycles.dtype),
    )


@compiled
def first_words(planes: Words, components: int, words: Words) -> None:
    """Find the first two components of all blocks: uint64[n, 32] to uint64[n, blocks].

    Blocks have so many components.
    """
    for row in range(len(planes)):
        for block in range(words.shape[1]):
            word = np.uint64(0)
            for bit in range(BITS):
                pair = planes[row, bit] >> np.uint64(block * components)
                word |= (pair & np.uint64(1)) << np.uint64(bit)
                word |= (pair >> np.uint64(1) & np.uint64(1)) << np.uint64(BITS + bit)
            words[row, block] = word


@compiled
def sort_by_entry(
    arrivals: NDArray[np.int32], first: Integers, in_order: NDArray[np.int32]
) -> None:
    """Sort arrivals, int32[n, 4], by entry: first[entry], int64[entries + 1], is where each begins.

    Those of an entry stay in the order in which they are.
    """
    first[:] = 0
    for i in range(len(arrivals)):
        first[arrivals[i, PLACE] // PLACES + 1] += 1
    for entry in range(1, len(first)):
        first[entry] += first[entry - 1]
    for i in range(len(arrivals)):
        entry = arrivals[i, PLACE] // PLACES
        for column in range(arrivals.shape[1]):
            in_order[first[entry], column] = arrivals[i, column]
        first[entry] += 1
    for entry in range(len(first) - 1, 0, -1):
        first[entry] = first[entry - 1]
    first[0] = 0


@compiled
def times_of_entries(
    stored: Stored,
    arrivals: NDArray[np.int32],
    first: Integers,
    cycles: int,
    events: Any,
    shown: ShownContent,
    times: Any,
    ones: Integers,
    powered: Integers,
) -> None:
    """Add the cycles of all cells of some entries at '1' and powered: int64[n, components, 32].

    Parameters
    ----------
    stored : Stored
        Stored bits of each write.
    arrivals : int32[arrivals, 4]
        Values that come to the entries, pass after pass, and in each entry after entry.
    first : int64[passes, n + 1]
        First arrival of each entry in each pass, and the end of the last.
    cycles : int
        Cycles of a pass.
    events, shown, times : Events, Shown, Times
        Workspaces.
    ones, powered : int64[n, components, 32]
        Added to.
    """
    shown.met[:] = 0  # of the entries before, whose numbers are the same
    for entry in range(len(ones)):
        records, whole, merged = False, False, 0
        for pass_ in range(len(first)):
            for i in range(first[pass_, entry], first[pass_, entry + 1]):
                mask = stored.mask[arrivals[i, WRITE_OF]]
                records |= mask == RECORD
                whole |= mask == WHOLE_WRITE
                merged += mask >= FIRST_PARTIAL
        if not (records or whole or merged):
            continue
        clear(times, ALL_BITS)
        if whole and (not records or stored.block_of_part[0] >= 0):
            contents = 0
            for block in range(stored.blocks if records else 1):
                of_block = block if records else WHOLE_ENTRY
                _gather(stored, arrivals, first, entry, cycles, of_block, events)
                contents = _show(stored, events, entry, block, records, contents, shown, times)
            _sum_up(stored, contents, merged, shown, times)
            if records:
                _put_words(stored, shown, times)
        else:
            for block in range(stored.blocks) if records else range(WHOLE_ENTRY, WHOLE_ENTRY + 1):
                all_ = _gather(stored, arrivals, first, entry, cycles, block, events)
                plane_times(stored.contents, events, all_, ALL_BITS, block, times)
        hand_over(times, 1, ones[entry], powered[entry])


@inner
def _gather(
    stored: Any, arrivals: Any, first: Any, entry: int, cycles: int, block: int, events: Any
) -> bool:
    """List what an entry, or a block of it, receives; whether all of it writes all components."""
    count, whole = 0, True
    previous = first_start = np.int64(0)
    for pass_ in range(len(first)):
        for i in range(first[pass_, entry], first[pass_, entry + 1]):
            write, mask = arrivals[i, WRITE_OF], stored.mask[arrivals[i, WRITE_OF]]
            if mask == RECORD and arrivals[i, PLACE] % PLACES != block:
                continue
            whole &= mask == WHOLE_WRITE
            events.image[count] = stored.image[write]
            events.mask[count] = mask
            events.regions[count] = ALL_REGIONS
            when = pass_ * cycles + np.int64(arrivals[i, CYCLE])
            if stored.gated:
                events.held[count] = arrivals[i, UNTIL] - arrivals[i, CYCLE]
            elif count:
                events.held[count - 1] = when - previous
            else:
                first_start = when
            previous = when
            count += 1
    if count and not stored.gated:
        events.held[count - 1] = first_start + len(first) * cycles - previous
    events.orbits[1] = count
    return whole


@inner
def _show(
    stored: Any,
    events: Any,
    entry: int,
    block: int,
    records: bool,
    contents: int,
    shown: Any,
    times: Any,
) -> int:
    """Add up for how long a block, or an entry without records, shows each content.

    Some event writes all cells. The events from the last such one on say what the first one meets.
    Returns how many rows of `Contents.planes` the entry has shown so far.
    """
    image, mask, held, count = events.image, events.mask, events.held, events.orbits[1]
    images, last, left, total = len(stored.contents.planes), count - 1, 0, np.int64(0)
    while mask[last] != WHOLE_WRITE:
        last -= 1
    for i in range(last):
        left += mask[i] >= FIRST_PARTIAL
    row, word = np.int64(0), np.uint64(0)
    for turn in range(2):
        merged = left if turn == 0 else 0
        for i in range(last if turn == 0 else 0, count):
            if mask[i] == WHOLE_WRITE:
                row = np.int64(image[i])
            elif mask[i] != RECORD:
                if block == 0:
                    _merge(stored.contents, row, image[i], mask[i], shown.merged, merged)
                row = np.int64(images + merged)
                merged += 1
            if records:
                of_block = 0 if mask[i] == RECORD else block
                cells = stored.mask_words[mask[i], of_block]
                word = (word & ~cells) | (stored.words[image[i], of_block] & cells)
            if turn == 0:
                continue
            shown.word[i] = word
            total += np.int64(held[i])
            if shown.met[row] != entry + 1:
                shown.met[row] = entry + 1
                for part in range(PARTS):
                    shown.cycles[row, part] = 0
                if row < images:
                    shown.row[contents] = row
                    contents += 1
            for part in range(PARTS):
                if not records or stored.block_of_part[part] == block:
                    shown.cycles[row, part] += held[i]
    if records:
        for component in range(COMPONENTS):
            shown.of_words[block, component] = 0
        sum_components(shown.word, held, count, shown.of_words, block)
    for component in range(COMPONENTS):
        if not records or stored.block_of_part[component // _OF_PART] == block:
            for bit in range(BITS):
                times.powered[bit, component] += total
    return contents


@inner
def _merge(contents: Any, row: Any, image: Any, mask: Any, merged: Any, number: int) -> None:
    """Content of an entry after a write of some lanes, by its content before."""
    images = len(contents.planes)
    for bit in range(BITS):
        before = contents.planes[row, bit] if row < images else merged[row - images, bit]
        cells = contents.masks[mask, bit]
        merged[number, bit] = (before & ~cells) | (contents.planes[image, bit] & cells)


@inner
def _sum_up(stored: Any, contents: int, merged: int, shown: Any, times: Any) -> None:
    """Add the cycles of the contents that an entry shows to the cells that hold '1' in them."""
    images = len(stored.contents.planes)
    for i in range(contents):
        for part in range(PARTS):
            shown.of_row[i, part] = shown.cycles[shown.row[i], part]
    for begin in range(0, contents, _TILE):
        end = min(begin + _TILE, contents)
        for bit in range(0, BITS, AT_ONCE):
            sum_planes_in_parts(
                stored.contents.planes, shown.row, shown.of_row, begin, end, bit, times.ones, bit
            )
    if merged:
        for i in range(merged):
            shown.row[i] = i
        cycles = shown.cycles[images:]
        for bit in range(0, BITS, AT_ONCE):
            sum_planes_in_parts(shown.merged, shown.row, cycles, 0, merged, bit, times.ones, bit)


@inner
def _put_words(stored: Any, shown: Any, times: Any) -> None:
    """Take the cells that records write from their own sums."""
    for block in range(stored.blocks):
        for component in range(2):
            for bit in range(BITS):
                cycles = shown.of_words[block, component * BITS + bit]
                times.ones[bit, block * stored.contents.block_components + component] = cycles


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
    """Functions whose answer is no integer, in words; empty if there are none."""
    for name, function in functions.items():
        for overload in function.overloads.values():
            kind = overload.signature.return_type
            if name != "read" and not isinstance(kind, Integer):
                return f"{name} answers a {kind}, where an integer is needed"
    return ""


def in_words(error: BaseException) -> str:
    """Error of a program or of its compilation: of the latter the reason and the line."""
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


_IN_LDS, _IN_MEMORY = -1, -2


class SliceState(NamedTuple):
    """A slice while the events of a pass go by; arrays int64.

    Attributes
    ----------
    unusable, sound, free : int64[entries]
        Sets of blocks: those that are faulty, those that are not, and of these those that hold no
        value.
    home, write, arrival : int64[rows]
        Place of each row, the write that its value is of, and the arrival of that value; of a
        spilled row, `_IN_LDS` or `_IN_MEMORY`.
    counters : int64[10]
        Counted events.
    spilled, in_lds, arrived : int64[1]
        Rows that are spilled, and those of them in the LDS; arrivals so far.
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
    in_lds: Integers
    arrived: Integers
    breach: Integers


def new_slice(entries: int) -> SliceState:
    """Make memory for a slice."""
    lengths = (*[entries] * 6, programs.COUNTERS, 1, 1, 1, 5)
    return SliceState(*(np.zeros(length, dtype=np.int64) for length in lengths))


@inlined
def _set_up(state: Any, fault_map: Bytes, all_blocks: int) -> None:
    """Begin a pass with every entry empty."""
    state.counters[:] = 0
    state.spilled[0] = state.in_lds[0] = state.arrived[0] = state.breach[0] = 0
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
        state.in_lds[0] -= state.arrival[row] == _IN_LDS


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
def compiled_machine(
    program: PlacementProgram,
) -> tuple[Callable[..., None], dict[str, Callable[..., Any]]]:
    """Machine that runs a pass and asks a program, and the functions that the program defines.

    All of them are compiled when the machine is first called.
    """
    functions = compiled_functions(program)
    return machine_of(functions), functions


def machine_of(functions: dict[str, Callable[..., Any]]) -> Callable[..., None]:
    """Machine that runs a pass and asks the functions of a program.

    Parameters
    ----------
    functions : dict of str to callable
        Those that the program defines; compiled ones, if the machine is to be compiled.

    Returns
    -------
    callable
        Fills in arrivals; its arguments are the input, the slice, the program's state, what the
        program sees of the entries, the fault map, arrivals, and rows for which the LDS has room.
    """
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
    def put(
        told: Any, slice_: Any, kept: Any, seen: Any, number: Any, arrivals: Any, room: int
    ) -> None:
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
            if slice_.in_lds[0] < room:
                slice_.in_lds[0] += 1
                slice_.arrival[row] = _IN_LDS
            else:
                slice_.arrival[row] = _IN_MEMORY
                counters[programs.MEMORY] += 1
                counters[programs.MEMORY_READS] += told.reads_after[number]
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
        told: Any,
        slice_: Any,
        kept: Any,
        seen: Any,
        fault_map: Bytes,
        arrivals: Any,
        room: int,
    ) -> None:
        _set_up(slice_, fault_map, seen.all_blocks)
        for event in range(len(told.kind)):
            kind, which = told.kind[event], int(told.which[event])
            if kind == WRITE:
                put(told, slice_, kept, seen, which, arrivals, room)
            elif kind == READ:
                if at_read:
                    home, when = slice_.home[told.row[which]], told.when[event]
                    read(kept, seen, value_of(told, home, which, when, 0))
            else:
                turn(told, slice_, kept, seen, which, kind == ALLOC, arrivals)
            if slice_.breach[0] != programs.FINE:
                return

    return run_pass


def uncompiled(value: Any) -> Any:
    """Anything as it is, but for a function of the machine: that one as Python runs it.

    So are all that it calls.
    """
    if not isinstance(value, LightDispatcher):
        return value
    function: Any = value.py_func
    used = {name: uncompiled(of_name) for name, of_name in globals_used(function).items()}
    cells = tuple(CellType(used[name]) for name in function.__code__.co_freevars)
    return FunctionType(
        function.__code__, function.__globals__ | used, function.__name__, closure=cells
    )


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
        self._machine, self._functions = self._new_machine()
        self._memory = FreeList(self._new_memory)
        self._told = told._replace(words=_read_only(told.words))
        swaps = replay.program.defines("allocate") + replay.program.defines("release")
        self._most = len(told.cycle) + swaps * len(told.base) * 2 * replay.geometry.blocks
        self._stored = _stored(replay)
        self._has_partial = bool((self._stored.mask >= FIRST_PARTIAL).any())

    def _new_machine(self) -> tuple[Callable[..., None], dict[str, Callable[..., Any]]]:
        """The machine that asks the program, and its compiled functions."""
        return compiled_machine(self.replay.program)

    def _new_memory(self) -> "_Memory":
        entries = self.replay.geometry.entries
        return _Memory(
            new_slice(entries),
            np.empty((self._most, len(programs.ARRIVAL)), np.int32),
            np.empty(entries + 1, np.int64),
        )

    @override
    def run_pass(self, fault_map: Bytes, state: Integers) -> PassRecord:
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
            self._machine(self._told, slice_, kept, seen, fault_map, arrivals, replay.lds_rows)
        except (KeyboardInterrupt, UserError):
            raise
        except BaseException as error:
            raise UserError(
                f"technique {replay.technique.name!r}: its program fails ({in_words(error)})"
            ) from error
        wrong = answers_that_are_no_integers(self._functions)
        if wrong:
            raise UserError(f"technique {replay.technique.name!r}: {wrong}")
        problem, cycle, row, entry, answer = slice_.breach.tolist()
        if problem != programs.FINE:
            raise breach(replay, cycle, row, entry, problem, answer)
        if (slice_.free != slice_.sound).any():
            entry = int(np.flatnonzero(slice_.free != slice_.sound)[0])
            raise breach(replay, replay.cycles, NOWHERE, entry, programs.KEPT, NOWHERE)
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


class PythonProgramRunner(NumbaProgramRunner):
    """Runs programs, and the machine that asks them, as Python: slowly, with each answer."""

    @override
    def _new_machine(self) -> tuple[Callable[..., None], dict[str, Callable[..., Any]]]:
        program = self.replay.program
        asked = {name: self._asked(name) for name in FUNCTIONS if program.defines(name)}
        return uncompiled(machine_of(asked)), {}

    def _asked(self, name: str) -> Callable[..., Any]:
        """A function of the program, all of whose errors are its own."""
        function: Callable[..., Any] = getattr(type(self.replay.program), name)
        who = f"technique {self.replay.technique.name!r}: {name}"

        def ask(state: Any, entries: Entries, subject: Any) -> Any:
            # Python's numbers fail where those of machine code do: NumPy's divide by zero.
            numbers = (of.item() if isinstance(of, np.generic) else of for of in subject)
            subject = type(subject)(*numbers)
            with blamed_on(f"{who} fails at cycle {subject.cycle}"):
                answer = function(state, entries, subject)
            is_integer = isinstance(answer, int | np.integer) and not isinstance(answer, bool)
            if name != "read" and not is_integer:
                raise UserError(
                    f"{who} answers a {type(answer).__name__} at cycle {subject.cycle}, "
                    "where an integer is needed"
                )
            return answer

        return ask


def _first_of_entries(arrivals: NDArray[np.int32], entries: int) -> Integers:
    """Where the arrivals of each entry begin, and the end of the last: int64[entries + 1]."""
    return np.searchsorted(arrivals[:, programs.PLACE] // PLACES, np.arange(entries + 1))


def _stored(replay: ProgrammedReplay) -> Stored:
    """Stored bits of the writes of a replay."""
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
