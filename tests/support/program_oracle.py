"""Oracle of placement programs: an event machine of its own, checked at each step."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from mcage.engines import programs
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.numpy_engine.cell_times import Occupants, cell_times, make_imprints
from mcage.engines.programs import PassRecord, ProgramRunner, breach
from mcage.errors import UserError
from mcage.geometry import Bytes, Integers
from mcage.plugins import blamed_on
from mcage.replays.prepare import ProgrammedReplay
from mcage.techniques.programs import (
    IN_TABLE,
    NO_SWAP,
    NOWHERE,
    PLACES,
    SPILL,
    SWAPS,
    WHOLE,
    Entries,
    Value,
    Window,
    block_of,
    entry_of,
    in_block,
    in_entry,
)
from mcage.traces.model import ALLOC, READ, WRITE


class OracleRunner(ProgramRunner):
    """Runs programs as Python, and works out cell times as the reference engine does."""

    def __init__(self, replay: ProgrammedReplay) -> None:
        super().__init__(replay)
        self._imprints = make_imprints(
            replay.schedule.stored_values, replay.geometry, replay.technique.gates_released
        )

    @override
    def run_pass(self, fault_map: Bytes, state: Integers) -> PassRecord:
        return _Pass(self.replay, fault_map, state).run()

    def cell_times(self, passes: Sequence[PassRecord]) -> tuple[Integers, Integers]:
        """See `ProgramRunner.cell_times`; the passes are an orbit of their own."""
        geometry, cycles = self.replay.geometry, self.replay.cycles
        ones = np.zeros((geometry.entries, geometry.entry_bits), dtype=np.int64)
        powered = np.zeros_like(ones)
        arrivals = np.concatenate([record.arrivals.astype(np.int64) for record in passes])
        shift = cycles * np.repeat(
            np.arange(len(passes)), [len(record.arrivals) for record in passes]
        )
        arrivals[:, [programs.CYCLE, programs.UNTIL]] += shift[:, None]
        entry_met, block = np.divmod(arrivals[:, programs.PLACE], PLACES)
        block[block == WHOLE] = 0
        for entry in np.unique(entry_met).tolist():
            here = np.flatnonzero(entry_met == entry)
            when, until, write, _ = arrivals[here].T
            if not self.replay.technique.gates_released:
                until = np.append(when[1:], when[0] + len(passes) * cycles)
            occupants = Occupants(write, block[here], until - when, np.zeros_like(here))
            ones[entry], powered[entry] = cell_times(self._imprints, occupants)
        return ones, powered


class _Pass:
    """A pass of a slice, event after event."""

    def __init__(self, replay: ProgrammedReplay, fault_map: Bytes, state: Integers) -> None:
        self.replay, self.told, self.program = replay, replay.told, replay.program
        self.all_blocks = replay.geometry.all_blocks
        unusable = fault_map.astype(np.int64)
        self.faulty = unusable != 0
        self.sound = self.all_blocks & ~unusable
        self.free = self.sound.copy()
        self.home = np.full(len(unusable), NOWHERE, dtype=np.int64)
        # Of each row the arrival of its value, and the write that the value is of.
        self.arrival = np.full(len(unusable), -1)
        self.write = np.full(len(unusable), -1)
        # Of each spilled row whether it is in memory, since the LDS was full.
        self.in_memory = np.zeros(len(unusable), dtype=bool)
        self.state = self.program.state_in(state, replay.lengths)
        self.entries = Entries(
            _read_only(unusable), _read_only(self.free), self.all_blocks, _read_only(self.home)
        )
        self.words = _read_only(self.told.words)
        self.counters = np.zeros(programs.COUNTERS, dtype=np.int64)
        self.arrivals: list[list[int]] = []

    def run(self) -> PassRecord:
        told = self.told
        events = zip(told.kind.tolist(), told.which.tolist(), told.when.tolist(), strict=True)
        for kind, which, when in events:
            if kind == WRITE:
                self.put(which, when)
            elif kind == READ:
                self.ask("read", when, self.value(which, when, 0))
            else:
                self.turn(kind == ALLOC, which, when)
        if (self.free != self.sound).any():
            entry = int(np.flatnonzero(self.free != self.sound)[0])
            raise breach(self.replay, self.replay.cycles, NOWHERE, entry, programs.KEPT, NOWHERE)
        arrivals = np.array(self.arrivals, dtype=np.int32).reshape(-1, len(programs.ARRIVAL))
        order = np.argsort(arrivals[:, programs.PLACE] // PLACES, kind="stable")
        return PassRecord(self.counters, arrivals[order])

    def ask(self, name: str, cycle: int, subject: Window | Value) -> int:
        """Answer of a function of the program, all of whose errors are its own."""
        function: Callable[..., Any] = getattr(type(self.program), name)
        with blamed_on(f"technique {self.replay.technique.name!r}: {name} fails at cycle {cycle}"):
            answer = function(self.state, self.entries, subject)
        if name == "read":
            return 0
        if isinstance(answer, bool) or not isinstance(answer, int | np.integer):
            raise UserError(
                f"technique {self.replay.technique.name!r}: {name} answers a "
                f"{type(answer).__name__} at cycle {cycle}, where an integer is needed"
            )
        return int(answer)

    def value(self, write: int, when: int, mask: int) -> Value:
        told = self.told
        window, row = int(told.window[write]), int(told.row[write])
        return Value(
            cycle=when,
            window=window,
            slot=int(told.slot[window]),
            size=int(told.size[window]),
            register=int(told.register[write]),
            row=row,
            mask=mask,
            compressible=bool(told.compressible[write]),
            compressed=bool(told.compressed[write]),
            home=int(self.home[row]),
            words=self.words[told.value[write]],
        )

    def turn(self, opens: bool, window: int, when: int) -> None:
        """Open or close a window."""
        told, name = self.told, "allocate" if opens else "release"
        base, size = int(told.base[window]), int(told.size[window])
        subject = Window(when, window, int(told.slot[window]), base, size)
        answer = self.ask(name, when, subject)
        if not opens:
            for row in range(base, base + size):
                self.vacate(row)
                self.home[row] = NOWHERE
        if answer != NO_SWAP:
            self.swap(answer, when, base)

    def put(self, write: int, when: int) -> None:
        """Let a written value look for a place."""
        told = self.told
        row, earlier = int(told.row[write]), int(self.home[told.row[write]])
        self.vacate(row)
        if told.in_table[write]:
            self.home[row] = IN_TABLE
            self.counters[programs.REGULAR] += 1
            return
        place = self.ask("write", when, self.value(write, when, int(told.mask[write])))
        if place == SPILL:
            others = (self.home == SPILL) & (np.arange(len(self.home)) != row)
            in_lds = np.count_nonzero(others & ~self.in_memory)
            self.home[row], self.in_memory[row] = SPILL, in_lds >= self.replay.lds_rows
            self.counters[programs.LDS] += 1
            self.counters[programs.LDS_READS] += told.reads_after[write]
            if self.in_memory[row]:
                self.counters[programs.MEMORY] += 1
                self.counters[programs.MEMORY_READS] += told.reads_after[write]
            self.counters[programs.ROW_CYCLES] += told.end[write] - when
            spilled = np.count_nonzero(self.home == SPILL)
            self.counters[programs.PEAK] = max(self.counters[programs.PEAK], spilled)
            return
        self.settle(row, write, place, when)
        if place == earlier:
            self.counters[programs.REGULAR] += 1
            return
        self.count_redirection(entry_of(place))
        self.counters[programs.WAKEUPS] += told.wakes[write]

    def count_redirection(self, entry: int) -> None:
        self.counters[programs.TO_FAULTY if self.faulty[entry] else programs.TO_RELIABLE] += 1

    def blocks_of(self, place: int) -> int:
        block = block_of(place)
        return self.all_blocks if block == WHOLE else 1 << block

    def vacate(self, row: int) -> None:
        """Free the place of a row; its value is gone with its end."""
        place = int(self.home[row])
        if place >= 0:
            self.free[entry_of(place)] |= self.blocks_of(place)

    def settle(self, row: int, write: int, place: int, when: int) -> None:
        """Let a value live in a place, if it may."""
        entry, block = entry_of(place), block_of(place)
        in_block = bool(self.told.compressed[write])
        problem = programs.FINE
        if place < 0 or entry >= len(self.sound):
            problem = programs.NO_ENTRY
        elif in_block and (block == WHOLE or not self.all_blocks >> block & 1):
            problem = programs.NEEDS_BLOCK
        elif not in_block and block != WHOLE:
            problem = programs.NEEDS_ENTRY
        elif self.blocks_of(place) & ~self.sound[entry]:
            problem = programs.NOT_SOUND
        elif self.blocks_of(place) & ~self.free[entry]:
            problem = programs.TAKEN
        if problem != programs.FINE:
            raise breach(self.replay, when, row, entry, problem, place)
        self.free[entry] &= ~self.blocks_of(place)
        self.home[row], self.write[row], self.arrival[row] = place, write, len(self.arrivals)
        self.arrivals.append([when, int(self.told.end[write]), write, place])
        taken = [self.blocks_of(home) for home in self.living_in(entry).values()]
        if sum(taken) != self.sound[entry] & ~self.free[entry]:
            raise breach(self.replay, when, row, entry, programs.TAKEN, place)

    def living_in(self, entry: int) -> dict[int, int]:
        """Rows that live in an entry, and their places."""
        rows = np.flatnonzero((self.home >= in_block(entry, 0)) & (self.home <= in_entry(entry)))
        return {row: int(self.home[row]) for row in rows.tolist()}

    def swap(self, answer: int, when: int, row: int) -> None:
        """Let the values of two entries change places."""
        pair = divmod(answer, SWAPS)
        for entry in pair:
            if answer < 0 or entry >= len(self.sound):
                raise breach(self.replay, when, row, entry, programs.NO_ENTRY, in_block(entry, 0))
        if pair[0] == pair[1]:
            return
        moving = self.living_in(pair[0]) | self.living_in(pair[1])
        for mover in moving:
            self.vacate(mover)
            self.home[mover] = NOWHERE
        for mover, place in sorted(moving.items()):
            other = pair[entry_of(place) == pair[0]]
            self.arrivals[self.arrival[mover]][programs.UNTIL] = when
            self.settle(mover, int(self.write[mover]), in_block(other, block_of(place)), when)
            self.count_redirection(other)


def _read_only(array: Integers) -> Integers:
    view = array.view()
    view.flags.writeable = False
    return view


class OracleEngine(NumpyEngine):
    def program_runner(self, replay):
        return OracleRunner(replay)
