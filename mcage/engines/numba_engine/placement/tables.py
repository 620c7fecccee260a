"""Tables of residencies: one for each technique, whatever asks for it, kept on disk.

Counting, cell times and stress times take the same table. What is on disk is mapped: only the
pages that are looked at take memory, and processes share them.
"""

from collections.abc import Sequence
from functools import partial
from threading import Lock

from mcage.concurrency import Lazy, Memo
from mcage.engines.numba_engine.placement.residencies import Residencies, residencies_of
from mcage.files.flat_records import arrays_of_record, record_of_arrays
from mcage.replays.prepare import PreparedReplay, kept_of_replays

Replays = tuple[PreparedReplay, ...]


class ResidencyTables:
    """Residencies of techniques on several kernels, made when first asked for; for all threads.

    They are kept for as long as the replay of the first kernel lives.
    """

    def __init__(self) -> None:
        self._known: Memo[PreparedReplay, dict[Replays, Lazy[Residencies]]] = Memo(lambda _: {})
        self._lock = Lock()

    def of(self, replays: Sequence[PreparedReplay]) -> Residencies:
        """Residencies of a technique on several kernels.

        Parameters
        ----------
        replays : sequence of PreparedReplay
            The technique on each kernel.
        """
        first, *others = replays
        with self._lock:
            known = self._known.of(first)
            table = known.setdefault(tuple(others), Lazy(partial(_table, tuple(replays))))
        return table.get()


def _table(replays: Replays) -> Residencies:
    arrays = kept_of_replays(
        "residencies", replays, lambda: arrays_of_record(residencies_of(replays), "residencies")
    )
    return record_of_arrays(Residencies, arrays, "residencies")
