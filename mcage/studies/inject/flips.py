"""Flips: an upset changes cells of which a needed value hangs, and what protects them has its say.

An upset changes one cell, or several neighbours of a row; a row is the cells of an entry, in the
order of `mcage.protection.codes`. Those that change nothing that anybody needs are left out. Of the
others each is as likely as its rate says: a needed bit is drawn, then an upset of a size that
changes it, and of those that change several needed bits, and are drawn so much more often, all but
their share are drawn anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, Floats, Integers, SliceGeometry
from mcage.plain_text import shown
from mcage.protection.codes import Outcome
from mcage.protection.policy import Protection, turns
from mcage.random import streams_of
from mcage.studies.inject.kernel import CODE_BITS, Form, InjectedKernel, NeededBit, PlacedKernel
from mcage.studies.inject.outcomes import Fate
from mcage.studies.inject.slices import FaultsAtAge
from mcage.studies.inject.spec import MOMENT, RANDOM, SINGLE, STEP, TWO_BITS, ZERO, ChosenPlaces
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

    def struck(self, where: PlacedKernel) -> "Struck":
        """Where and when, by the record of the file."""
        bit, kernel = self.bit, where.kernel
        window = int(kernel.writes.window[bit.write])
        lane, number = divmod(self.cell, COMPONENT_BITS)
        is_plain = where.form[bit.write] == Form.PLAIN and lane >= 0
        return Struck(
            window,
            kernel.step_after(window, bit.cycle),
            int(kernel.writes.reg[bit.write]),
            lane,
            number if is_plain else -1,
            bit.write,
            bit.entry,
            bit.cycle,
            self.columns[1] - self.columns[0],
            self.attempts,
        )


class Struck(NamedTuple):
    """Where and when a flip has hit, as files record it.

    Attributes
    ----------
    window, step, register, lane, bit, write
        As of `RegisterFlip`; lane and bit are -1 where no single one was hit.
    entry, cycle, cells, attempts : int
        Physical entry; cycle of the trace; cells that change; flips that were drawn until it.
    """

    window: int
    step: int
    register: int
    lane: int
    bit: int
    write: int
    entry: int
    cycle: int
    cells: int
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


@dataclass(frozen=True)
class RegisterFlip:
    """Bits of a lane of a register, as a program sees it, that change at once.

    Parameters
    ----------
    window : int
        Window of its wave.
    step : int
        Instructions that the wave has executed before.
    register, lane, bit : int
        Which; of several bits the lowest.
    write : int
        Write of the trace that has left the value; -1 if the register has never been written.
    draw : float
        Uniform number, 0 ... 1, of which a random value hangs.
    kind : str
        As of ``inject.upset``: what changes.
    """

    window: int
    step: int
    register: int
    lane: int
    bit: int
    write: int
    draw: float
    kind: str

    def struck(self, where: PlacedKernel) -> Struck:
        """Where and when, by the record of the file."""
        kernel, placed = where.kernel, where.placed
        entry = int(placed.entry[0, placed.home[self.write]]) if self.write >= 0 else -1
        cycle = kernel.cycle_of(self.window, self.step)
        is_whole = self.kind in (RANDOM, ZERO)
        return Struck(
            self.window,
            self.step,
            self.register,
            self.lane,
            -1 if is_whole else self.bit,
            self.write,
            entry,
            cycle,
            COMPONENT_BITS if is_whole else 1 + (self.kind == TWO_BITS),
            1,
        )

    def hit(self, where: PlacedKernel) -> "Hit":
        """Find out what it does."""
        kernel = where.kernel
        value = 0
        if self.write >= 0:
            value = int(where.values[where.value[self.write], self.lane])
        errors = {
            SINGLE: 1 << self.bit,
            TWO_BITS: 3 << self.bit,
            RANDOM: value ^ int(self.draw * 2**COMPONENT_BITS),
            ZERO: value,
        }
        bits = np.zeros(kernel.geometry.components, np.uint32)
        bits[self.lane] = errors[self.kind]
        flip = Flip(self.step, self.register, bits)
        faults = RunFaults(flips={kernel.place_of(self.window): [flip]})
        changed = int(bits[self.lane]).bit_count()
        return Hit(faults if changed else None, Fate.MASKED, changed)


def flips_of_results(
    seed: int, instances: NDArray[np.int64], kernel: InjectedKernel, kind: str
) -> list[RegisterFlip]:
    """Flips of results of instructions, just after them: every lane of every result alike.

    An instruction that writes several registers counts as one, of which one is chosen. So do the
    tools that inject into destinations: SASSIFI (Hari et al., ISPASS 2017), NVBitFI (Tsai et al.,
    DSN 2021).

    Parameters
    ----------
    seed, instances, kind
        As of `upsets_of`; ``inject.upset``.
    kernel : InjectedKernel
        The kernel.
    """
    steps, writes = kernel.step_of_write, kernel.writes
    lanes = kernel.lanes_of_write
    place = writes.window * (int(steps.max()) + 2) + steps
    _, instruction, registers = np.unique(place, return_inverse=True, return_counts=True)
    weights = np.where(steps < 0, 0.0, np.bitwise_count(lanes) / registers[instruction])
    cumulated = np.cumsum(weights)
    flips = []
    for draws in streams_of(seed, DRAWS, instances.tolist()):
        of_write, of_lane, of_bit, of_value = draws.random(4)
        write = int(np.searchsorted(cumulated, of_write * cumulated[-1], side="right"))
        numbers = np.flatnonzero(lanes[write] >> np.arange(64, dtype=np.uint64) & np.uint64(1))
        flips.append(
            RegisterFlip(
                int(writes.window[write]),
                int(steps[write]) + 1,
                int(writes.reg[write]),
                int(numbers[int(of_lane * len(numbers))]),
                _bit(of_bit, kind),
                write,
                of_value,
                kind,
            )
        )
    return flips


def _bit(draw: float, kind: str) -> int:
    """A bit of a register, of two bits beside one another the lower."""
    return int(draw * (COMPONENT_BITS - (kind == TWO_BITS)))


def flips_of_needed_bits(
    seed: int, instances: NDArray[np.int64], where: PlacedKernel, kind: str
) -> list[RegisterFlip]:
    """Flips of lanes of which a value is needed, each as likely in every cycle as any other.

    Arguments as of `upsets_of` and `flips_of_results`.
    """
    kernel, flips = where.kernel, []
    for draws in streams_of(seed, DRAWS, instances.tolist()):
        bit = where.needed_bit(draws.random(4))
        of_bit, of_value = draws.random(2)
        window = int(kernel.writes.window[bit.write])
        flips.append(
            RegisterFlip(
                window,
                kernel.step_after(window, bit.cycle),
                int(kernel.writes.reg[bit.write]),
                bit.cell // COMPONENT_BITS,
                _bit(of_bit, kind),
                bit.write,
                of_value,
                kind,
            )
        )
    return flips


def flips_at(
    places: ChosenPlaces, seed: int, instances: NDArray[np.int64], kernel: InjectedKernel, kind: str
) -> list[RegisterFlip]:
    """Flips at chosen places.

    Parameters
    ----------
    places : ChosenPlaces
        The places.
    seed, instances, kernel, kind
        As of `flips_of_results`.

    Raises
    ------
    UserError
        The kernel has no such wave, register, lane or moment.
    """
    windows = {kernel.place_of(window): window for window in range(len(kernel.waves))}
    streams = streams_of(seed, DRAWS, instances.tolist())
    return [
        _flip_at(places, instance, windows, kernel, kind, draws.random())
        for instance, draws in zip(instances.tolist(), streams, strict=True)
    ]


def _flip_at(
    places: ChosenPlaces,
    instance: int,
    windows: Mapping[tuple[int, int], int],
    kernel: InjectedKernel,
    kind: str,
    draw: float,
) -> RegisterFlip:
    row, cycles = places.rows[instance], kernel.trace.cycles
    group, wave, register, lane, bit = (
        int(row[name]) for name in ("work_group", "wave", "register", "lane", "bit")
    )
    if (window := windows.get((group, wave))) is None:
        there = shown(", ".join(f"{group} {wave}" for group, wave in sorted(windows)), 80)
        places.refuse(
            instance,
            f"wave {wave} of work-group {group} does not run on the recorded SIMD unit; these do: "
            f"{there}",
        )
    steps = len(kernel.waves[window].codes)
    bounds = {
        "register": (register, kernel.emulation.window),
        "lane": (lane, kernel.geometry.components),
        "bit": (bit, COMPONENT_BITS - (kind == TWO_BITS)),
        STEP: (int(row.get(STEP, 0)), steps),
    }
    for name, (number, end) in bounds.items():
        if not 0 <= number < end:
            places.refuse(instance, f"{name} = {number}, must be 0 ... {end - 1}")
    if MOMENT in row:
        if not 0 <= row[MOMENT] < 1:
            places.refuse(instance, f"moment = {row[MOMENT]:g}, must be 0 ... 1, without 1")
        step = kernel.step_after(window, int(row[MOMENT] * cycles))
        if step >= steps or row[MOMENT] * cycles < kernel.cycle_of(window, 0):
            begin, end = kernel.cycle_of(window, 0), kernel.cycle_of(window, steps - 1)
            places.refuse(
                instance,
                f"moment = {row[MOMENT]:g}: wave {wave} of work-group {group} runs from "
                f"{begin / cycles:.6g} to {end / cycles:.6g}",
            )
    else:
        step = bounds[STEP][0]
    writes = kernel.writes_of_window(window)
    before = writes[(kernel.writes.reg[writes] == register) & (kernel.step_of_write[writes] < step)]
    write = int(before[-1]) if len(before) else -1
    return RegisterFlip(window, step, register, lane, bit, write, draw, kind)


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
