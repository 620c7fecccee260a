"""The named streams behind a slice: what each random number of it depends on."""

import numpy as np
from numpy.typing import NDArray

from mcage.random import stream


def draws(seed: int, part: str, number: int, attempt: int = 0) -> np.random.Generator:
    """Generator of one part of the variation.

    Parameters
    ----------
    seed : int
        Seed of the whole sweep.
    part : str
        ``die``, ``field``, ``cells`` or ``table``. Each has a stream of its own, so that a sigma,
        a Vdd or a number of slices per chip that changes one part leaves the others as they are.
    number : int
        Whose it is: the id of the die for ``die``, of the instance for the others.
    attempt : int
        How many slices were drawn and rejected for the instance before; only selected maps have
        any.
    """
    name = f"variation.{part}" if attempt == 0 else f"variation.{part}.{attempt}"
    return stream(seed, name, number)


def with_attempts(
    instances: NDArray[np.int64], attempts: NDArray[np.int64] | None
) -> list[tuple[int, int]]:
    """Id and attempt of each instance; without attempts, the first of all."""
    if attempts is None:
        attempts = np.zeros(len(instances), np.int64)
    return list(zip(instances.tolist(), attempts.tolist(), strict=True))
