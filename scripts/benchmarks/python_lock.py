"""How long Python's lock is held: a thread that never takes it looks at it again and again.

    with LockSampler() as sampler:
        ...
    sampler.held  # share of the samples in which some thread held the lock

CPython keeps the lock (GIL) in its runtime state and says nothing of where. The word is found by
comparing: it is 1 while a function of C is called that keeps the lock, and 0 while one is called
that gives it away. With several threads at work a share says little; with one it is the part of the
work that no second thread could do at the same time.
"""

import ctypes
import threading

import numba
import numpy as np

_STATE_BYTES = 1 << 18
_LOOKS = 40

_library = ctypes.CDLL(None)
_usleep = _library.usleep
_usleep.argtypes, _usleep.restype = [ctypes.c_uint], ctypes.c_int


def _word_of_lock():
    """The word of memory that tells whether the lock is held: int32[1]."""
    state = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    copies = [(ctypes.c_char * _STATE_BYTES)() for _ in range(2)]
    keeping, giving_away = ctypes.PyDLL(None).memcpy, ctypes.CDLL(None).memcpy
    may_be = np.ones(_STATE_BYTES // 4, dtype=bool)
    for copying in (keeping, giving_away):
        copying.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    for _ in range(_LOOKS):
        for copy, copying in zip(copies, (keeping, giving_away), strict=True):
            copying(ctypes.addressof(copy), state, _STATE_BYTES)
        held, free = (np.frombuffer(copy, dtype=np.int32) for copy in copies)
        may_be &= (held == 1) & (free == 0)
    places = np.flatnonzero(may_be)
    if len(places) != 1:
        raise RuntimeError(f"{len(places)} words of CPython's state could be its lock, not one")
    address = state + 4 * int(places[0])
    return np.frombuffer((ctypes.c_int32 * 1).from_address(address), dtype=np.int32)


@numba.njit(nogil=True)
def _look(word, paused, counts, pause_us):
    """Count looks, and those at which the lock is held, until `paused` is negative."""
    while paused[0] >= 0:
        _usleep(pause_us)
        if paused[0] == 0:
            counts[0] += 1
            counts[1] += word[0] == 1


class LockSampler:
    """Looks at the lock while it is entered.

    Parameters
    ----------
    pause_us : int
        Time between two looks, in microseconds.

    Attributes
    ----------
    paused : int64[1]
        Is raised and lowered by whoever does what is not to be counted.
    """

    def __init__(self, pause_us=50):
        self._word, self._pause_us = _word_of_lock(), pause_us
        self.paused, self._counts = np.full(1, -1), np.zeros(2, dtype=np.int64)
        _look(self._word, self.paused, self._counts, pause_us)  # compiles it

    def __enter__(self):
        self.paused[:], self._counts[:] = 0, 0
        arguments = self._word, self.paused, self._counts, self._pause_us
        self._thread = threading.Thread(target=_look, args=arguments)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self.paused[:] = -(2**40)
        self._thread.join()

    @property
    def held(self):
        """Share of the looks at which the lock was held."""
        return float(self._counts[1] / max(1, self._counts[0]))
