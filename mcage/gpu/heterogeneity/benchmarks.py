"""Benchmarks of Zhang et al. (INTEGRATION 2015): filter rates, and what else is printed of each."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from mcage.errors import UserError
from mcage.plain_text import shortened

MEAN_BASELINE_DELAY = 0.077
"""Delay increase of the baseline's scheduler, mean of the ten benchmarks (printed, section 6.1.1);
for benchmarks of which none is printed."""

MEAN_L2_BASELINE_DELAY = 0.141
"""Delay increase of the baseline's L2 data array, mean of the ten (printed, section 6.2)."""

USUAL_MISS_RATE = 0.3
"""L2 miss rate of benchmarks of which none is printed (assumed): with it the mean delay of the L2
that is read after its tags is 2.7 %, where 2.8 is printed."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, with what the paper prints of it; None where it prints nothing.

    Parameters
    ----------
    name : str
        Its name.
    filter_rate : float
        Share of the reads that the first stage of the scheduler spares (Table 4).
    baseline_delay : float or None
        Relative delay increase of the baseline's scheduler after 7 years.
    l2_miss_rate : float or None
        Miss rate of the L2.
    latency_cycles : float or None
        Mean latency of the instructions of the longest-warp chain.
    printed : dict of str to float
        Printed results of the proposal: ``two_stage_delay``, ``temperature_drop``, ``l2_delay``.
    """

    name: str
    filter_rate: float
    baseline_delay: float | None = None
    l2_miss_rate: float | None = None
    latency_cycles: float | None = None
    printed: dict[str, float] = field(default_factory=dict)

    @property
    def scheduler_delay(self) -> float:
        """Delay increase of the baseline's scheduler: as printed, otherwise the mean of the ten."""
        return MEAN_BASELINE_DELAY if self.baseline_delay is None else self.baseline_delay

    @property
    def miss_rate(self) -> float:
        """Miss rate of the L2: as printed, otherwise `USUAL_MISS_RATE`."""
        return USUAL_MISS_RATE if self.l2_miss_rate is None else self.l2_miss_rate


@cache
def benchmarks() -> dict[str, Benchmark]:
    """Return the ten benchmarks by name, in the order of Table 4."""
    return {name: Benchmark(name=name, **given) for name, given in _file()["benchmarks"].items()}


def printed_means() -> dict[str, float]:
    """Printed means over the ten benchmarks, by the names of `Benchmark.printed`."""
    means: dict[str, float] = _file()["mean"]["printed"]
    return means


def benchmarks_called(names: Sequence[str]) -> tuple[Benchmark, ...]:
    """Return benchmarks by name; all for no name.

    Raises
    ------
    UserError
        There is no such benchmark.
    """
    known = benchmarks()
    for name in names:
        if name not in known:
            raise UserError(
                f"benchmark {shortened(name)} is unknown; choose from {', '.join(known)}"
            )
    return tuple(known[name] for name in (names or known))


@cache
def _file() -> dict[str, Any]:
    path = files("mcage") / "data" / "benchmarks" / "zhang-2015.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
