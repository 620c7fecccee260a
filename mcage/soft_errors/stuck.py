"""Stuck cells: which reads come out wrong, since the value differs from what the cell gives.

A cell that is stuck at '0' does no harm to a value that has a '0' there. Which values lie in which
cell, and what bits they have, a trace and a technique say; so the share of wrong reads needs no
assumption about data. As for ACE times, a read counts for all lanes that the wavefront has written,
and nothing masks a wrong value later on: shares are upper bounds.

Which way a cell is stuck is drawn from a stream of its instance, at the place of the cell, so that
it depends neither on other cells nor on when the cell fails.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mcage.errors import UserError
from mcage.geometry import COMPONENT_BITS, Booleans, Floats, Integers, SliceGeometry
from mcage.random import stream_key
from mcage.replays.schedule import writes_of
from mcage.soft_errors.ace import RECORD_BYTES, Needs, Placed
from mcage.traces.model import WRITE
from mcage.traces.patterns import wc_bytes


@dataclass(frozen=True)
class StuckCells:
    """Stuck cells of a slice.

    Parameters
    ----------
    cell : int64[n]
        Number of each cell: bits of an entry x entry + bit.
    at_one : bool[n]
        Whether it is stuck at '1'; otherwise at '0'.
    since : float64[n]
        Age from which it is stuck, in any unit; 0 of a new slice.
    """

    cell: Integers
    at_one: Booleans
    since: Floats

    def check(self, geometry: SliceGeometry) -> None:
        """Refuse cells that a slice does not have.

        Raises
        ------
        UserError
            A number is out of range.
        """
        outside = (self.cell < 0) | (self.cell >= geometry.cells)
        if outside.any():
            raise UserError(
                f"stuck cell {self.cell[outside][0]}: a slice of {geometry.name} has cells "
                f"0 ... {geometry.cells - 1}"
            )


def drawn_values(seed: int, instance: int, cell: Integers) -> Booleans:
    """Whether each cell of an instance would be stuck at '1', either way as likely: bool[n].

    Parameters
    ----------
    seed : int
        Seed of all random streams.
    instance : int
        Instance whose stream it is.
    cell : int64[n]
        Numbers of the cells.
    """
    from mcage.philox import numbers_at  # loads Numba

    keys, streams = stream_key(seed, "stuck")[None], np.array([instance], dtype=np.int64)
    rows = np.zeros(len(cell), dtype=np.int64)
    return np.asarray(numbers_at(keys, streams, rows, cell.astype(np.int64)) < 0.5)


class _Stored(NamedTuple):
    """What writes leave in a cell.

    Attributes
    ----------
    used : bool[n]
        Whether a bit of the value lies in the cell.
    bit : bool[n]
        That bit.
    """

    used: Booleans
    bit: Booleans


def _stored(placed: Placed, writes: Integers, block: Integers, bit: int) -> _Stored:
    """Bits that writes leave in the cell with number `bit` of their entry."""
    schedule, stored = placed.schedule, placed.schedule.stored_values
    geometry, technique = schedule.geometry, schedule.technique
    component, within = divmod(bit, COMPONENT_BITS)
    words = stored.contents[stored.image[writes], component]
    lanes = writes_of(schedule.trace).lanes[writes]
    used = lanes >> np.uint64(component) & np.uint64(1) == 1
    short = schedule.compressed[writes]
    if technique.stores_inline:
        values = schedule.trace.value[schedule.trace.kind == WRITE][writes]
        used = np.where(short, bit // 8 < wc_bytes(schedule.trace.values)[values], used)
    elif technique.stores_in_blocks:
        offset = bit - block * geometry.block_bits
        in_record = (offset >= 0) & (offset < 8 * RECORD_BYTES - 2)  # six bits of both exponents
        records = stored.contents[stored.image[writes], 0].astype(np.int64)
        records |= stored.record_code[writes].astype(np.int64) << COMPONENT_BITS
        used = np.where(short, in_record, used)
        of_record = records >> np.clip(offset, 0, 8 * RECORD_BYTES) & 1 == 1
        plain = words >> np.uint32(within) & np.uint32(1) == 1
        return _Stored(used, np.where(short, of_record, plain))
    return _Stored(used, words >> np.uint32(within) & np.uint32(1) == 1)


@dataclass(frozen=True)
class WrongReads:
    """What stuck cells do to the reads of a trace, on the mean over the passes.

    Attributes
    ----------
    reads, values : float64[ages]
        Share of the reads that see a wrong value, and of the values that are read at all that are
        wrong, by age; NaN if nothing is read.
    differing : float
        Of the time for which a bit in a stuck cell is needed, the share in which the cell differs
        from it; NaN if no bit is ever needed there.
    """

    reads: Floats
    values: Floats
    differing: float


def wrong_reads(placed: Placed, needs: Needs, stuck: StuckCells, ages: Floats) -> WrongReads:
    """Find out which reads see what a stuck cell gives.

    Parameters
    ----------
    placed : Placed
        Where values lie. Cells that the technique avoids, and values outside of the file, do no
        harm.
    needs : Needs
        Of ``placed.schedule.trace``.
    stuck : StuckCells
        Cells that nothing repairs.
    ages : float64[ages]
        Ages, in the unit of the cells.

    Raises
    ------
    UserError
        A cell is not one of the slice.
    """
    geometry = placed.schedule.geometry
    stuck.check(geometry)
    entry_of_cell, bit_of_cell = np.divmod(stuck.cell, geometry.entry_bits)
    by_age = np.zeros((2, len(ages)))
    needed_cycles, differing_cycles = 0, 0
    for entry, block in zip(placed.entry, placed.block, strict=True):
        entry, block = entry[placed.home], block[placed.home]
        order = np.argsort(entry, kind="stable")
        first = np.searchsorted(entry[order], entry_of_cell, side="left")
        end = np.searchsorted(entry[order], entry_of_cell, side="right")
        since = np.full(len(entry), np.inf)
        for number, (begin, stop) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
            writes = order[begin:stop]
            bit = int(bit_of_cell[number])
            held = _stored(placed, writes, block[writes], bit)
            differs = held.used & (held.bit != stuck.at_one[number])
            wrong = writes[differs]
            since[wrong] = np.minimum(since[wrong], stuck.since[number])
            cycles = _needed_cycles(placed, needs, writes, bit) * held.used
            needed_cycles += int(cycles.sum())
            differing_cycles += int(cycles[differs].sum())
        for number, weight in enumerate((needs.reads, needs.reads > 0)):
            by_age[number] += [weight[since <= age].sum() for age in ages]
    reads, values = int(needs.reads.sum()), int((needs.reads > 0).sum())
    shares = by_age / len(placed.entry) / [[reads or np.nan], [values or np.nan]]
    differing = differing_cycles / needed_cycles if needed_cycles else float("nan")
    return WrongReads(shares[0], shares[1], differing)


def _needed_cycles(placed: Placed, needs: Needs, writes: Integers, bit: int) -> Integers:
    """For how long somebody needs the bit of each write in a cell: int64[n]."""
    lanes, cycles = needs.lanes[writes], needs.cycles[writes]
    has_lane = lanes >> np.uint64(bit // COMPONENT_BITS) & np.uint64(1) == 1
    alone = np.where(has_lane, cycles, 0).max(axis=1)
    together = np.where(lanes != 0, cycles, 0).max(axis=1)
    return np.asarray(np.where(placed.schedule.compressed[writes], together, alone))
