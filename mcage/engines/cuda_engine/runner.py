"""A device with what is made once for it: compiled programs, and tables that all threads use."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
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
        self._workspace_bytes = device.free_bytes() // (4 * threads)
        self._lock = threading.Lock()
        self._modules: dict[tuple[str, tuple[tuple[str, int], ...]], Future[Module]] = {}

    def module(self, program: Program) -> Module:
        """Compiled kernels: compiled once, while other threads may compile other programs."""
        source, constants = program
        key = source, tuple(sorted(constants.items()))
        with self._lock:
            waits = key in self._modules
            module = self._modules.setdefault(key, Future())
        if not waits:  # other programs may be compiled meanwhile
            try:
                module.set_result(self.device.module(source, constants))
            except BaseException as error:
                with self._lock:
                    del self._modules[key]  # whoever asks next tries again
                module.set_exception(error)
        return module.result()

    def shared(self, table: NDArray[Any]) -> Any:
        """A table on the device, there for the other threads of the host as well."""
        return self.device.upload_table(table)

    def chunks(self, bytes_each: NDArray[np.int64]) -> Iterator[slice]:
        """Parts of a batch whose workspace fits into a thread's part of the memory.

        A quarter of what was free in the beginning is for the workspace of all threads.

        Parameters
        ----------
        bytes_each : int64[n]
            What each slice needs.
        """
        end = np.cumsum(bytes_each)
        first = 0
        while first < len(end):
            before = end[first - 1] if first else 0
            fits = int(np.searchsorted(end, before + self._workspace_bytes, side="right"))
            last = min(max(first + 1, fits), first + _MOST_SLICES)
            yield slice(first, last)
            first = last
