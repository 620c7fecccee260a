"""Memory that is used again: the first touch of a page costs more than what is written to it."""

from collections.abc import Callable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Spares(Generic[Thing]):
    """Things that nobody uses at the moment. Threads may share it.

    Parameters
    ----------
    make : callable
        Makes a new one.
    """

    def __init__(self, make: Callable[[], Thing]) -> None:
        self._make = make
        self._spare: list[Thing] = []

    def take(self) -> Thing:
        """One to use: nobody else has it."""
        try:
            return self._spare.pop()
        except IndexError:
            return self._make()

    def give_back(self, thing: Thing) -> None:
        """It is not needed any more."""
        self._spare.append(thing)
