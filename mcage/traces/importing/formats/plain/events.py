"""Events that a user has written down: every rule that they break is an error."""

from collections.abc import Callable
from typing import Any, NoReturn

from mcage.plain_text import shown
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.windows import MOST_REGISTERS, Origin, Place, Window

Fail = Callable[[str], NoReturn]


class PlainEvents:
    """Takes events by the names that a user gives to windows.

    A name may be used again when its window is released. A window that is never allocated lasts
    from its first to its last access.

    Parameters
    ----------
    recording : Recording
        Where the events go.
    fail : callable
        Refuses the file because of the event at hand.
    """

    def __init__(self, recording: Recording, fail: Fail) -> None:
        self.recording = recording
        self._fail = fail
        self._open: dict[Any, Window] = {}
        self._implied: set[Any] = set()
        self._allocated: set[Any] = set()

    def alloc(
        self, name: Any, time: int, size: int, origin: Origin, place: Place, entry: int | None
    ) -> None:
        """Allocate a window."""
        if name in self._open:
            self._fail(f"window {_in_words(name)} is allocated, but still open")
        if not 1 <= size <= MOST_REGISTERS:
            self._fail(
                f"window {_in_words(name)} has {size} registers, must be 1 ... {MOST_REGISTERS}"
            )
        self._allocated.add(name)
        self._keep(name, time, size, origin, place, entry)

    def access(self, name: Any, time: int, register: int) -> Window:
        """Window of an access, which has been checked."""
        window = self._open.get(name)
        if window is None:
            if name in self._allocated:
                self._fail(f"window {_in_words(name)} has been released, and not allocated again")
            self._implied.add(name)
            self.recording.inferred["windows"] = "from the first to the last access"
            window = self._keep(name, time, None, Origin(), Place(), None)
        if time < window.last:
            self._fail(
                f"cycle {time} is before {window.last}, that of an earlier event of window "
                f"{_in_words(name)}"
            )
        if not 0 <= register < (window.size or MOST_REGISTERS):
            self._fail(f"register {register} is outside of window {_in_words(name)}")
        return window

    def release(self, name: Any, time: int) -> None:
        """Release a window."""
        window = self._open.pop(name, None)
        if window is None:
            self._fail(f"window {_in_words(name)} is released, but not open")
        if time < window.last:
            self._fail(
                f"window {_in_words(name)} is released before its last access: {window.last}"
            )
        self.recording.close_window(window, time)

    def end(self) -> None:
        """Close the windows that nothing has allocated."""
        for name in self._implied & self._open.keys():
            self.recording.close_window(self._open[name], self._open[name].last)
        self.recording.in_file |= {
            **{"values": "after the write", "lanes": "masks", "time": "cycles"},
            "registers": "numbers in the window",
        }

    def _keep(
        self,
        name: Any,
        time: int,
        size: int | None,
        origin: Origin,
        place: Place,
        entry: int | None,
    ) -> Window:
        facts: dict[str, Any] = {
            "window": name if isinstance(name, int) else _in_words(name),
            "launch": origin.launch,
            "kernel": origin.kernel,
        }
        facts |= {"work_group": origin.work_group, "wavefront": origin.wavefront}
        window = self.recording.open_window(time, size, origin, place, entry, facts=facts)
        self._open[name] = window
        return window


def _in_words(name: Any) -> str:
    return shown(name.decode("utf-8", "replace") if isinstance(name, bytes) else name)
