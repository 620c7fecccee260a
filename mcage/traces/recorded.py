"""Traces of which only name, length and digest are known until their events are asked for."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.concurrency import Lazy
from mcage.files.disk_cache import kept_on_disk
from mcage.geometry import SliceGeometry
from mcage.traces.library import bundled_name, open_trace, path_of_bundled
from mcage.traces.model import Trace
from mcage.version import code_digest


class RecordedTrace:
    """A trace that is read when its events are asked for.

    Parameters
    ----------
    name : str
        What users call it.
    cycles : int
        Length of one pass.
    geometry : SliceGeometry
        The slice.
    digest, caveat : str
        Hash of its content, and what must be said of its results: as of `Trace`.
    whole : Lazy
        Gives the trace.
    """

    def __init__(
        self,
        name: str,
        cycles: int,
        geometry: SliceGeometry,
        digest: str,
        whole: Lazy[Trace],
        caveat: str = "",
    ) -> None:
        self.name, self.cycles, self.geometry, self.caveat = name, cycles, geometry, caveat
        self._digest, self._whole = digest, whole

    @property
    def whole(self) -> Trace:
        """The trace with all its events."""
        return self._whole.get()

    def digest(self) -> str:
        """See `Trace.digest`."""
        return self._digest


def recorded_trace(name: str, changed: Callable[[Trace], Trace], how: str) -> RecordedTrace:
    """A trace by its name or path, as it is changed before it is replayed.

    What a bundled trace is like is kept on disk, so that it need not be read; any other is read
    and checked.

    Parameters
    ----------
    name : str
        As in `open_trace`.
    changed : callable
        Changes the trace.
    how : str
        All that decides how.

    Raises
    ------
    UserError
        As `open_trace`.
    """
    whole = Lazy(lambda: changed(open_trace(name)))
    kernel = bundled_name(name)
    if kernel is None:
        trace = whole.get()
        return RecordedTrace(
            trace.name, trace.cycles, trace.geometry, trace.digest(), whole, trace.caveat
        )

    def described() -> dict[str, NDArray[Any]]:
        trace = whole.get()
        digest = np.frombuffer(bytes.fromhex(trace.digest()), np.uint8)
        geometry = np.array(list(trace.geometry.described().values()))
        caveat = np.frombuffer(trace.caveat.encode(), np.uint8)
        cycles = np.array(trace.cycles)
        return {"cycles": cycles, "digest": digest, "geometry": geometry, "caveat": caveat}

    with path_of_bundled(kernel) as path:
        content = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    facts = kept_on_disk(f"trace {content} {how} {code_digest()}", described)
    geometry = SliceGeometry(*facts["geometry"].tolist())
    digest = facts["digest"].tobytes().hex()
    caveat = facts["caveat"].tobytes().decode()
    return RecordedTrace(kernel, int(facts["cycles"]), geometry, digest, whole, caveat)
