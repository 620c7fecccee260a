"""Threads: values made once for a key, memory that is used again, the usable cores."""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from mcage.errors import UserError
from mcage.plain_text import shortened

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
        made = self._made.get(key)
        if made is None:
            with self._lock:  # it holds on to the key only until it is made
                made = self._made.setdefault(key, Lazy(lambda: self._make(key)))
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
        if self._make is not None:  # whoever comes later need not wait
            with self._lock:
                if self._make is not None:
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


THREADS_VARIABLE = "MCAGE_THREADS"
"""Number of threads to compute with; by default as many as there are usable cores."""


def usable_cores() -> int:
    """Return the number of cores that this process may use.

    That is what `THREADS_VARIABLE` says, or else the smaller of its affinity mask and what its
    control groups grant it, as those of a container do.

    Raises
    ------
    UserError
        The variable holds no such number.
    """
    if text := os.environ.get(THREADS_VARIABLE, ""):
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= _MOST_THREADS):
            raise UserError(
                f"{THREADS_VARIABLE} = {shortened(text)}: must be a number of threads, 1 ... "
                f"{_MOST_THREADS}"
            )
        return min(_most_cores, int(text))
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(_most_cores, cores, *_granted())


_MOST_THREADS = 4096
_OWN_GROUPS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def _granted() -> Iterator[int]:
    """Cores that each control group of this process grants, those that hold it included.

    A group that grants parts of a core counts for the next whole number.
    """
    with suppress(OSError, ValueError):
        for line in _OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            # A container may see its own group as the root, whatever the name of it.
            parts = [part for part in path.split("/") if part not in ("", "..")]
            for root in (_GROUPS, _GROUPS / (controllers or "unified"), _GROUPS / "cpu"):
                for length in range(len(parts) + 1):
                    yield from _quota(root.joinpath(*parts[:length]))


def _quota(group: Path) -> Iterator[int]:
    """Cores that the files of a group grant, of the second version and of the first."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            texts = " ".join((group / name).read_text() for name in names)
            quota, period = map(int, texts.split())  # no numbers: max, or -1
            if quota > 0 and period > 0:
                yield -(-quota // period)
