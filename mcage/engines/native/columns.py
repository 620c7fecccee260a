"""A prepared replay as the compiled functions take it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcage.engines.prepare import PreparedReplay
from mcage.traces.model import WRITE

IMAGE, MASK, DURATION, REGIONS = range(4)
"""Columns of `Columns.facts`."""

KIND, INDEX, ROW, STATE = range(4)
"""Columns of `Placing.operations`."""


class Columns(NamedTuple):
    """Columns of `mcage.engines.schedule` and `mcage.engines.images`.

    `facts` puts together, in one cache line, what a walk asks of each write: row of `contents`;
    row of `masks`, 0 for a whole write, or the complement of the exponent codes of a record
    (negative); cycles until the value is gone; regions powered.
    """

    cycle: NDArray[np.int64]
    facts: NDArray[np.int64]
    contents: NDArray[np.uint32]
    masks: NDArray[np.uint32]
    region_masks: NDArray[np.uint32]
    window_base: NDArray[np.int64]
    window_size: NDArray[np.int64]


class Placing(NamedTuple):
    """What the selectors look at.

    A row of `operations`, int32[operations, 4], is an allocation, a write or a release, in order:
    its kind; its write or window; the register's row, or the window's first; compression before
    and after (bits 1 and 0), or the window's rows.
    """

    operations: NDArray[np.int32]
    reads_after: NDArray[np.int64]
    cycle: NDArray[np.int64]
    release_cycle: NDArray[np.int64]


def columns(replay: PreparedReplay) -> Columns:
    """What cell times follow from."""
    schedule, images = replay.schedule, replay.schedule.images
    mask = np.where(images.is_record, ~images.record_code.astype(np.int64), images.mask)
    duration = schedule.end_cycle - schedule.cycle
    return Columns(
        cycle=schedule.cycle,
        facts=np.stack([images.image, mask, duration, images.regions], axis=1),
        contents=images.contents,
        masks=images.masks,
        region_masks=images.region_masks,
        window_base=schedule.windows.base,
        window_size=schedule.windows.size,
    )


def placing(replay: PreparedReplay, every_write: bool) -> Placing:
    """What the selectors look at: every write, or those only that begin a stay.

    The others matter only to a row that is spilled: it looks for a home at each of them.
    """
    schedule, windows = replay.schedule, replay.schedule.windows
    begins = schedule.stay_first == np.arange(schedule.writes)
    is_write = schedule.op_kind == WRITE
    operations = np.zeros((len(schedule.op), 4), dtype=np.int32)
    operations[:, KIND] = schedule.op_kind
    operations[:, INDEX] = schedule.op
    write, window = schedule.op[is_write], schedule.op[~is_write]
    operations[is_write, ROW] = schedule.row[write]
    operations[is_write, STATE] = 2 * schedule.was_compressed[write] + schedule.compressed[write]
    operations[~is_write, ROW] = windows.base[window]
    operations[~is_write, STATE] = windows.size[window]
    kept = ~is_write
    kept[is_write] = every_write | begins[write]
    return Placing(
        operations=operations[kept],
        reads_after=schedule.reads_after,
        cycle=schedule.cycle,
        release_cycle=windows.release_cycle,
    )
