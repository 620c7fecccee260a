"""A stream of a device, with what belongs to it: an event to wait for, and memory of the host."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mcage.concurrency import FreeList

_MOST_STAGED_BYTES = 1 << 26
_LEAST_STAGED_BYTES = 1 << 20


class Lane:
    """A stream for one thread of the host at a time.

    What comes back from the device goes through memory of the host that cannot be moved, which
    stays with the stream: the device copies into other memory at a fraction of the speed, and
    fresh pages cost more than the copy.

    A thread that waits leaves its core to others; by default CUDA would keep it busy.

    Parameters
    ----------
    cupy : module
        CuPy, whose current device is that of the stream.

    Attributes
    ----------
    stream : cupy.cuda.Stream
        The stream.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.stream: Any = cupy.cuda.Stream(non_blocking=True)
        self._done = cupy.cuda.Event(block=True, disable_timing=True)
        self._staging: NDArray[np.uint8] | None = None

    def wait(self) -> None:
        """Wait until all work of the stream so far is done."""
        self._done.record(self.stream)
        self._done.synchronize()

    def staging(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any] | None:
        """Memory of the host for an array that is downloaded, until the next is asked for.

        None if the array is large, or the driver gives no such memory.
        """
        size_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if not 0 < size_bytes <= _MOST_STAGED_BYTES:
            return None
        if self._staging is None or len(self._staging) < size_bytes:
            size = max(_LEAST_STAGED_BYTES, 1 << (size_bytes - 1).bit_length())
            try:
                pinned = self._cupy.cuda.alloc_pinned_memory(size)
            except (MemoryError, self._cupy.cuda.runtime.CUDARuntimeError):
                return None
            self._staging = np.frombuffer(pinned, dtype=np.uint8, count=size)
        return self._staging[:size_bytes].view(dtype).reshape(shape)


class Kept:
    """A stream that a thread keeps until it ends, and then gives back.

    Parameters
    ----------
    lanes : FreeList of Lane
        Streams of a device.
    lane : Lane
        The stream, taken from them.
    """

    def __init__(self, lanes: FreeList[Lane], lane: Lane) -> None:
        self._lanes = lanes
        self.lane = lane

    def __del__(self) -> None:
        self._lanes.give_back(self.lane)
