"""A device with what is made once for it: compiled programs, and tables that all threads use."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.engines.cuda_engine.devices.device import Device, Module
from mcage.engines.cuda_engine.programs import Program

_MOST_SLICES = 1 << 20


class Runner:
    """A device for any number of threads of the host.

    Parameters
    ----------
    device : Device
        Device that computes.
    threads : int
        Threads of the host that may use it at once, sharing its memory.
    """

    def __init__(self, device: Device, threads: int) -> None:
        self.device = device
        self._threads = threads
        self._lock = threading.Lock()
        self._modules: dict[tuple[str, tuple[tuple[str, int], ...]], Module] = {}

    def module(self, program: Program) -> Module:
        """Compiled kernels."""
        source, constants = program
        key = source, tuple(sorted(constants.items()))
        with self._lock:
            if key not in self._modules:
                self._modules[key] = self.device.module(source, constants)
            return self._modules[key]

    def shared(self, table: NDArray[Any]) -> Any:
        """A table on the device, there for the other threads of the host as well."""
        uploaded = self.device.upload(table)
        self.device.download(uploaded[:1])  # waits until it is there
        return uploaded

    def chunks(self, bytes_each: NDArray[np.int64]) -> Iterator[slice]:
        """Parts of a batch whose workspace fits into this thread's part of the free memory.

        Parameters
        ----------
        bytes_each : int64[n]
            What each slice needs.
        """
        available = self.device.free_bytes() // (2 * self._threads)
        end = np.cumsum(bytes_each)
        first = 0
        while first < len(end):
            before = end[first - 1] if first else 0
            fits = int(np.searchsorted(end, before + available, side="right"))
            last = min(max(first + 1, fits), first + _MOST_SLICES)
            yield slice(first, last)
            first = last
