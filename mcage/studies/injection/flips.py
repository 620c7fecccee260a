"""Flips: a needed bit of the register file changes once, and what protects it has its say."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import COMPONENT_BITS, SliceGeometry
from mcage.protection.codes import Code, Outcome
from mcage.protection.policy import Protection
from mcage.random import streams_of
from mcage.studies.injection.hard import FaultsAtAge
from mcage.studies.injection.kernel import NeededBit, Placement
from mcage.studies.injection.outcomes import Fate
from mcage.traces.emulation.faults import Faults, Flip

DRAWS = "inject.flip"
"""Name of the stream that chooses bits."""


@dataclass(frozen=True, eq=False)
class Hit:
    """A flip, as it reaches the program.

    Attributes
    ----------
    bit : NeededBit
        What was hit.
    faults : Faults or None
        What becomes wrong; None if a word's code has decided.
    fate : Fate
        What the code has decided.
    faulty_bits : int
        Wrong bits of the word together, or 1 without a code.
    """

    bit: NeededBit
    faults: Faults | None
    fate: Fate
    faulty_bits: int


def needed_bits(seed: int, instances: NDArray[np.int64], where: Placement) -> list[NeededBit]:
    """Needed bits of a technique, one for each instance: a function of seed and instance alone."""
    chosen = []
    for draws in streams_of(seed, DRAWS, instances.tolist()):
        bit = where.needed_bit(draws.random(4))
        assert bit is not None, "no bit of this kernel is ever needed"
        chosen.append(bit)
    return chosen


def hit(
    bit: NeededBit, where: Placement, protection: Protection, hard: FaultsAtAge | None = None
) -> Hit:
    """Find out what a flip does.

    Parameters
    ----------
    bit : NeededBit
        What changes.
    where : Placement
        Where the technique keeps values.
    protection : Protection
        What protects entries.
    hard : FaultsAtAge, optional
        Faulty cells of the slice. Without a code they change nothing about a flip.
    """
    if protection.code is None:
        changed = _one(bit.cell, where.kernel.geometry)
        return Hit(bit, _changed(bit, where, changed), Fate.MASKED, 1)
    return _decoded(bit, where, protection.code, hard)


def _decoded(bit: NeededBit, where: Placement, code: Code, hard: FaultsAtAge | None) -> Hit:
    """What the code of a word makes of a flip, beside the stuck cells of the word."""
    word, size = bit.cell // code.data_bits, code.data_bits // COMPONENT_BITS
    errors = np.zeros(code.bits, np.bool_)
    if hard is not None:
        cells = where.storing.cells(
            where.values[where.value[bit.write]][None],
            where.form[bit.write : bit.write + 1],
            np.array([bit.block]),
        )[0]
        stuck, at = hard.of_word(bit.entry, word, code)
        components = slice(word * size, (word + 1) * size)
        held = code.word_bits(cells[components], int(code.check(cells[None])[0, word]))
        errors[stuck] = held[stuck] != at
        flipped = bit.cell % code.data_bits
        if flipped in stuck:  # a stuck cell does not change
            return Hit(bit, None, Fate.MASKED, int(errors.sum()))
    errors[bit.cell % code.data_bits] = True
    count = int(errors.sum())
    outcome = Outcome(int(code.decode(errors)))
    if outcome <= Outcome.CORRECTED:
        return Hit(bit, None, Fate.MASKED, count)
    if outcome == Outcome.DETECTED:
        return Hit(bit, None, Fate.CODE, count)
    wrong = np.zeros(where.kernel.geometry.components, np.uint32)
    wrong[word * size : (word + 1) * size] = code.data_of(code.left_by(errors))
    return Hit(bit, _changed(bit, where, wrong), Fate.MASKED, count)


def _one(cell: int, geometry: SliceGeometry) -> NDArray[np.uint32]:
    """One cell of an entry as a set: uint32[components]."""
    cells = np.zeros(geometry.components, np.uint32)
    cells[cell // COMPONENT_BITS] = 1 << cell % COMPONENT_BITS
    return cells


def _changed(bit: NeededBit, where: Placement, errors: NDArray[np.uint32]) -> Faults:
    """Faults of a run in which cells under a value are wrong from a moment on."""
    kernel = where.kernel
    writes, needs = kernel.writes, kernel.needs
    window = int(writes.window[bit.write])
    # Lanes that nobody reads any more may hold what a write in flight has left there already.
    still = bit.cycle - writes.cycle[bit.write] < needs.cycles[bit.write]
    lanes = int(np.bitwise_or.reduce(needs.lanes[bit.write][still]))
    needed = [lanes >> lane & 1 == 1 for lane in range(kernel.geometry.components)]
    bits = where.read_with(bit.write, bit.block, errors)
    flip = Flip(
        kernel.step_after(window, bit.cycle),
        int(writes.reg[bit.write]),
        np.where(needed, bits, 0).astype(np.uint32),
    )
    return Faults(flips={kernel.place_of(window): [flip]})
