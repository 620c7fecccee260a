"""Which assumption brings RRCD's share of regular writes, 70 % on average?

A write is regular if it is not the first one of its register and leaves its compression state as it
is (nothing is spilled here). Prints that share under other ways to count it, and of wavefronts that
end early, as they would with smaller inputs. docs/reproduction.md quotes it.

    python scripts/experiments/explore_writes.py
"""

import numpy as np

from mcage.geometry import GCN
from mcage.papers.kernel_replays import LIMITS
from mcage.replays.schedule import Schedule, make_schedule
from mcage.techniques import technique
from mcage.traces import KERNELS, open_trace


def main() -> None:
    for limit in LIMITS:
        schedules = [
            make_schedule(open_trace(kernel), technique("rrcd"), limit) for kernel in KERNELS
        ]
        print(f"regular writes, percent, mean of ten kernels, delta limit {limit} (paper: 70)")
        show("as mcage counts", schedules, lambda schedule: 1 - begins(schedule).mean())
        show("blocks instead of writes", schedules, by_blocks)
        show(
            "mispredictions redirect as well",
            schedules,
            lambda schedule: 1 - (begins(schedule) | schedule.mispredicted).mean(),
        )
        for part in (1 / 2, 1 / 4):
            show(
                f"wavefronts end after {part:.0%} of their writes",
                schedules,
                lambda schedule, part=part: 1 - begins(schedule)[in_first(part, schedule)].mean(),
            )


def show(label, schedules, share) -> None:
    print(f"  {label:44} {100 * np.mean([share(schedule) for schedule in schedules]):5.1f}")


def begins(schedule: Schedule) -> np.ndarray:
    """Writes that look for a home: the first, and those that change the compression state."""
    return schedule.residency_first == np.arange(schedule.writes)


def by_blocks(schedule: Schedule) -> float:
    blocks = np.where(schedule.compressed, 1, GCN.blocks)
    return 1 - blocks[begins(schedule)].sum() / blocks.sum()


def in_first(part: float, schedule: Schedule) -> np.ndarray:
    """Writes among the first of their wavefront."""
    count = np.bincount(schedule.window)
    order = np.argsort(schedule.window, kind="stable")
    rank = np.empty(schedule.writes, dtype=np.int64)
    rank[order] = np.arange(schedule.writes) - np.repeat(np.cumsum(count) - count, count)
    return rank < part * count[schedule.window]


if __name__ == "__main__":
    main()
