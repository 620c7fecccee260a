"""Counter-based random numbers: an independent Philox stream for each (seed, name, instance).

An instance is a pure function of (spec, seed, instance id): what it draws may not depend on
batch or shard size, order, engine or number of workers. Hence each use asks for the stream that
bears its name, and no generator serves two uses.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray


def stream(seed: int, name: str, instance: int) -> np.random.Generator:
    """Generator of the random numbers that ``instance`` uses for ``name``.

    Parameters
    ----------
    seed : int
        Seed of the whole sweep, 0 ... 2**63 - 1.
    name : str
        What the numbers are for, such as ``"variation.field"``.
    instance : int
        Instance id, 0 ... 2**63 - 1.

    Notes
    -----
    Philox 4x64-10 (Salmon et al., SC 2011). Its 128-bit key is a hash of seed and name, and the
    instance id stands in the top word of its 256-bit counter, so that streams cannot overlap.
    """
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=16).digest()
    key = np.frombuffer(digest, dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, instance]))


def variation_stream(seed: int, part: str, number: int, attempt: int = 0) -> np.random.Generator:
    """Generator of a part of the process variation.

    Parameters
    ----------
    seed : int
        Seed of the whole sweep.
    part : str
        ``die``, ``field``, ``cells`` or ``table``. Each part has a stream, so that a sigma, a Vdd
        or a number of slices per chip that changes one part leaves the others as they are.
    number : int
        Id of the die for ``die``, id of the instance for the other parts.
    attempt : int
        Number of slices that were drawn and rejected for the instance before; above 0 for
        selected maps only.
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
