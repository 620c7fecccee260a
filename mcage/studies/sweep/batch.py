"""A batch of instances: their draws, their lives in every case, and the arrays of the file."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.sampling import OF_SLICES
from mcage.engines.programs import PROGRAM_BATCH
from mcage.geometry import Floats, Integers
from mcage.lifetime import DVTH_BIN_EDGES_MV
from mcage.lifetime.degradation import most_instances
from mcage.lifetime.faults import BatchLuck, CellLimits, SliceLuck, luck_and_limits
from mcage.lifetime.outcomes import Consumption, LifeOutcomes
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.protection.policy import Protection
from mcage.random import stream_key
from mcage.spec import SweepSpec
from mcage.studies.sweep.header import DRAW, NEW_FAULTS, VARIABLES
from mcage.studies.sweep.plan import PlannedCase, SweepPlan, workloads_of
from mcage.studies.sweep.soft_errors import over_life
from mcage.variation.fault_models import NewSlices
from mcage.variation.vmin_tail import TailCells

SAMPLED_CELLS = 128
"""Cells of each instance whose shifts make up the dVth histogram; docs/results-format.md says what
error that brings."""

DENSE_BATCH = 48
"""Instances in a batch where some technique keeps two sums for each of their cells: 8 MB each."""

Arrays = dict[str, NDArray[np.generic]]


FEWEST_IN_BATCH = 16
"""A smaller batch would take a tenth more processor time for each of its instances."""


def batch_size(plan: SweepPlan) -> int:
    """Instances that are computed together at most."""
    size = plan.engine.batch
    if any(case.technique.packs for case in plan.cases):
        size = min(size, DENSE_BATCH)
    if any(case.technique.program for case in plan.cases):
        size = min(size, PROGRAM_BATCH)
    if any(case.technique.heeds_faults and not case.conditions.sums_suffice for case in plan.cases):
        size = min(size, most_instances(plan.spec.life.epochs, plan.geometry.cells))
    return size


def batch_by_work(plan: SweepPlan) -> int:
    """Instances that are computed together in a sweep: all threads have as many batches."""
    instances, threads = plan.spec.instances, plan.batch_threads
    share = share_of_work(instances, threads * plan.engine.batches_of_thread)
    size = min(batch_size(plan), share)
    rounds = -(-instances // (size * threads))
    return min(size, share_of_work(instances, rounds * threads))


def share_of_work(instances: int, batches: int) -> int:
    """Instances of a batch, of which there are so many at least."""
    return max(FEWEST_IN_BATCH, -(-instances // batches))


def batches(first: int, last: int, size: int) -> list[Integers]:
    """Instances ``first`` ... ``last`` - 1 in batches of ``size`` at most, all of them alike."""
    return np.array_split(np.arange(first, last), -(-(last - first) // size))


def compute_batch(plan: SweepPlan, instances: Integers) -> Arrays:
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


def slices_of_case(
    plan: SweepPlan, case: PlannedCase, instances: Integers
) -> tuple[SliceBatch, TailCells, SliceLuck]:
    """Slices of a case before their lives, all of their cells that matter, and their luck.

    Parameters
    ----------
    plan : SweepPlan
        The sweep.
    case : PlannedCase
        One of its cases.
    instances : int64[I]
        Their ids, in rising order.
    """
    batch = _Batch(plan, instances)
    return batch.slices(case)[0], batch.tail(case), batch.luck


@dataclass(frozen=True)
class CaseResults:
    """Results of a batch in a case.

    Attributes
    ----------
    outcomes : LifeOutcomes
        Results of the instances.
    soft_fit : float64[3, instances, epochs]
        Soft errors that are corrected, detected and silent, in FIT; NaN after death.
    consumption : Consumption
        Slowdown and power over their lives.
    time_fractions : float64[instances, points]
        Fraction of the time at each operating point; NaN beyond the points of the case.
    """

    outcomes: LifeOutcomes
    soft_fit: Floats
    consumption: Consumption
    time_fractions: Floats

    def fields(self) -> dict[str, NDArray[Any]]:
        """Fields of all records by name."""
        parts = (getattr(self.outcomes, field.name) for field in fields(self.outcomes))
        return {
            field.name: getattr(record, field.name)
            for record in (*parts, self.consumption)
            for field in fields(record)
        }

    def of_working(self, values: Floats, factor: float = 1) -> Floats:
        """Values of slices that worked at all, times a factor; NaN of those dead on arrival."""
        scaled = factor * values
        scaled[~(self.outcomes.end.seconds > 0)] = np.nan
        return scaled

    @cached_property
    def fit_of_lives(self) -> Floats:
        """Detected and silent soft errors over each life, in FIT: float64[2, instances]."""
        return over_life(self.soft_fit[1:], self.outcomes)

    def histogram(self) -> Integers:
        """Sampled cells of the slices that worked at all, per threshold shift: int64[2, bins]."""
        return self.outcomes.degradation.sampled.histogram(len(DVTH_BIN_EDGES_MV) - 1)


OF_CASES: dict[str, Callable[[CaseResults], NDArray[Any]]] = {
    "operating_point_share": lambda case: case.time_fractions,
    "life_years": lambda case: case.outcomes.end.seconds / SECONDS_PER_YEAR,
    "end_cause": lambda case: case.outcomes.end.cause,
    "max_dvth_mv": lambda case: case.of_working(case.outcomes.degradation.max_dvth_volts, 1e3),
    "longest_duty": lambda case: case.of_working(case.outcomes.degradation.longest_duty),
    "delay_increase": lambda case: case.of_working(case.outcomes.degradation.delay_increase),
    "epoch_max_dvth_mv": lambda case: 1e3 * case.outcomes.degradation.epoch_max_dvth_volts,
    "dvth_histogram": lambda case: case.histogram(),
    "write_share": lambda case: case.outcomes.writes.fractions,
    "spill_rate": lambda case: case.outcomes.writes.fractions[..., 3],
    "memory_rate": lambda case: case.outcomes.writes.memory,
    "wakeups_per_write": lambda case: case.outcomes.writes.wakeups,
    "movs_per_write": lambda case: case.outcomes.writes.movs,
    "mispredictions_per_write": lambda case: case.outcomes.writes.mispredictions,
    "peak_spilled_rows": lambda case: case.outcomes.spills.peak_rows,
    "epoch_peak_spilled_rows": lambda case: case.outcomes.spills.epoch_peak_rows,
    "faulty_entries_start": lambda case: case.outcomes.faulty_entries.at_start,
    "faulty_entries_end": lambda case: case.outcomes.faulty_entries.at_end,
    "epoch_corrected_fit": lambda case: case.soft_fit[0],
    "epoch_due_fit": lambda case: case.soft_fit[1],
    "epoch_sdc_fit": lambda case: case.soft_fit[2],
    "due_fit": lambda case: case.fit_of_lives[0],
    "sdc_fit": lambda case: case.fit_of_lives[1],
    "new_faults": lambda case: case.outcomes.faulty_entries.new_by_margin,
    "epoch_faulty_entries": lambda case: case.outcomes.faulty_entries.epoch,
    "energy_saving_nominal": lambda case: case.consumption.energy_saving_nominal,
}
"""Variables of the file whose field in a record has another name or unit, or no field.

All other variables with a dimension for cases are fields of the same name in a record.
"""


class _Batch:
    """Instances with all that is drawn for them, which is the same in every case."""

    def __init__(self, plan: SweepPlan, instances: Integers) -> None:
        spec = plan.spec
        self._plan = plan
        self._instances = instances
        self._workload = workloads_of(spec, instances)
        self._sample = _sampled_cells(spec, instances, plan.geometry.cells)
        self._constants = plan.distributions.draw(spec.seed, instances, spec.life.epochs)
        self.luck = SliceLuck(spec.seed, instances, plan.geometry.cells)
        self._tails: dict[tuple[str, Protection, float], TailCells] = {}
        self._new: dict[
            tuple[str, Protection, float, float],
            tuple[NewSlices, BatchLuck | None, CellLimits | None],
        ] = {}

    def arrays(self) -> Arrays:
        count = len(self._plan.cases)
        of_cases: Arrays = {}
        for number in range(count):
            of_case = self._arrays_of_case(number)
            if not of_cases:
                shapes = {name: (count, *array.shape) for name, array in of_case.items()}
                of_cases = {name: np.empty(shapes[name], of_case[name].dtype) for name in shapes}
            for name, array in of_case.items():
                np.copyto(of_cases[name][number], array)
        return self._arrays_of_instances() | of_cases

    def _arrays_of_instances(self) -> Arrays:
        """Data that all cases share."""
        count, constants = len(self._instances), self._constants
        row = {} if constants.row is None else {DRAW.name: constants.row.astype(np.int32)}
        return row | {
            **self._workload.arrays(self._plan.mix_size > 0),
            **{name: np.broadcast_to(getattr(constants, name), count) for name in OF_SLICES},
            "temperature_swing_kelvin": np.broadcast_to(
                constants.temperature_swing_kelvin, (count, self._plan.spec.life.epochs)
            ),
        }

    def _arrays_of_case(self, number: int) -> Arrays:
        results = self._live(number)
        carried = results.fields()
        return {
            name: OF_CASES[name](results) if name in OF_CASES else carried[name]
            for name in self._names_of_cases
        }

    @cached_property
    def _names_of_cases(self) -> list[str]:
        """Variables with a dimension for cases."""
        declared = (*VARIABLES, *((NEW_FAULTS,) if self._plan.margin_kinds else ()))
        return [variable.name for variable in declared if "case" in variable.dims]

    def _live(self, number: int) -> CaseResults:
        """Let the instances live in the case with a number."""
        case, meter = self._plan.cases[number], self._plan.meters[number]
        plan, (batch, fractions) = self._plan, self.slices(case)
        outcomes = simulate_lifetimes(case.conditions, plan.engine, meter.fault_free, batch)
        return CaseResults(
            outcomes=outcomes,
            soft_fit=plan.soft_error_meters[number].read(
                outcomes, outcomes.moments.turns, self._constants.activity, fractions
            ),
            consumption=meter.read(outcomes.moments, fractions),
            time_fractions=self._time_fractions(case, fractions),
        )

    def slices(self, case: PlannedCase) -> tuple[SliceBatch, Floats | None]:
        """The slices of a case, and their fractions of time where these are drawn."""
        distributions = case.conditions.distributions.time_fractions
        seed = self._plan.spec.seed
        fractions = None if distributions is None else distributions.draw(seed, self._instances)
        new, luck, limits = self._new_slices(case)
        batch = SliceBatch(
            workload=self._workload.epochs,
            new=new,
            sampled_cells=self._sample,
            constants=replace(self._constants, time_fractions=fractions),
            luck=luck,
            limits=limits,
        )
        return batch, fractions

    def _new_slices(
        self, case: PlannedCase
    ) -> tuple[NewSlices, BatchLuck | None, CellLimits | None]:
        """The slices as manufactured, the luck of their transistors and the limits of their cells.

        All are the same under all techniques.
        """
        conditions = case.conditions
        vdd_volts, protection = conditions.environment.lowest_vdd_volts, conditions.protection
        key = case.case.scenario, protection, conditions.floor_volts, vdd_volts
        if key not in self._new:
            new = NewSlices.at(vdd_volts, self.tail(case), protection)
            drawn = self.luck, conditions, self._constants
            self._new[key] = luck_and_limits(*drawn, new, self._sample)
        return self._new[key]

    def tail(self, case: PlannedCase) -> TailCells:
        """Cells that matter to a case: drawn once for each scenario, by its lowest floor."""
        name, floor_volts = case.case.scenario, case.conditions.floor_volts
        cells = name, case.conditions.protection.of_cells
        lowest = *cells, self._plan.lowest_floor_volts[name]
        if lowest not in self._tails:
            self._tails[lowest] = case.sample(
                self._plan.spec.seed, self._instances, self._constants.row, lowest[-1]
            )
        if (*cells, floor_volts) not in self._tails:
            self._tails[*cells, floor_volts] = self._tails[lowest].above(floor_volts)
        return self._tails[*cells, floor_volts]

    def _time_fractions(self, case: PlannedCase, drawn: Floats | None) -> Floats:
        points = case.conditions.environment.points
        fractions = np.full((len(self._instances), self._plan.operating_points), np.nan)
        fractions[:, : len(points)] = (
            [point.time_fraction for point in points] if drawn is None else drawn.T
        )
        return fractions


def _sampled_cells(spec: SweepSpec, instances: Integers, cells: int) -> Integers:
    """Cells whose shifts stand for all cells of the slice: int64[instances, sample]."""
    from mcage.philox import distinct_below

    return distinct_below(cells, stream_key(spec.seed, "dvth.sample"), instances, SAMPLED_CELLS)
