"""The search for the worst cell, on trees small enough to look at every cell."""

import numpy as np
import pytest
from tables import each

from mcage.errors import UserError
from mcage.lifetime.degradation.duty_tree import Slices
from mcage.lifetime.degradation.worst_cell import worst_cells


class Listed(Slices):
    """Slices whose duties are given: float64[slices, epochs, cells], cells in reverse order."""

    def __init__(self, duties, roots, branches):
        self.roots, self.branches = roots, branches
        self.duties = np.asarray(duties, dtype=float)
        in_order = self.duties[..., ::-1]
        self.levels = []
        for level in range(len(branches)):
            below = int(np.prod(branches[level:]))
            self.levels.append(in_order.reshape(*in_order.shape[:2], -1, below).max(axis=3))
        self.asked = 0

    def largest(self, level, epoch, index, group):
        return self.levels[level][index, epoch, group]

    def duty(self, epoch, index, cell):
        self.asked += len(cell)
        return self.duties[index, epoch, cell]

    def cell(self, place):
        return self.duties.shape[2] - 1 - place


def search(slices, measure, known=None):
    """Worst cells by a measure of the duties float64[epochs, m] and the slice of each."""
    count, epochs, _ = slices.duties.shape

    def shift_of(index, duty):
        return measure(np.stack([duty(one, slice(None)) for one in range(epochs)]), index)

    known = np.zeros((count, 1), dtype=np.int64) if known is None else known
    return worst_cells(slices, shift_of, known)


def weighted(duties, index):
    """Grows with every duty, the most with that of the epoch that has the slice's number."""
    weights = 1.0 + 5.0 * (np.arange(len(duties))[:, None] == index % len(duties))
    return (weights * np.sqrt(duties)).sum(axis=0)


@each("seed", range(20))
@each(("roots", "branches"), [(4, (8, 8)), (1, (64,)), (16, (2, 2, 4))])
def test_no_cell_is_worse(seed, roots, branches):
    """Each of five slices finds the maximum over its cells; ties and full duties included."""
    rng = np.random.default_rng(seed)
    cells = roots * int(np.prod(branches))
    duties = rng.choice([0.0, 0.2, 0.999, 1.0, *rng.random(20)], (5, 3, cells))
    slices = Listed(duties, roots, branches)
    worst, cell = search(slices, weighted)
    index = np.repeat(np.arange(5), cells)
    every = weighted(duties.transpose(1, 0, 2).reshape(3, -1), index).reshape(5, cells)
    assert np.array_equal(worst, every.max(axis=1))
    assert np.array_equal(every[np.arange(5), cell], worst)


def test_what_is_known_saves_looking():
    """Like cells stand together: few groups are opened, fewer if the worst cell is known."""
    duties = np.sort(np.random.default_rng(1).random((1, 1, 4096)))
    new, known = (Listed(duties, 64, (8, 8)) for _ in range(2))
    assert search(new, weighted)[1] == [4095]
    assert new.asked <= 1 + 2 * 8
    assert search(known, weighted, np.array([[4095]]))[1] == [4095]
    assert known.asked == 1 + 8, "the known cell and where the groups lead"


def test_measures_that_break_their_word_are_found_out():
    slices = Listed([[[0.9, 0.2, 0.9, 0.3]]], 2, (2,))
    for measure, message in [
        (lambda duties, _: 1 - duties.sum(axis=0), "stressed less in every epoch the larger"),
        (lambda duties, _: -duties.sum(axis=0), "negative or no numbers"),
        (lambda duties, _: duties.sum(axis=0) / 0 * 0, "negative or no numbers"),
    ]:
        with np.errstate(all="ignore"), pytest.raises(UserError, match=message):
            search(slices, measure)
