"""Which kernel made an error of CUDA.

A kernel runs after the call that launches it has returned. What it does wrong therefore surfaces
at a later call, often in another thread of the host: at the next launch, copy or wait. What is
known then is which kernels had been launched since their streams last answered.
"""

import itertools
import os
import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mcage.engines.cuda_engine.devices.errors import DeviceError, OutOfDeviceMemoryError, first_line

SYNC = "MCAGE_SYNC"
"""Environment variable: 1 waits for every kernel before the next, so that errors are its own."""

_OUT_OF_MEMORY = 2
_OF_KERNELS = frozenset({214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999})
"""Codes of errors that occur while kernels run (CUDA Driver API, ``CUresult``)."""


def synchronous() -> bool:
    """Whether the user asks that every kernel is waited for."""
    return os.environ.get(SYNC, "") not in ("", "0")


class Faults:
    """Kernels at work on a device, and errors put down to them.

    Parameters
    ----------
    cupy : module
        CuPy.
    device : str
        Name of the device in errors.

    Attributes
    ----------
    of_cuda : tuple of type
        CuPy's errors that say what CUDA says.
    """

    def __init__(self, cupy: Any, device: str) -> None:
        cuda = cupy.cuda
        self.of_cuda = (
            cuda.memory.OutOfMemoryError,
            cuda.runtime.CUDARuntimeError,
            cuda.driver.CUDADriverError,
        )
        self._device = device
        self._numbers = itertools.count()
        self._at_work: dict[Hashable, dict[int, str]] = {}
        self._fault: str | None = None
        self._lock = threading.Lock()

    @contextmanager
    def launching(self, stream: Hashable, kernel: str) -> Iterator[None]:
        """While a kernel is launched, which then is at work on a stream."""
        number = next(self._numbers)
        with self._lock:
            self._at_work.setdefault(stream, {})[number] = kernel
        try:
            yield
        except BaseException:
            self._done(stream, (number,))
            raise

    @contextmanager
    def answering(self, stream: Hashable) -> Iterator[None]:
        """While a stream is waited for: once it has answered, its kernels so far are done."""
        with self._lock:
            at_work = tuple(self._at_work.get(stream, ()))
        yield
        self._done(stream, at_work)

    def _done(self, stream: Hashable, numbers: Iterable[int]) -> None:
        with self._lock:
            at_work = self._at_work.get(stream, {})
            for number in numbers:
                at_work.pop(number, None)

    @contextmanager
    def named(self, doing: str) -> Iterator[None]:
        """While something is asked of the device: CUDA's errors are put in words.

        Raises
        ------
        OutOfDeviceMemoryError
            If the device has no room.
        DeviceError
            After a kernel's error, which is named, or if the device refuses what is asked of it.
        """
        try:
            yield
        except self.of_cuda as error:
            raise self._in_words(error, doing) from error

    def _in_words(self, error: Exception, doing: str) -> DeviceError:
        status = getattr(error, "status", _OUT_OF_MEMORY)
        if status == _OUT_OF_MEMORY:
            return OutOfDeviceMemoryError(f"{self._device}: {doing}: {first_line(error)}")
        if status not in _OF_KERNELS:
            return DeviceError(f"{self._device} refuses: {doing}: {first_line(error)}")
        with self._lock:
            # The device answers nobody from now on: all threads are told of the first error.
            self._fault = self._fault or self._blame(error)
        return DeviceError(self._fault)

    def _blame(self, error: Exception) -> str:
        kernels = [name for at_work in self._at_work.values() for name in at_work.values()]
        return (
            f"{self._device} failed {_suspects(list(dict.fromkeys(kernels)))}: "
            f"{first_line(error)}; what is finished is kept: run the same command again, "
            "or see 'mcage doctor'"
        )


def _suspects(kernels: list[str]) -> str:
    if not kernels:
        return "while no kernel of mcage ran"
    if len(kernels) == 1:
        return f"in kernel {kernels[0]}"
    return f"in one of the kernels {', '.join(kernels)} ({SYNC}=1 in the environment tells which)"
