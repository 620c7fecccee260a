"""Counter-based random numbers: an independent Philox stream for each (seed, name, instance).

An instance is a pure function of (spec, seed, instance id): what it draws may not depend on
batch or shard size, order, engine or number of workers. Hence each use asks for the stream that
bears its name, and no generator serves two uses.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.geometry import Words


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
    key: Any = _Key(stream_key(seed, name))
    return np.random.Generator(np.random.Philox(key, counter=[0, 0, 0, instance]))


def seed_of(seed: int, name: str) -> int:
    """Seed for a use of such a name that has many streams of its own: 0 ... 2**63 - 1."""
    return int(stream(seed, name, 0).integers(2**63))


class _Key(np.random.bit_generator.ISeedSequence):
    """A key in the place of a seed: given as a key, a random seed would be made first, and left."""

    def __init__(self, key: Words) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """The key, for which `Philox` asks as two words of 64 bits."""
        return self._key


def stream_key(seed: int, name: str) -> Words:
    """Key that the streams of a name have in common: uint64[2]."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=16).digest()
    return np.frombuffer(digest, dtype="<u8")


def successive_streams(
    keys: Iterable[Words], instances: Iterable[int]
) -> Iterator[np.random.Generator]:
    """The streams of many instances, in turn: each is at its end when the next is asked for.

    It is the same generator, whose state is set: that takes a tenth of the time of a new one.

    Parameters
    ----------
    keys : iterable of uint64[2]
        `stream_key` of each stream.
    instances : iterable of int
        Instance of each stream.
    """
    bits = np.random.Philox(key=0)
    generator, state = np.random.Generator(bits), bits.state
    for key, instance in zip(keys, instances, strict=False):
        state["state"]["key"][:] = key
        state["state"]["counter"][:] = 0, 0, 0, instance
        bits.state = state
        yield generator


def streams_of(seed: int, name: str, instances: Iterable[int]) -> Iterator[np.random.Generator]:
    """`stream` of a name for each of many instances, in turn; see `successive_streams`."""
    return successive_streams(repeat(stream_key(seed, name)), instances)
