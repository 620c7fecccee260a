"""A batch of instances: their draws, their lives in every case, and the arrays of the file."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.sampling import OF_SLICES, InstanceConstants
from mcage.geometry import SLICE
from mcage.lifetime.costs import Consumption, Meter
from mcage.lifetime.degradation.stepwise import most_instances
from mcage.lifetime.simulator import Lives, live
from mcage.random import stream
from mcage.spec import SweepSpec
from mcage.sweep.cases import PlannedCase
from mcage.sweep.plan import SweepPlan, kernels_of_periods
from mcage.sweep.variables import DVTH_BIN_EDGES_MV, VARIABLES
from mcage.variation import TailCells

SAMPLED_CELLS = 1024
"""Cells of each instance whose shifts make up the dVth histogram."""

DENSE_BATCH = 48
"""Instances in a batch where some technique keeps two sums for each of their cells: 8 MB each."""

Arrays = dict[str, NDArray[np.generic]]


def batch_size(plan: SweepPlan) -> int:
    """Instances that are computed together."""
    size = plan.engine.batch
    if any(case.technique.packs for case in plan.cases):
        size = min(size, DENSE_BATCH)
    if any(case.technique.heeds_faults and not case.conditions.sums_suffice for case in plan.cases):
        size = min(size, most_instances(plan.spec.life.epochs))
    return size


def compute_batch(plan: SweepPlan, instances: NDArray[np.int64]) -> Arrays:
    """Results of a batch of instances.

    Parameters
    ----------
    plan : SweepPlan
        The sweep.
    instances : int64[instances]
        Their ids, in rising order.

    Returns
    -------
    dict of str to ndarray
        The arrays of the results file, with these instances only.
    """
    return _Batch(plan, instances).arrays()


@dataclass(frozen=True)
class _CaseResults:
    """What a batch yields under one case.

    Attributes
    ----------
    lives : Lives
        The lives, without what follows below.
    consumption : Consumption
        What they take.
    histogram : int64[2, bins]
        Sampled cells per threshold shift.
    time_fractions : float64[instances, points]
        Fraction of the time at each operating point; NaN beyond the points of the case.
    """

    lives: Lives
    consumption: Consumption
    histogram: NDArray[np.int64]
    time_fractions: NDArray[np.float64]


class _Batch:
    """Instances with all that is drawn for them, which is the same in every case."""

    def __init__(self, plan: SweepPlan, instances: NDArray[np.int64]) -> None:
        spec = plan.spec
        self._plan = plan
        self._instances = instances
        self._workload = kernels_of_periods(spec, instances)
        self._kernel_of_epoch = self._workload[:, list(spec.period_of_epoch)]
        self._sample = _sampled_cells(spec, instances)
        self._constants = plan.distributions.draw(spec.seed, instances, spec.life.epochs)
        self._tails: dict[tuple[str, float], TailCells] = {}

    def arrays(self) -> Arrays:
        plan = self._plan
        results = [
            self._live(case, meter) for case, meter in zip(plan.cases, plan.meters, strict=True)
        ]
        return _arrays(self._workload, self._constants, results)

    def _live(self, case: PlannedCase, meter: Meter) -> _CaseResults:
        plan, conditions = self._plan, case.conditions
        distributions = conditions.laws.shares
        fractions = (
            None if distributions is None else distributions.draw(plan.spec.seed, self._instances)
        )
        lives = live(
            conditions,
            plan.engine,
            meter.shared,
            self._kernel_of_epoch,
            self._tail(case),
            self._sample,
            replace(self._constants, shares=fractions),
        )
        worked = lives.life_seconds > 0
        no_more = np.empty(0)
        return _CaseResults(
            lives=replace(
                lives, sampled_dvth_volts=no_more, moment_seconds=no_more, moment_events=no_more
            ),
            consumption=meter.read(
                self._kernel_of_epoch, lives.moment_seconds, lives.moment_events, fractions
            ),
            histogram=dvth_histogram(1e3 * lives.sampled_dvth_volts[worked]),
            time_fractions=self._time_fractions(case, fractions),
        )

    def _tail(self, case: PlannedCase) -> TailCells:
        """Cells that matter to a case: drawn once for each scenario, by its lowest floor."""
        name, floor_volts = case.case.scenario, case.conditions.floor_volts
        lowest = name, self._plan.lowest_floor_volts[name]
        if lowest not in self._tails:
            self._tails[lowest] = case.faults.sample(
                self._plan.spec.seed, self._instances, lowest[1]
            )
        if (name, floor_volts) not in self._tails:
            self._tails[name, floor_volts] = _above(self._tails[lowest], floor_volts)
        return self._tails[name, floor_volts]

    def _time_fractions(
        self, case: PlannedCase, drawn: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        points = case.conditions.environment.points
        fractions = np.full((len(self._instances), self._plan.operating_points), np.nan)
        fractions[:, : len(points)] = (
            [point.share for point in points] if drawn is None else drawn.T
        )
        return fractions


def _sampled_cells(spec: SweepSpec, instances: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cells whose shifts stand for those of the slice: int64[instances, sample]."""
    return np.stack(
        [
            stream(spec.seed, "dvth.sample", int(instance)).choice(
                SLICE.cells, SAMPLED_CELLS, replace=False, shuffle=False
            )
            for instance in instances
        ]
    )


def _above(tail: TailCells, floor_volts: float) -> TailCells:
    return tail.at(np.flatnonzero(tail.vmin_volts > floor_volts), np.arange(tail.instances))


def _arrays(
    workload: NDArray[np.int64], constants: InstanceConstants, results: Sequence[_CaseResults]
) -> Arrays:
    """Arrays of the file out of the results of a batch, one for each case."""
    stacked = _stacked([result.lives for result in results])
    stacked |= _stacked([result.consumption for result in results])
    worked = stacked["life_seconds"] > 0

    def of_working(name: str) -> NDArray[np.float64]:
        """Values of the slices that worked at all: a slice dead on arrival has none."""
        values = stacked[name]
        return np.where(worked.reshape(worked.shape + (1,) * (values.ndim - 2)), values, np.nan)

    converted = {
        "workload": workload.astype(np.int16),
        **{name: np.broadcast_to(getattr(constants, name), len(workload)) for name in OF_SLICES},
        "temperature_swing_kelvin": np.broadcast_to(
            constants.temperature_swing_kelvin, stacked["epoch_faulty"].shape[1:]
        ),
        "operating_point_share": np.stack([result.time_fractions for result in results]),
        "life_years": stacked["life_seconds"] / SECONDS_PER_YEAR,
        "max_dvth_mv": 1e3 * of_working("max_dvth_volts"),
        "longest_duty": of_working("longest_duty"),
        "delay_increase": of_working("delay_increase"),
        "write_share": stacked["writes"],
        "spill_rate": stacked["writes"][..., 3],
        "faulty_entries_start": stacked["faulty_start"],
        "faulty_entries_end": stacked["faulty_end"],
        "wakeups_per_write": stacked["wakeups"],
        "movs_per_write": stacked["movs"],
        "mispredictions_per_write": stacked["mispredictions"],
        "energy_saving_nominal": 1
        - stacked["power_mw"] * (1 + stacked["slowdown"]) / stacked["conventional_power_mw"],
        "epoch_max_dvth_mv": 1e3 * stacked["epoch_max_dvth_volts"],
        "epoch_faulty_entries": stacked["epoch_faulty"],
        "epoch_peak_spilled_rows": stacked["epoch_peak_spilled"],
        "dvth_histogram": np.stack([result.histogram for result in results]),
    }
    # A record carries all other variables by their names in the file.
    carried = stacked | converted
    return {variable.name: carried[variable.name] for variable in VARIABLES}


def _stacked(records: Sequence[Lives] | Sequence[Consumption]) -> dict[str, NDArray[Any]]:
    """Arrays [case, ...] of each field of records of one type, a record for each case."""
    return {
        field.name: np.stack([getattr(record, field.name) for record in records])
        for field in fields(records[0])
    }


def dvth_histogram(dvth_mv: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cells in each bin of the file.

    Parameters
    ----------
    dvth_mv : float64[instances, sample, 2]
        Threshold shifts of sampled cells, by transistor, mV.

    Returns
    -------
    int64[2, bins]
        A shift on a border counts above it, and a shift beyond the last border in the last bin.
    """
    bins = len(DVTH_BIN_EDGES_MV) - 1  # each of one millivolt
    number = np.minimum(dvth_mv, bins - 1).astype(np.int64)
    return np.stack([np.bincount(number[..., place].ravel(), minlength=bins) for place in range(2)])
