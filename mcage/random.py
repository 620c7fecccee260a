"""Counter-based random numbers: one independent Philox stream per (seed, name, instance).

An instance is a pure function of (spec, seed, instance id): what it draws may not depend on
batch or shard size, order, engine or number of workers. Hence no generator is ever shared;
each use asks for its own stream by name.
"""

import hashlib

import numpy as np


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
