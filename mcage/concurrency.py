"""What threads share: the cores, and values that are made once for a key."""

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Key = TypeVar("Key")
Value = TypeVar("Value")


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Once(Generic[Key, Value]):
    """Values by key. A thread that asks while another makes the value waits for it.

    Parameters
    ----------
    make : callable
        Makes the value of a key, and does not hold on to the key.
    """

    def __init__(self, make: Callable[[Key], Value]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[Key, Value] = WeakKeyDictionary()
        self._lock = threading.RLock()

    def of(self, key: Key) -> Value:
        """The value of a key, made now if it is not yet."""
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(key)
            return self._made[key]
