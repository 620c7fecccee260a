"""What threads share: values made once for a key, memory that is used again, the usable cores."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Key = TypeVar("Key")
Value = TypeVar("Value")
Item = TypeVar("Item")


class Memo(Generic[Key, Value]):
    """Values by key, each made once and kept for as long as its key lives.

    A thread that asks while another thread makes the value waits for it; values of other keys are
    made meanwhile.

    Parameters
    ----------
    make : callable
        Makes the value of a key, and does not hold on to the key.
    """

    def __init__(self, make: Callable[[Key], Value]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[Key, Lazy[Value]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, key: Key) -> Value:
        """Return the value of a key; the first call for a key makes it."""
        with self._lock:
            if key not in self._made:  # it holds on to the key only until it is made
                self._made[key] = Lazy(lambda: self._make(key))
            made = self._made[key]
        return made.get()


class Lazy(Generic[Value]):
    """A value that is made when it is first asked for, once, whichever thread asks.

    Parameters
    ----------
    make : callable
        Makes it.
    """

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make: Callable[[], Value] | None = make
        self._lock = threading.Lock()
        self._value: Value

    def get(self) -> Value:
        """Return the value."""
        with self._lock:
            if self._make:
                self._value = self._make()
                self._make = None
        return self._value


def in_background(tasks: Iterable[Callable[[], object]]) -> None:
    """Begin tasks in threads, as many at once as there are cores; what they raise is dropped.

    They make what others ask for by a `Lazy` or a `Memo`, where these meet the error.
    """
    pool = ThreadPoolExecutor(usable_cores(), "background")
    for task in tasks:
        pool.submit(task)
    pool.shutdown(wait=False)


class FreeList(Generic[Item]):
    """Items that no thread uses at the moment, such as memory.

    The first touch of a page costs more than what is written to it; memory is therefore kept.

    Parameters
    ----------
    make : callable
        Makes a new item.
    """

    def __init__(self, make: Callable[[], Item]) -> None:
        self._make = make
        self._free: list[Item] = []

    def take(self) -> Item:
        """Return a free item, or a new one if none is free. No other thread has it."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make()

    def give_back(self, item: Item) -> None:
        """Put back an item that is not needed any more."""
        self._free.append(item)


class Pool(Generic[Item]):
    """Memory of any size that is used again, for any number of threads.

    Parameters
    ----------
    make : callable
        Makes memory for at least so much.
    room : callable
        Tells for how much there is room in it.
    """

    def __init__(self, make: Callable[[int], Item], room: Callable[[Item], int]) -> None:
        self._make, self._room = make, room
        self._free: FreeList[Item | None] = FreeList(lambda: None)

    def take(self, size: int) -> Item:
        """Return memory for at least so much; no other thread has it."""
        used_before = self._free.take()
        if used_before is not None and self._room(used_before) >= size:
            return used_before
        return self._make(size)

    def give_back(self, item: Item) -> None:
        """Put back memory that is not needed any more."""
        self._free.give_back(item)


_most_cores = sys.maxsize
_device_sharers = 1


def limit_cores(most: int) -> None:
    """Let this process use no more cores, since others use the rest."""
    global _most_cores
    _most_cores = most


def share_devices(processes: int) -> None:
    """Let this process use its part of each device: so many processes, it included, use it."""
    global _device_sharers
    _device_sharers = processes


def device_sharers() -> int:
    """Return the number of processes that use each device, this one included."""
    return _device_sharers


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return min(_most_cores, len(affinity(0)) if affinity else os.cpu_count() or 1)
