"""Flips: an upset changes cells of which a needed value hangs, and what protects them has its say.

An upset changes one cell, or several neighbours of a row; a row is the cells of an entry, in the
order of `mcage.protection.codes`. Those that change nothing that anybody needs are left out. Of the
others each is as likely as its rate says: a needed bit is drawn, then an upset of a size that
changes it, and of those that change several needed bits, and are drawn so much more often, all but
their share are drawn anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, Floats, Integers, SliceGeometry
from mcage.protection.codes import Outcome
from mcage.protection.policy import Protection, turns
from mcage.random import streams_of
from mcage.studies.inject.kernel import CODE_BITS, NeededBit, PlacedKernel
from mcage.studies.inject.outcomes import Fate
from mcage.studies.inject.slices import FaultsAtAge
from mcage.tracing.emulation.faults import Flip, RunFaults

DRAWS = "inject.flip"
"""Name of the stream that chooses bits."""

ONE_CELL = (1.0,)
"""Sizes of upsets that change one cell each."""


@dataclass(frozen=True)
class Upset:
    """Neighbouring cells that change together.

    Parameters
    ----------
    bit : NeededBit
        A needed bit of a value that the upset reaches.
    columns : tuple of int
        Columns of the row that change, from the first to before the last.
    cell : int
        The cell that was drawn, by its number in the entry; -1 if it holds a check bit.
    attempts : int
        Upsets that were drawn until this one.
    """

    bit: NeededBit
    columns: tuple[int, int]
    cell: int
    attempts: int


@dataclass(frozen=True, eq=False)
class CellRow:
    """Cells of an entry beside one another.

    Parameters
    ----------
    word, bit : int64[columns]
        Word of each, and its bit there, check bits after those of data. Without a code, words are
        components.
    data_bits : int
        Bits of a word that are data.
    """

    word: Integers
    bit: Integers
    data_bits: int

    def column(self, word: int, bit: int) -> int:
        """Column of a bit of a word."""
        return int(np.flatnonzero((self.word == word) & (self.bit == bit))[0])

    def needed_of_word(self, cells: NDArray[np.uint32]) -> Integers:
        """Needed bits of the word of each column: uint32[components] to int64[columns]."""
        bits = np.bitwise_count(cells).astype(np.int64)
        words = bits.reshape(-1, self.data_bits // COMPONENT_BITS).sum(axis=1)
        return np.asarray(words[self.word])


@lru_cache(maxsize=16)
def row_of(protection: Protection, geometry: SliceGeometry) -> CellRow:
    """Cells of an entry with a protection, in the order of `mcage.protection.codes`."""
    code = protection.code
    data_bits = COMPONENT_BITS if code is None else code.data_bits
    bits = data_bits if code is None else code.bits
    return CellRow(*turns(geometry.entry_bits // data_bits, bits, protection.interleave), data_bits)


def upsets_of(
    seed: int,
    instances: NDArray[np.int64],
    where: PlacedKernel,
    protection: Protection,
    sizes: Sequence[float] = ONE_CELL,
) -> list[Upset]:
    """Upsets that reach a needed value, one for each instance: functions of seed and instance.

    Parameters
    ----------
    seed, instances : int, int64[n]
        Of the streams of random numbers.
    where : PlacedKernel
        Where the technique keeps values.
    protection : Protection
        What protects entries. With a code, upsets of several cells reach check cells as well.
    sizes : sequence of float
        Share of the upsets that change 1, 2, 3, ... cells.
    """
    row = row_of(protection, where.kernel.geometry)
    streams = streams_of(seed, DRAWS, instances.tolist())
    if len(sizes) == 1:
        bits = [where.needed_bit(draws.random(4)) for draws in streams]
        columns = [row.column(*divmod(bit.cell, row.data_bits)) for bit in bits]
        pairs = zip(bits, columns, strict=True)
        return [Upset(bit, (column, column + 1), bit.cell, 1) for bit, column in pairs]
    cells = np.arange(1, len(sizes) + 1) * np.array(sizes)
    cumulated = np.cumsum(cells / cells.sum())
    return [_drawn(draws, where, protection, row, cumulated) for draws in streams]


def _drawn(
    draws: np.random.Generator,
    where: PlacedKernel,
    protection: Protection,
    row: CellRow,
    cumulated: Floats,
) -> Upset:
    """Draw upsets until one is taken."""
    attempts, code = 0, protection.code
    while True:
        attempts += 1
        bit = where.needed_bit(draws.random(4))
        of_size, of_first, of_cell, of_taken = draws.random(4)
        word, number = divmod(bit.cell, row.data_bits)
        if code is not None:
            number = int(of_cell * code.bits)
        column = row.column(word, number)
        size = int(np.searchsorted(cumulated, of_size, side="right")) + 1
        first = column - int(of_first * size)
        if first < 0:  # no cell of the row is there, where it would begin
            continue
        last = min(first + size, len(row.word))
        needed = where.needed_cells(bit.write, bit.block, bit.cycle)
        if code is not None:
            ways = row.needed_of_word(needed)[first:last].sum()
        else:
            ways = (needed[row.word[first:last]] >> row.bit[first:last] & 1).sum()
        if of_taken * ways < least_ways(where, protection):
            cell = word * row.data_bits + number if number < row.data_bits else -1
            return Upset(bit, (first, last), cell, attempts)


def least_ways(where: PlacedKernel, protection: Protection) -> int:
    """Fewest needed bits by which an upset is drawn: those of a word, where it reaches one cell."""
    if protection.code is None:
        return 1
    technique = where.technique
    return CODE_BITS if technique.stores_inline or technique.stores_in_blocks else COMPONENT_BITS


def drawn_cells(where: PlacedKernel, protection: Protection, sizes: Sequence[float]) -> float:
    """Cells of which a change is drawn as often as it happens, on the mean over time.

    Times the rate of changed bits of a cell, this is the rate of the upsets that `upsets_of` draws,
    those among them that it draws anew.
    """
    needed = where.needed_share * where.kernel.geometry.cells
    if len(sizes) == 1 or protection.code is None:
        return needed
    return needed * protection.code.bits / least_ways(where, protection)


class Hit(NamedTuple):
    """An upset, as it reaches the program.

    Attributes
    ----------
    faults : RunFaults or None
        What becomes wrong; None if codes have decided.
    fate : Fate
        What the codes of the words have decided.
    faulty_bits : int
        Most wrong bits of a word together; without a code, those that have changed.
    """

    faults: RunFaults | None
    fate: Fate
    faulty_bits: int


def hit(
    upset: Upset, where: PlacedKernel, protection: Protection, hard: FaultsAtAge | None = None
) -> Hit:
    """Find out what an upset does.

    Parameters
    ----------
    upset : Upset
        What changes.
    where : PlacedKernel
        Where the technique keeps values.
    protection : Protection
        What protects entries.
    hard : FaultsAtAge, optional
        Faulty cells of the slice. Without a code they change nothing about an upset.

    Returns
    -------
    Hit
        A detected error of any needed word ends the run, whatever the others hold.
    """
    bit, code = upset.bit, protection.code
    row = row_of(protection, where.kernel.geometry)
    first, last = upset.columns
    wrong = np.zeros(where.kernel.geometry.components, np.uint32)
    if code is None:
        np.bitwise_or.at(
            wrong, row.word[first:last], np.uint32(1) << row.bit[first:last].astype(np.uint32)
        )
        return Hit(_changed(bit, where, wrong), Fate.MASKED, last - first)
    size, most, is_detected = row.data_bits // COMPONENT_BITS, 0, False
    needed = row.needed_of_word(where.needed_cells(bit.write, bit.block, bit.cycle))
    for word in np.unique(row.word[first:last][needed[first:last] > 0]).tolist():
        flipped = row.bit[first:last][row.word[first:last] == word]
        errors = np.zeros(code.bits, np.bool_)
        if hard is not None:
            stuck, at = hard.of_word(bit.entry, word, code)
            errors[stuck] = _held(bit, where, protection, word)[stuck] != at
            flipped = flipped[~np.isin(flipped, stuck)]  # a stuck cell does not change
        errors[flipped] = True
        most = max(most, int(errors.sum()))
        outcome = Outcome(int(code.decode(errors))) if len(flipped) else Outcome.RIGHT
        is_detected |= outcome == Outcome.DETECTED
        if outcome > Outcome.DETECTED:
            wrong[word * size : (word + 1) * size] = code.data_of(code.left_by(errors))
    if is_detected:
        return Hit(None, Fate.CODE, most)
    return Hit(_changed(bit, where, wrong) if wrong.any() else None, Fate.MASKED, most)


def _held(
    bit: NeededBit, where: PlacedKernel, protection: Protection, word: int
) -> NDArray[np.bool_]:
    """Bits of a code word as the value has left them."""
    code = protection.code
    assert code is not None, "no words without a code"
    form = where.form[bit.write : bit.write + 1]
    value = where.values[where.value[bit.write]][None]
    cells = where.storing.cells(value, form, np.array([bit.block]))
    size = code.data_bits // COMPONENT_BITS
    data = cells[0, word * size : (word + 1) * size]
    return code.word_bits(data, int(code.check(cells)[0, word]))


def _changed(bit: NeededBit, where: PlacedKernel, errors: NDArray[np.uint32]) -> RunFaults:
    """Faults of a run in which cells under a value are wrong from a moment on."""
    kernel = where.kernel
    window = int(kernel.writes.window[bit.write])
    lanes = where.needed_lanes(bit.write, bit.cycle)
    bits = where.read_with(bit.write, bit.block, errors)
    flip = Flip(
        kernel.step_after(window, bit.cycle),
        int(kernel.writes.reg[bit.write]),
        np.where(lanes, bits, 0).astype(np.uint32),
    )
    return RunFaults(flips={kernel.place_of(window): [flip]})
