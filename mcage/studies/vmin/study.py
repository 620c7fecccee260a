"""A study of Vmin: its variables, its measures, and the arrays of any instances."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.vmin import LARGER
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.lowest_vdd import Asked, vmin_at_ages
from mcage.lifetime.outcomes import Meter
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.results.axes import coordinates_of, points_of_cases
from mcage.results.header import DeclaredHeader, rule_of
from mcage.results.measures import UNKNOWN, Case, Measure
from mcage.results.variable import Coordinate, Variable
from mcage.results.writer import Arrays, joined
from mcage.spec.sections import costs_of
from mcage.stats.estimates import Estimate, Floats, mean_of_all
from mcage.stats.survival import life_quantile
from mcage.studies.common import StudyOfSpec
from mcage.studies.sweep.axes import CELL, GEOMETRY, KERNELS, SHARED, TEMPERATURE
from mcage.studies.sweep.batch import batch_by_work, batches
from mcage.studies.sweep.header import independent_slices
from mcage.studies.sweep.plan import PlannedCase, SweepPlan, check_fault_vdd, workloads_of
from mcage.studies.sweep.study import Halving
from mcage.studies.vmin.spec import VminSpec, VminTarget
from mcage.variation.fault_models import NewSlices
from mcage.variation.scenarios import CELL_8T
from mcage.variation.vmin_tail import lowest_floor, lowest_vdd

BELOW_SCENARIO_VOLTS, OF_WORDS_VOLTS = 0.045, 0.1
"""How far below the Vdd of its scenario a Vdd is tried by default, if any entry works there; and
where words have a code, which correct more faulty cells than entries bear without one, if the model
of Vmin speaks about them."""

ABOVE_SCENARIO_VOLTS, VDD_STEP_MV = 0.16, 10
"""How far above the Vdd of its scenario the energy of a slice is asked for, and from the lowest
that is tried in which steps: 99.9 % of the conventional slices work there after ten years."""


VARIABLES = (
    Variable(
        "vmin_volts",
        ("case", "instance", "age"),
        "float64",
        "V",
        "lowest Vdd at which the slice runs its kernels",
        "The lowest that is tried where that suffices.",
        missing="where no Vdd suffices, or the delay has used up its guardband by that age",
    ),
    Variable(
        "delay_life_years",
        ("case", "instance"),
        "float64",
        "year",
        "age at which the delay has used up its guardband",
        "The last age where it has not by then.",
    ),
    Variable(
        "energy_saving_nominal",
        ("case", "instance", "vdd"),
        "float64",
        "1",
        "energy saved over a conventional slice at the technology's nominal Vdd",
        "Over its life, as in a sweep, with the low Vdd of the environment at this Vdd.",
        missing="where the slice does not work until that age, or the energy is unknown",
    ),
)
"""Computed variables, in the order of the files."""

NAMES = tuple(variable.name for variable in VARIABLES)

LOWEST = Variable("lowest_volts", ("case",), "float64", "V", "lowest Vdd that is tried")
AGE = Variable("age", ("age",), "float64", "year", "age")
VDD = Variable("vdd", ("vdd",), "float64", "V", "Vdd of which the energy is asked")


# Measures of each case at each age, declared once.

SHARES = {"median": 0.5, "most": 0.99}
"""Shares of the slices that work at a Vdd, beside that of the target."""


@cache
def asked(spec_toml: str) -> VminTarget:
    """Section `vmin` of the spec of a results file."""
    return VminSpec.from_mapping(tomllib.loads(spec_toml)).vmin


def quantile(vmin_volts: Floats, share: float) -> Estimate:
    """Vdd at which a share of the slices works, by order statistics; Vmin NaN where none does.

    The value is NaN where so few slices cannot say: all of them are a smaller share than that of
    so many that one is left.
    """
    estimate = life_quantile(vmin_volts, np.isfinite(vmin_volts), share)
    known = len(vmin_volts) * (1 - share) > 1 - 1e-9
    return estimate if known else replace(estimate, value=math.nan)


def saved_at(vdd_volts: float, vmin_volts: Floats, vdds: Floats, saved: Floats) -> Estimate:
    """Mean saving of all slices at a Vdd, those that do not work there saving nothing.

    Parameters
    ----------
    vdd_volts : float
        The Vdd; between two of those below, the saving of each slice is interpolated.
    vmin_volts : float[n]
        Vmin of the slices.
    vdds : float[m]
        Voltages, rising, at which savings are known.
    saved : float[n, m]
        Fractions; NaN where a slice does not work.
    """
    above = int(np.searchsorted(vdds, vdd_volts))
    if not np.isfinite(vdd_volts) or above == len(vdds) or vdd_volts < vdds[0]:
        return UNKNOWN
    below, works = max(above - 1, 0), vmin_volts <= vdd_volts
    part = (vdd_volts - vdds[below]) / (vdds[above] - vdds[below]) if above else 0.0
    there = saved[:, above]
    nearer = np.where(np.isnan(saved[:, below]), there, saved[:, below])
    of_each = np.where(works, nearer + part * (there - nearer), 0.0)
    return mean_of_all(of_each)


def _vmin(case: Case) -> Floats:
    vmin: Floats = case["vmin_volts"]
    return vmin


def _needed(case: Case) -> Floats:
    """Vmin of slices that need more than the lowest Vdd that is tried, V."""
    return np.where(_vmin(case) > case["lowest_volts"], _vmin(case), np.nan)


def _of_target(case: Case) -> Estimate:
    return quantile(_vmin(case), asked(case.spec_toml).share)


def _energy_saved(case: Case) -> Estimate:
    """At the Vdd at which the share of the target works until its age."""
    target = asked(case.spec_toml)
    of_age = case.further(age=case["age"].tolist().index(target.target_years))
    return saved_at(
        _of_target(of_age).value, _vmin(of_age), case["vdd"], case["energy_saving_nominal"]
    )


VMIN = ("vmin_volts",)

MEASURES = (
    *(
        Measure(
            key,
            f"Vdd at which {100 * share:g} % of the slices work [V]",
            VMIN,
            _vmin,
            f"{100 * share:g} %",
            "bounds",
            estimator=lambda case, share=share: quantile(_vmin(case), share),  # type: ignore[misc]
            axis="age",
        )
        for key, share in SHARES.items()
    ),
    Measure(
        "of_target",
        "Vdd at which the share of the target works [V]",
        VMIN,
        _vmin,
        "target",
        "bounds",
        estimator=_of_target,
        axis="age",
    ),
    Measure(
        "drift_mv",
        "growth of the Vmin of a slice since the first age [mV]",
        ("vmin_volts", "lowest_volts"),
        lambda case: 1e3 * (_needed(case) - _needed(case.further(age=0))),
        "drift\n[mV]",
        axis="age",
        primary=True,
        better="less",
    ),
    Measure(
        "gain_mv",
        "how far Vmin lies below that of the same slice in the first case [mV]",
        ("vmin_volts", "lowest_volts"),
        lambda case: 1e3 * (_needed(case.at(case=0)) - _needed(case)),
        "gain\n[mV]",
        axis="age",
        primary=True,
        better="more",
    ),
    Measure(
        "energy_saved",
        "energy saved at the Vdd at which the share of the target works [%]",
        ("vmin_volts", "energy_saving_nominal", "vdd"),
        lambda case: case["energy_saving_nominal"],
        "energy\n[%]",
        estimator=_energy_saved,
        scale_in_csv=100.0,
        primary=True,
    ),
)
"""The measures of a study of Vmin: those of an age, and the energy that a Vdd saves."""


@dataclass(frozen=True, kw_only=True)
class VminHeader(DeclaredHeader):
    """A study of Vmin as its files know it."""

    command: ClassVar[str] = "mcage vmin --engine {engine}"
    axes: ClassVar = (*SHARED, TEMPERATURE, CELL, GEOMETRY, KERNELS)
    decided_by: ClassVar = VminSpec.decided_by
    spec: ClassVar[type] = VminSpec
    maker: ClassVar[str] = f"{__name__}:VminStudy"
    grid: ClassVar[tuple[str, ...]] = ("case",)
    measures: ClassVar[tuple[Measure, ...]] = MEASURES

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats that belong wherever the results are shown."""
        said = costs_of(self.spec_toml).user_defined
        return (*self.of_programs, *([f"energy rests on {said}"] if said else []))


class VminStudy(StudyOfSpec):
    """A study of Vmin before its first slice: everything that can be wrong is checked.

    Parameters
    ----------
    spec : VminSpec
        What to compute.
    engine : Engine
        What replays kernels.
    engine_reason : str
        Why that engine.

    Raises
    ------
    UserError
        A case makes no sense, or its faults are known at one Vdd only.
    """

    def __init__(self, spec: VminSpec, engine: Engine, engine_reason: str = "") -> None:
        self.spec: VminSpec = spec
        self.engine_reason, self._halving = engine_reason, Halving()
        spec.refuse_unused()
        if eta := spec.aging.nbti_spread_mv:
            raise UserError(
                f"vmin: aging.nbti_spread_mv = {eta:g}: whether the luck of transistors makes a "
                "cell fail is known at one Vdd only; leave it out, or ask a sweep at that Vdd"
            )
        if (cell := spec.faults.cell) == CELL_8T:
            raise UserError(
                f"vmin: faults.cell = {cell!r}: Vmin over life knows the larger shift of a 6T cell "
                "alone; leave it out, or ask a sweep at several Vdd"
            )
        if (rule := spec.aging.vmin_model) != LARGER:
            raise UserError(
                f"vmin: aging.vmin_model = {rule!r}: Vmin over life knows the larger shift of a "
                "cell alone; leave it out"
            )
        self.plan = SweepPlan(spec, engine)
        for case in self.plan.cases:
            if not case.faults.grows:
                raise UserError(
                    f"vmin: faults.mode = {case.faults.mode!r} knows faults at one Vdd only: "
                    "choose varius"
                )
            try:
                conditions = _at(self._lowest_volts(case), case.conditions)
                check_fault_vdd(spec, replace(case, conditions=conditions))
            except UserError as error:
                raise UserError(f"vmin.lowest_volts: {error}") from error
        for case in self.plan.cases:
            case.faults.sample(spec.seed, np.empty(0, np.int64), self._floor_volts(case))

    def _lowest_volts(self, case: PlannedCase) -> float:
        """Lowest Vdd that is tried in a case."""
        if (stated := self.spec.vmin.lowest_volts) is not None:
            return stated
        volts = case.case.scenario_vdd_volts
        if case.conditions.protection.code is not None:
            drawn = max(lowest_floor(of.scenario) for of in case.faults_of_rows or (case.faults,))
            lowest = math.ceil(1e3 * (drawn + _growth(case))) / 1e3
            return max(round(volts - OF_WORDS_VOLTS, 6), lowest)
        below = volts - BELOW_SCENARIO_VOLTS
        return max(below, lowest_vdd(case.faults.scenario) or below)

    def _floor_volts(self, case: PlannedCase) -> float:
        """Vmin of a new cell below which it is never faulty at any Vdd that is tried."""
        floors = (_at(volts, case.conditions).floor_volts for volts in self._vdd_volts)
        return min(self._lowest_volts(case) - _growth(case), *floors)

    @cached_property
    def _vdd_volts(self) -> tuple[float, ...]:
        """Voltages at which the energy of slices is asked for, the same in all cases."""
        lowest = min(self._lowest_volts(case) for case in self.plan.cases)
        highest = max(case.case.scenario_vdd_volts for case in self.plan.cases)
        first = math.ceil(round(1e3 * lowest / VDD_STEP_MV, 6))
        last = round(1e3 * (highest + ABOVE_SCENARIO_VOLTS) / VDD_STEP_MV)
        return tuple(VDD_STEP_MV * step / 1e3 for step in range(first, max(first, last) + 1))

    @cached_property
    def header(self) -> VminHeader:
        """Attributes of files that describe the study."""
        spec, plan = self.spec, self.plan
        points = points_of_cases(VminHeader.axes, plan.cases, plan.spec_values)
        return VminHeader(
            name="vmin",
            of_programs=plan.caveats_of_traces,
            computes=VARIABLES,
            labels=(
                *coordinates_of(VminHeader.axes, points),
                Coordinate(AGE, spec.vmin.ages),
                Coordinate(VDD, self._vdd_volts),
                Coordinate(LOWEST, [self._lowest_volts(case) for case in plan.cases]),
            ),
            stopping=rule_of(spec.stopping, VARIABLES, MEASURES, independent_slices(spec)),
            **self.campaign(plan.recorded_spec, plan.digest(), plan.engine),
        )

    @property
    def batch(self) -> int:
        """Slices that are computed together."""
        return batch_by_work(self.plan)

    @property
    def threads(self) -> int:
        """Threads that compute a batch each."""
        return self.plan.batch_threads

    def compute(self, first: int, last: int) -> Arrays:
        """Arrays of the slices ``first`` ... ``last`` - 1, as `VARIABLES` declare them."""
        self.plan.prepare()
        parts = self.plan.in_batch_threads(
            partial(self._halving.run, self._batch), batches(first, last, self.batch)
        )
        return joined(VARIABLES, chain.from_iterable(parts))

    def _batch(self, instances: NDArray[np.int64]) -> Mapping[str, NDArray[np.generic]]:
        plan, spec = self.plan, self.spec
        ages = spec.vmin.ages
        target = ages.index(spec.vmin.target_years)
        workload = workloads_of(spec, instances).epochs
        constants = plan.distributions.draw(spec.seed, instances, spec.life.epochs)
        asked = Asked(ages, target)
        vmin, delay_years, saved = [], [], []
        for case, meter in zip(plan.cases, plan.meters, strict=True):
            conditions, shares = case.conditions, case.conditions.distributions.time_fractions
            fractions = None if shares is None else shares.draw(spec.seed, instances)
            tail = case.sample(spec.seed, instances, constants.row, self._floor_volts(case))
            batch = SliceBatch(
                workload=workload,
                new=NewSlices.at(np.inf, tail, conditions.protection),
                sampled_cells=np.empty((len(instances), 0), dtype=np.int64),
                constants=replace(constants, time_fractions=fractions),
            )
            outcomes = vmin_at_ages(
                conditions,
                plan.engine,
                meter.fault_free,
                batch,
                asked,
                self._lowest_volts(case),
                spec.uses_scenario_vdd(case.case.environment),
            )
            years = outcomes.delay_seconds / SECONDS_PER_YEAR
            works = np.isfinite(outcomes.vmin_volts) & (years[:, None] > np.asarray(ages))
            vmin.append(np.where(works, outcomes.vmin_volts, np.nan))
            delay_years.append(np.minimum(years, ages[-1]))
            at_target = vmin[-1][:, target, None] <= np.asarray(self._vdd_volts)
            saving = [self._saving(volts, conditions, meter, batch) for volts in self._vdd_volts]
            saved.append(np.where(at_target, np.stack(saving, axis=1), np.nan))
        return dict(zip(NAMES, map(np.stack, (vmin, delay_years, saved)), strict=True))

    def _saving(
        self, vdd_volts: float, conditions: LifeConditions, meter: Meter, batch: SliceBatch
    ) -> NDArray[np.float64]:
        """Energy saved over the lives of n slices whose low Vdd that is: float64[n], fractions."""
        used = _at(vdd_volts, conditions)
        tail = batch.new.tail.above(used.floor_volts)
        slices = replace(batch, new=NewSlices.at(vdd_volts, tail, used.protection))
        lives = simulate_lifetimes(used, self.plan.engine, meter.fault_free, slices)
        assert batch.constants is not None
        fractions = batch.constants.time_fractions
        return _at(vdd_volts, meter).read(lives.moments, fractions).energy_saving_nominal


def _growth(case: PlannedCase) -> float:
    """Largest growth of the Vmin of a cell over a life, in volts."""
    return case.conditions.environment.lowest_vdd_volts - case.conditions.floor_volts


Used = TypeVar("Used", LifeConditions, Meter)


def _at(vdd_volts: float, used: Used) -> Used:
    """Conditions of lives, or what adds up their energy, with another Vdd in place of the low."""
    return replace(used, environment=used.environment.with_lowest_at(vdd_volts))
