"""Covering arrays: few rows in which every two values of different axes stand together.

Most faults of composition need two features that meet: what each row does, all pairs have done.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from random import Random

Row = dict[str, str]
Pair = tuple[tuple[str, str], tuple[str, str]]
"""Two axes with a value each, in the order of the axes."""

TRIES = 12
"""Rows that are drawn for each one that is taken: the one with the most new pairs."""


class Covering:
    """Rows that hold every pair of values that can stand together; the same in each run.

    Parameters
    ----------
    axes : mapping of str to sequence of str
        Values by axis.
    together : callable
        Whether two values of different axes can stand together; called with the axes in order.
    """

    def __init__(self, axes: Mapping[str, Sequence[str]], together: Callable[[Pair], bool]) -> None:
        self._axes, self._random = axes, Random(5)
        pairs = [
            ((first, value), (second, other))
            for first, second in combinations(axes, 2)
            for value in axes[first]
            for other in axes[second]
        ]
        self.apart = [pair for pair in pairs if not together(pair)]
        """Pairs that no row holds."""
        self._apart = {*self.apart}
        self.pairs = [pair for pair in pairs if self._row(dict(pair), set()) is not None]
        """Pairs that some row can hold."""
        self.rows: list[Row] = []
        missing = set(self.pairs)
        while missing:
            seeds = [pair for pair in self.pairs if pair in missing]
            drawn = [self._row(dict(self._random.choice(seeds)), missing) for _ in range(TRIES)]
            best = max(filter(None, drawn), key=lambda row: len(missing & pairs_in(row, axes)))
            self.rows.append(best)
            missing -= pairs_in(best, axes)

    def row_with(self, pair: Pair) -> Row:
        """A row that nothing keeps apart but this pair.

        Raises
        ------
        ValueError
            There is none.
        """
        self._apart.discard(pair)
        try:
            row = self._row(dict(pair), set())
        finally:
            self._apart.add(pair)
        if row is None:
            raise ValueError(f"{pair}: no row")
        return row

    def _row(self, begun: Row, missing: set[Pair]) -> Row | None:
        """A whole row with these values, with many missing pairs; None if there is none."""
        if self._apart & pairs_in(begun, self._axes):
            return None
        left = [axis for axis in self._axes if axis not in begun]
        if not left:
            return {axis: begun[axis] for axis in self._axes}
        axis = self._random.choice(left)
        values = self._random.sample(self._axes[axis], len(self._axes[axis]))

        def new(value: str) -> int:
            return len(missing & pairs_in(begun | {axis: value}, self._axes))

        rows = (
            self._row(begun | {axis: value}, missing)
            for value in sorted(values, key=new, reverse=True)
        )
        return next(filter(None, rows), None)


def pairs_in(row: Row, axes: Mapping[str, Sequence[str]]) -> set[Pair]:
    """All pairs that a row, or a part of one, holds."""
    return set(combinations([(axis, row[axis]) for axis in axes if axis in row], 2))


def each_value_once(*groups: Sequence[Row]) -> list[Row]:
    """Few rows, which hold all values of all axes; those of the first group are taken first."""
    taken: list[Row] = []
    missing = {value for rows in groups for row in rows for value in row.items()}
    for rows in groups:
        while (
            rows and missing & (best := max(rows, key=lambda r: len(missing & r.items()))).items()
        ):
            taken.append(best)
            missing -= best.items()
    return taken


def readings(
    readers: Iterable[str], rows: Sequence[Row], reads: Callable[[str, Row], bool]
) -> list[tuple[str, Row]]:
    """Readers, each with rows that hold all values of all axes, in the order of the rows.

    Parameters
    ----------
    readers : iterable of str
        Their names.
    rows : sequence of dict
        The rows.
    reads : callable
        Whether a reader reads a row; these are taken first, and others for values that only they
        hold.
    """
    random, taken = Random(5), []
    for reader in readers:
        mixed = random.sample(rows, len(rows))  # others for each reader
        groups = ([row for row in mixed if reads(reader, row) == good] for good in (True, False))
        taken += [(reader, row) for row in each_value_once(*groups)]
    return sorted(taken, key=lambda reading: rows.index(reading[1]))
