"""Batches that become smaller when memory runs out."""

import sys
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError

SMALLEST_BATCH = 8
"""Instances of a batch that is not halved any more."""

Result = TypeVar("Result")
Say = Callable[[str], None]


class Halving:
    """Computes batches, in halves if there is no memory for a whole batch.

    Later batches are no larger than the halves.

    Results do not depend on it, since no instance depends on its batch.

    Parameters
    ----------
    say : callable, optional
        Is told of every new size.
    """

    def __init__(self, say: Say | None = None) -> None:
        self._say = say
        self._most = sys.maxsize

    def run(
        self, compute: Callable[[NDArray[np.int64]], Result], instances: NDArray[np.int64]
    ) -> list[Result]:
        """Results of ``compute`` for all instances: part by part, or in one part if memory lasts.

        Parameters
        ----------
        compute : callable
            Computes a batch, and raises MemoryError if there is no memory for it.
        instances : int64[n]
            Of the batch.

        Raises
        ------
        UserError
            There is no memory even for `SMALLEST_BATCH` instances.
        """
        results: list[Result] = []
        while len(instances):
            part = instances[: self._most]
            try:
                results.append(compute(part))
            except MemoryError as error:
                self._shrink(len(part), error)
                # What the batch had in memory goes with the error, before the next try.
            else:
                instances = instances[len(part) :]
        return results

    def _shrink(self, size: int, error: MemoryError) -> None:
        why = str(error) or "no memory"
        if size <= SMALLEST_BATCH:
            raise UserError(
                f"out of memory with {size} instances in a batch ({why}); finished shards are "
                "kept: free memory, and run the same command again"
            ) from error
        half = max(SMALLEST_BATCH, size // 2)
        if half < self._most:
            self._most = half
            if self._say:
                self._say(f"out of memory ({why}): on with batches of {half} instances")
