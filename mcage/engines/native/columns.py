"""A prepared replay as the compiled functions take it, and how they are compiled."""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from mcage.engines.prepare import PreparedReplay

compiled = numba.njit(cache=True, nogil=True)
"""Compiled once and cached on disk; without fast-math, so that floats round as NumPy's do."""

IMAGE, MASK, DURATION, REGIONS = range(4)
"""Columns of `Columns.facts`."""


class Columns(NamedTuple):
    """Columns of `mcage.engines.schedule` and `mcage.engines.images`.

    `facts` puts together, in one cache line, what a walk asks of each write: row of `contents`;
    row of `masks`, 0 for a whole write, or the complement of the exponent codes of a record
    (negative); cycles until the value is gone; regions powered.
    """

    cycle: NDArray[np.int64]
    facts: NDArray[np.int64]
    row: NDArray[np.int64]
    compressed: NDArray[np.bool_]
    was_compressed: NDArray[np.bool_]
    reads_after: NDArray[np.int64]
    op_kind: NDArray[np.uint8]
    op: NDArray[np.int32]
    window_base: NDArray[np.int64]
    window_size: NDArray[np.int64]
    release_cycle: NDArray[np.int64]
    contents: NDArray[np.uint32]
    masks: NDArray[np.uint32]
    region_masks: NDArray[np.uint32]


def columns(replay: PreparedReplay) -> Columns:
    """Columns of a prepared replay."""
    schedule, windows = replay.schedule, replay.schedule.windows
    images = schedule.images
    return Columns(
        cycle=schedule.cycle,
        facts=np.stack(
            [
                images.image,
                np.where(images.is_record, ~images.record_code.astype(np.int64), images.mask),
                schedule.end_cycle - schedule.cycle,
                images.regions,
            ],
            axis=1,
        ),
        row=schedule.row,
        compressed=schedule.compressed,
        was_compressed=schedule.was_compressed,
        reads_after=schedule.reads_after,
        op_kind=schedule.op_kind,
        op=schedule.op,
        window_base=windows.base,
        window_size=windows.size,
        release_cycle=windows.release_cycle,
        contents=images.contents,
        masks=images.masks,
        region_masks=images.region_masks,
    )
