"""Placement programs in the Numba engine: passes of a slice, and the times of its cells."""

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.cell_times import new_times
from mcage.engines.numba_engine.events import new_events
from mcage.engines.numba_engine.placement.contents import (
    BITS,
    FIRST_PARTIAL,
    RECORD,
    by_bit,
    contents_of,
    planes_of,
)
from mcage.engines.numba_engine.programs.compiling import answers_that_are_no_integers, in_words
from mcage.engines.numba_engine.programs.machine import machine_of, new_slice
from mcage.engines.numba_engine.programs.times import (
    Stored,
    first_words,
    new_shown,
    times_of_slice,
)
from mcage.engines.numba_engine.simd import COMPONENTS, PARTS
from mcage.engines.programs.runner import (
    FINE,
    Arrivals,
    Integers,
    PassRecord,
    ProgramRunner,
    breach,
)
from mcage.errors import UserError
from mcage.geometry import SliceGeometry
from mcage.replays.prepare import ProgrammedReplay
from mcage.techniques.programs import Entries


class NumbaProgramRunner(ProgramRunner):
    """Runs programs as machine code."""

    def __init__(self, replay: ProgrammedReplay) -> None:
        super().__init__(replay)
        told = replay.told
        self._machine, self._functions = machine_of(replay.program)
        self._told = told._replace(words=_read_only(told.words))
        swaps = replay.program.defines("allocate") + replay.program.defines("release")
        self._most = len(told.cycle) + swaps * len(told.base) * 2 * replay.geometry.blocks
        self._stored = _stored(replay)

    def run_pass(self, fault_map: NDArray[np.uint8], state: Integers) -> PassRecord:
        """See `ProgramRunner.run_pass`."""
        replay, slice_ = self.replay, new_slice(self.replay.geometry.entries)
        seen = Entries(
            _read_only(slice_.unusable),
            _read_only(slice_.free),
            replay.geometry.all_blocks,
            _read_only(slice_.home),
        )
        arrivals = Arrivals(*(np.empty(self._most, dtype=np.int64) for _ in range(5)))
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
        if problem != FINE:
            raise breach(replay, cycle, row, entry, problem, answer)
        arrived = slice(int(slice_.arrived[0]))
        return PassRecord(slice_.counters, Arrivals(*(column[arrived] for column in arrivals)))

    def cell_times(self, arrivals: Arrivals, passes: int) -> tuple[Integers, Integers]:
        """See `ProgramRunner.cell_times`."""
        geometry, orbit_cycles = self.replay.geometry, passes * self.replay.cycles
        entries, components = geometry.entries, geometry.components
        ones = np.zeros((entries, components, BITS), dtype=np.int64)
        powered = np.zeros_like(ones)
        order = np.argsort(arrivals.entry.astype(np.uint16), kind="stable")
        in_entry = np.bincount(arrivals.entry, minlength=entries)
        first, most = np.append(0, np.cumsum(in_entry)), int(in_entry.max())
        partial = arrivals.entry[self._stored.mask[arrivals.write] >= FIRST_PARTIAL]
        merged = int(np.bincount(partial, minlength=1).max())
        cycles = np.zeros(0, np.uint32 if orbit_cycles < 1 << 32 else np.int64)
        times_of_slice(
            self._stored,
            Arrivals(*(column[order] for column in arrivals)),
            first,
            np.int64(orbit_cycles),
            new_events(most, 1, cycles),
            new_shown(self._stored, most, merged, cycles),
            new_times(cycles),
            ones,
            powered,
        )
        return ones.reshape(entries, -1), powered.reshape(entries, -1)


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


def _first_words(planes: NDArray[np.uint64], geometry: SliceGeometry) -> NDArray[np.uint64]:
    """See `Stored.words`."""
    words = np.empty((len(planes), geometry.blocks), dtype=np.uint64)
    first_words(planes, geometry.block_components, words)
    return words


def _block_of_part(geometry: SliceGeometry) -> NDArray[np.int64]:
    """See `Stored.block_of_part`."""
    component = np.arange(PARTS) * (COMPONENTS // PARTS) % geometry.components
    whole = geometry.block_components >= COMPONENTS // PARTS
    return component // geometry.block_components if whole else np.full(PARTS, -1)


def _read_only(array: Integers) -> Integers:
    view = array.view()
    view.flags.writeable = False
    return view
