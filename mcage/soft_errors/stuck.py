"""Stuck cells: which reads come out wrong, since the value differs from what the cell gives.

A cell that is stuck at '0' does no harm to a value that has a '0' there. Which values lie in which
cell, and what bits they have, a trace and a technique say; so the share of wrong reads needs no
assumption about data. As for ACE times, a read counts for all lanes that the wavefront has written,
and nothing masks a wrong value later on: shares are upper bounds.

Which way a cell is stuck is drawn from a stream of its instance, at the place of the cell, so that
it does not depend on other cells. Files of stuck cells are read here, too.
"""

import math
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.geometry import COMPONENT_BITS, Booleans, Integers, SliceGeometry
from mcage.random import stream_key
from mcage.replays.schedule import writes_of
from mcage.soft_errors.ace import RECORD_BYTES, Needs, PlacedWrites
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
    """

    cell: Integers
    at_one: Booleans


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
    """Content of a cell after each write.

    Attributes
    ----------
    used : bool[n]
        Whether a bit of the value lies in the cell.
    bit : bool[n]
        That bit.
    """

    used: Booleans
    bit: Booleans


def _stored(placed: PlacedWrites, writes: Integers, block: Integers, bit: int) -> _Stored:
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
    """Effect of stuck cells on the reads of a trace, as a mean over the passes.

    Attributes
    ----------
    reads, values : float
        Share of the reads that see a wrong value, and of the values that are read at all that are
        wrong; NaN if nothing is read.
    differing : float
        Of the time for which a bit in a stuck cell is needed, the share in which the cell differs
        from it; NaN if no bit is ever needed there.
    """

    reads: float
    values: float
    differing: float


def wrong_reads(placed: PlacedWrites, needs: Needs, stuck: StuckCells) -> WrongReads:
    """Find out which reads see what a stuck cell gives.

    Parameters
    ----------
    placed : PlacedWrites
        Where values lie. Cells that the technique avoids, and values outside of the file, do no
        harm.
    needs : Needs
        Of ``placed.schedule.trace``.
    stuck : StuckCells
        Cells of the slice that nothing repairs.
    """
    entry_of_cell, bit_of_cell = np.divmod(stuck.cell, placed.schedule.geometry.entry_bits)
    wrong_reads = wrong_values = needed_cycles = differing_cycles = 0
    for entry, block in zip(placed.entry, placed.block, strict=True):
        entry, block = entry[placed.home], block[placed.home]
        order = np.argsort(entry, kind="stable")
        first = np.searchsorted(entry[order], entry_of_cell, side="left")
        end = np.searchsorted(entry[order], entry_of_cell, side="right")
        wrong = np.zeros(len(entry), dtype=bool)
        for number, (begin, stop) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
            writes = order[begin:stop]
            bit = int(bit_of_cell[number])
            held = _stored(placed, writes, block[writes], bit)
            differs = held.used & (held.bit != stuck.at_one[number])
            wrong[writes[differs]] = True
            cycles = _needed_cycles(placed, needs, writes, bit) * held.used
            needed_cycles += int(cycles.sum())
            differing_cycles += int(cycles[differs].sum())
        wrong_reads += int(needs.reads[wrong].sum())
        wrong_values += int((needs.reads[wrong] > 0).sum())
    passes, reads, values = len(placed.entry), needs.reads.sum(), (needs.reads > 0).sum()
    return WrongReads(
        wrong_reads / passes / (int(reads) or math.nan),
        wrong_values / passes / (int(values) or math.nan),
        differing_cycles / (needed_cycles or math.nan),
    )


def _needed_cycles(placed: PlacedWrites, needs: Needs, writes: Integers, bit: int) -> Integers:
    """For how long somebody needs the bit of each write in a cell: int64[n]."""
    lanes, cycles = needs.lanes[writes], needs.cycles[writes]
    has_lane = lanes >> np.uint64(bit // COMPONENT_BITS) & np.uint64(1) == 1
    alone = np.where(has_lane, cycles, 0).max(axis=1)
    together = np.where(lanes != 0, cycles, 0).max(axis=1)
    return np.asarray(np.where(placed.schedule.compressed[writes], together, alone))


# Files of stuck cells, by instance.

MOST_STUCK_BYTES = 64 * MIB
"""Largest file of stuck cells."""

DRAWN = -1
"""In place of the value of a stuck cell: drawn from its stream."""


def load_stuck_cells(path: Path, geometry: SliceGeometry, seed: int) -> dict[int, StuckCells]:
    """Read stuck cells from a NumPy file, by instance: integers [cells, 3].

    Columns: instance; cell, which is the cells of an entry x entry + bit; and the value at which it
    is stuck, 0 or 1, or -1 where it is drawn from the stream of the instance.

    Parameters
    ----------
    path : Path
        The file, 64 MiB at most.
    geometry : SliceGeometry
        The slice.
    seed : int
        Seed of what is drawn.

    Raises
    ------
    UserError
        The file cannot be read, holds anything else, or a number is out of range.
    """
    return stuck_cells_of(stuck_table(path), path, geometry, seed)


def stuck_table(path: Path) -> Integers:
    """Read a file of stuck cells whatever the slice is: int64[cells, 3], as of `load_stuck_cells`.

    Raises
    ------
    UserError
        As `load_stuck_cells`, but for cells that a slice does not have.
    """
    try:
        table = np.load(BytesIO(read_regular(path, MOST_STUCK_BYTES)), allow_pickle=False)
    except UnreadableFileError as error:
        raise UserError(f"{path}: no NumPy file with stuck cells ({error.reason})") from error
    except Exception as error:  # of a damaged file, NumPy raises whatever its parsers do
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: no NumPy file with stuck cells ({reason:.100})") from error
    if not (isinstance(table, np.ndarray) and table.dtype.kind in "iu" and table.ndim == 2):
        raise UserError(f"{path}: integers of shape (cells, 3) are needed")
    if table.shape[1] != len(_STUCK_COLUMNS) or not len(table):
        raise UserError(f"{path}: has shape {table.shape}, must be (cells, 3) with at least a cell")
    table = table.astype(np.int64)
    for column, (name, low, high) in enumerate(_STUCK_COLUMNS):
        _refuse_outside(path, table, column, name, (low, high))
    _, first = np.unique(table[:, :2], axis=0, return_index=True)
    if len(first) < len(table):
        row = int(np.setdiff1d(np.arange(len(table)), first)[0])
        raise UserError(
            f"{path}: row {row}: cell {table[row, 1]} of instance {table[row, 0]} stands in a row "
            "before, and must stand once"
        )
    return table


def _refuse_outside(
    path: Path, table: Integers, column: int, name: str, bounds: tuple[int, int]
) -> None:
    low, top = bounds
    outside = (table[:, column] < low) | (table[:, column] > top)
    if outside.any():
        row = int(np.argmax(outside))
        raise UserError(f"{path}: row {row}: {name} {table[row, column]}, must be {low} ... {top}")


def stuck_cells_of(
    table: Integers, path: Path, geometry: SliceGeometry, seed: int
) -> dict[int, StuckCells]:
    """Stuck cells of a table, by instance.

    Parameters
    ----------
    table : int64[cells, 3]
        As of `stuck_table`.
    path, geometry, seed
        As of `load_stuck_cells`.

    Raises
    ------
    UserError
        The slice has no such cell.
    """
    _refuse_outside(path, table, 1, "cell", (0, geometry.cells - 1))
    cells, table = {}, table[np.argsort(table[:, 0], kind="stable")]
    instances, first = np.unique(table[:, 0], return_index=True)
    for instance, rows in zip(instances.tolist(), np.split(table, first[1:]), strict=True):
        _, cell, value = rows.T
        drawn = drawn_values(seed, instance, cell)
        at_one = np.where(value == DRAWN, drawn, value == 1)
        cells[instance] = StuckCells(cell, at_one)
    return cells


_STUCK_COLUMNS = (("instance", 0, 2**31 - 1), ("cell", 0, 2**63 - 1), ("value", DRAWN, 1))
"""Columns of the file, with the lowest and the highest number; of cells, the slice says less."""
