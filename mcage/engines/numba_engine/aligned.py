"""Arrays that begin where a cache line does, so that a row lies in as few lines as possible.

NumPy's memory begins 16 bytes after one where an array is large: a row of 64 bytes is in two lines
then, and every vector of 512 bits that is loaded from it.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE = 64
"""Bytes of a cache line."""


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make zeros; pages that are never touched take no memory."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, dtype=np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def aligned_join(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays [n, ...] of the same type and width."""
    shape = (sum(map(len, parts)), *parts[0].shape[1:])
    return np.concatenate(parts, out=aligned_zeros(shape, parts[0].dtype))
