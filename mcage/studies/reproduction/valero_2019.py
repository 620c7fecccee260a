"""Figures of Valero et al., "An Aging-Aware GPU Register File Design Based on Data Redundancy".

IEEE TC 2019: compression and rotation (RC, RAR) against Warped-Compression and ARGO.
"""

from collections.abc import Callable

import numpy as np

from mcage.aging.delay import delay_increase
from mcage.aging.environment import NOMINAL_VDD_VOLTS, environment
from mcage.aging.nbti import SECONDS_PER_YEAR, facelift
from mcage.geometry import COMPONENT_BITS, GCN
from mcage.studies.reproduction.duty_summary import ONE, ZERO, CellDuties
from mcage.studies.reproduction.kernel_replays import KernelReplays, Run
from mcage.studies.reproduction.measured import Measured, Metric, of_kernels
from mcage.studies.reproduction.published import Published

LIFE_YEARS = 3.0
"""Section 6.4."""

UPPER_BITS, SIGN_BIT = slice(24, 31), 31
"""Bits of a component in Fig. 12; its "most significant bits" are taken as the upper byte."""


def dvth_volts(duty: float) -> float:
    """Threshold shift after `LIFE_YEARS` at nominal voltage under a duty cycle."""
    model, seconds = facelift(), LIFE_YEARS * SECONDS_PER_YEAR
    stressed = duty * seconds
    rate = model.stress_rate(environment("nominal", NOMINAL_VDD_VOLTS))
    return float(model.dvth(rate * stressed, stressed, (1 - duty) * seconds))


def _cells(run: Run) -> CellDuties:
    if run.duties is None:
        raise ValueError("cells are studied of techniques that do not redirect")
    return run.duties


def _dvth(run: Run, which: int) -> float:
    return dvth_volts(float(_cells(run).longest[which]))


def _delay(run: Run) -> float:
    """Increase of the switching delay by the worst transistor."""
    model = facelift()
    worst = max(_dvth(run, ZERO), _dvth(run, ONE))
    return float(delay_increase(worst, NOMINAL_VDD_VOLTS, model.vt0_volts, model.alpha))


def _percent(value: Callable[[Run], float]) -> Metric:
    """Metric that is a share of each kernel."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        runs = study.runs(figure.technique, limit)
        return of_kernels(figure, {name: 100 * np.array([value(runs[name])]) for name in runs})

    return measure


def _reduction(value: Callable[[Run], float]) -> Metric:
    """Metric that is a reduction against the baseline of each kernel."""

    def measure(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
        runs, base = study.runs(figure.technique, limit), study.runs("baseline")
        left = {name: np.array([value(runs[name]) / value(base[name])]) for name in runs}
        return of_kernels(figure, {name: 100 * (1 - share) for name, share in left.items()})

    return measure


def _normalised_dvth(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Largest threshold shift of a slice over the largest possible one."""
    runs, most = study.runs(figure.technique, limit), dvth_volts(1.0)
    worst = {name: max(_dvth(run, ZERO), _dvth(run, ONE)) for name, run in runs.items()}
    return of_kernels(figure, {name: np.array([shift / most]) for name, shift in worst.items()})


def _compressed_registers(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Entries, in all windows, of the register whose longest '0' is shortest on average."""
    (size,) = study.traces[figure.kernel].window_sizes
    cells = _cells(study.runs("rc", limit)[figure.kernel])
    longest = cells.of_entries[cells.used, ZERO, ZERO].reshape(-1, size)
    register = longest.mean(axis=0).argmin()
    return Measured(np.nan, text=", ".join(map(str, register + size * np.arange(len(longest)))))


def _unused_registers(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    unused = np.flatnonzero(~_cells(study.runs("baseline")[figure.kernel]).used)
    return Measured(np.nan, text=f"{unused[0]} to {unused[-1]}")


def _zero_duty_of_bits(bits: slice | int) -> Metric:
    """Metric that is the mean '0' duty cycle of given bits of the components, at the baseline."""

    def value(run: Run) -> float:
        by_bit = _cells(run).of_bits[:, ZERO].reshape(GCN.components, COMPONENT_BITS)
        return float(by_bit.mean(axis=0)[bits].mean())

    return _percent(value)


def _wakeups_per_access(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    runs = study.runs(figure.technique, limit)
    return of_kernels(
        figure,
        {
            name: run.counters.wakeups / run.counters.passes / (run.reads + run.writes)
            for name, run in runs.items()
        },
    )


def _utilisation(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Share of the entries that windows occupy, N times k, for the closest window size."""
    trace = study.traces[figure.kernel]
    shares = [100 * size * trace.concurrent_windows / GCN.entries for size in trace.window_sizes]
    return Measured(min(map(round, shares), key=lambda share: abs(figure.difference(share))))


def _unused_windows(study: KernelReplays, figure: Published, limit: int | None) -> Measured:
    """Windows that would fit but have no wavefront, for the closest window size."""
    trace = study.traces[figure.kernel]
    unused = [GCN.entries // size - trace.concurrent_windows for size in trace.window_sizes]
    return Measured(min(unused, key=lambda windows: abs(figure.difference(windows))))


METRICS: dict[str, Metric] = {
    "longest_zero_duty_reduction": _reduction(lambda run: float(_cells(run).longest[ZERO])),
    "longest_one_duty_reduction": _reduction(lambda run: float(_cells(run).longest[ONE])),
    "longest_zero_duty": _percent(lambda run: float(_cells(run).longest[ZERO])),
    "dvth_t0_saving": _reduction(lambda run: _dvth(run, ZERO)),
    "dvth_t1_saving": _reduction(lambda run: _dvth(run, ONE)),
    "normalised_dvth": _normalised_dvth,
    "delay_increase": _percent(_delay),
    "compressible_writes": _percent(lambda run: run.compressible),
    "movs_per_write": _percent(lambda run: run.movs),
    "compressed_registers": _compressed_registers,
    "unused_registers": _unused_registers,
    "upper_bits_zero_duty": _zero_duty_of_bits(UPPER_BITS),
    "sign_bit_zero_duty": _zero_duty_of_bits(SIGN_BIT),
    "wakeups_per_access": _wakeups_per_access,
    "utilisation": _utilisation,
    "unused_windows": _unused_windows,
}
