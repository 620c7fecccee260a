"""What a study of Vmin computes: its spec, its variables, and the arrays of any instances."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.aging.vmin import LARGER
from mcage.campaign.study import Study
from mcage.concurrency import usable_cores
from mcage.engines.interface import Engine
from mcage.engines.select import device_of, select_engine
from mcage.errors import UserError
from mcage.lifetime.lowest_vdd import vmin_at_ages
from mcage.lifetime.simulator import SliceBatch
from mcage.results.header import SCHEMA_VERSION, DeclaredHeader, Header, mean_rule
from mcage.results.variable import Coordinate, Variable
from mcage.results.writer import Arrays
from mcage.spec import SweepSpec
from mcage.spec.keys import Option
from mcage.spec.sections import Name, Section
from mcage.sweep.batch import batch_by_work, batches
from mcage.sweep.plan import PlannedCase, SweepPlan, workloads_of
from mcage.sweep.study import Halving, plug_ins
from mcage.variation.fault_models import NewSlices
from mcage.variation.vmin_tail import check_vdd, lowest_vdd
from mcage.version import running_code

BELOW_SCENARIO_VOLTS = 0.045
"""How far below the Vdd of its scenario a Vdd is tried by default, if any entry works there."""


class VminTarget(Section):
    """At which ages Vmin is looked for, and what the Vdd of a product is to be good for."""

    panel: ClassVar = "Vmin"

    ages_years: Annotated[
        tuple[Annotated[float, Field(ge=0, le=100)], ...],
        Field(min_length=1, max_length=100),
        Option("--age YEARS"),
    ] = (0.0, 1.0, 3.0, 5.0, 10.0)
    """Ages in years, rising, at which Vmin is looked for; 0: new."""
    share: Annotated[float, Field(gt=0, lt=1), Option("--share FRACTION")] = 0.999
    """Share of the slices that are to work at the last age."""
    lowest_volts: Annotated[
        Annotated[float, Field(gt=0, le=2)] | None,
        Option("--lowest VOLTS", default="45 mV below that of the scenario"),
    ] = None
    """Lowest Vdd in V that is tried."""

    @model_validator(mode="after")
    def _rise(self) -> Self:
        if any(later <= earlier for earlier, later in pairwise(self.ages_years)):
            raise ValueError(f"ages_years = {list(self.ages_years)!r} must rise")
        return self


class VminSpec(SweepSpec):
    """Everything that decides the results of a study of Vmin: the keys of a sweep, and the ages."""

    command: ClassVar[str] = "vmin"

    instances: Annotated[int, Field(ge=1, le=10**9), Option("--instances N")] = 1000
    """Number of sampled slices."""
    environments: Annotated[
        tuple[Name, ...], Field(min_length=1), Option("--environment NAME", is_axis=True)
    ] = ("dvfs",)
    """Operating points at which slices age: turbo, undervolted, dvfs, or a name that SPEC
    defines."""
    vdd_volts: tuple[float, ...] = ()
    low_vdd: Literal["printed"] = "printed"
    vmin: VminTarget = VminTarget()

    @field_validator("vdd_volts")
    @classmethod
    def _looked_for(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if given:
            raise ValueError("the low Vdd of each slice is what is looked for; leave it out")
        return given

    @model_validator(mode="after")
    def _within_the_horizon(self) -> Self:
        last, horizon = self.vmin.ages_years[-1], self.life.horizon_years
        if last > horizon:
            raise ValueError(
                f"vmin.ages_years = {list(self.vmin.ages_years)!r} must lie within "
                f"life.horizon_years = {horizon:g}"
            )
        return self


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
)
"""What is computed, in the order of the files."""

CASE = Variable("case", ("case",), "text", "1", "technique, environment and scenario")
TECHNIQUE = Variable("technique", ("case",), "text", "1", "technique")
SCENARIO = Variable("scenario", ("case",), "text", "1", "scenario")
ENVIRONMENT = Variable("environment", ("case",), "text", "1", "environment")
LOWEST = Variable("lowest_volts", ("case",), "float64", "V", "lowest Vdd that is tried")
AGE = Variable("age", ("age",), "float64", "year", "age")


@dataclass(frozen=True, kw_only=True)
class VminHeader(DeclaredHeader):
    """A study of Vmin as its files know it."""

    command: ClassVar[str] = "mcage vmin --engine {engine}"
    spec: ClassVar[type] = VminSpec
    maker: ClassVar[str] = f"{__name__}:study_of_spec"


class VminStudy:
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
        self.spec, self._reason, self._halving = spec, engine_reason, Halving()
        spec.refuse_unused()
        if eta := spec.aging.nbti_spread_mv:
            raise UserError(
                f"vmin: aging.nbti_spread_mv = {eta:g}: whether the luck of transistors makes a "
                "cell fail is known at one Vdd only; leave it out, or ask a sweep at that Vdd"
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
                check_vdd(case.faults.scenario, self._lowest_volts(case))
            except UserError as error:
                raise UserError(f"vmin.lowest_volts: {error}") from error
            case.faults.sample(spec.seed, np.empty(0, np.int64), self._floor_volts(case))

    def _lowest_volts(self, case: PlannedCase) -> float:
        """Lowest Vdd that is tried in a case."""
        if (given := self.spec.vmin.lowest_volts) is not None:
            return given
        below = case.case.scenario_vdd_volts - BELOW_SCENARIO_VOLTS
        return max(below, lowest_vdd(case.faults.scenario) or below)

    def _floor_volts(self, case: PlannedCase) -> float:
        """Vmin of a new cell below which it is never faulty at any Vdd that is tried."""
        conditions = case.conditions
        growth = conditions.environment.lowest_vdd_volts - conditions.floor_volts
        return self._lowest_volts(case) - growth

    @cached_property
    def header(self) -> VminHeader:
        """What files say about the study."""
        spec, plan = self.spec, self.plan
        names = [case.name for case in plan.cases]
        labels = [f"{name.technique} {name.environment} {name.scenario}" for name in names]
        return VminHeader(
            name="vmin",
            computes=VARIABLES,
            labels=(
                Coordinate(CASE, labels),
                Coordinate(AGE, spec.vmin.ages_years),
                Coordinate(TECHNIQUE, [name.technique for name in names]),
                Coordinate(ENVIRONMENT, [name.environment for name in names]),
                Coordinate(SCENARIO, [name.scenario for name in names]),
                Coordinate(LOWEST, [self._lowest_volts(case) for case in plan.cases]),
            ),
            spec_toml=spec.to_toml(),
            spec_digest=spec.digest(
                str(SCHEMA_VERSION),
                *(trace.digest() for trace in plan.traces),
                *(repr(case.technique) for case in plan.cases),
                repr(plan.nbti),
                *plan.reprs_of_cells,
            ),
            seed=spec.seed,
            instances=spec.instances,
            engine=plan.engine.name,
            engine_reason=self._reason,
            device=device_of(plan.engine),
            stopping=mean_rule(spec.stopping, VARIABLES),
            codes=(running_code(plug_ins(spec)),),
        )

    @property
    def study(self) -> Study:
        """The study as campaigns know it."""
        maker = f"{__name__}:{study_of_header.__name__}"
        size = batch_by_work(self.plan)
        return Study(self.header, self.compute, maker, size, self.plan.batch_threads)

    def compute(self, first: int, last: int) -> Arrays:
        """Arrays of the slices ``first`` ... ``last`` - 1, as `VARIABLES` declare them."""
        self.plan.prepare()
        parts = self.plan.in_batch_threads(
            partial(self._halving.run, self._batch),
            batches(first, last, batch_by_work(self.plan)),
        )
        batches_done = list(chain.from_iterable(parts))
        return {
            variable.name: np.concatenate([batch[variable.name] for batch in batches_done], axis=1)
            for variable in VARIABLES
        }

    def _batch(self, instances: NDArray[np.int64]) -> Mapping[str, NDArray[np.generic]]:
        plan, spec, ages = self.plan, self.spec, self.spec.vmin.ages_years
        workload = workloads_of(spec, instances).epochs
        constants = plan.distributions.draw(spec.seed, instances, spec.life.epochs)
        vmin, delay_years = [], []
        for case, meter in zip(plan.cases, plan.meters, strict=True):
            conditions, shares = case.conditions, case.conditions.distributions.time_fractions
            fractions = None if shares is None else shares.draw(spec.seed, instances)
            tail = case.sample(spec.seed, instances, constants.row, self._floor_volts(case))
            batch = SliceBatch(
                workload=workload,
                new=NewSlices.at(np.inf, tail, conditions.spread_blocks),
                sampled_cells=np.empty((len(instances), 0), dtype=np.int64),
                constants=replace(constants, time_fractions=fractions),
            )
            outcomes = vmin_at_ages(
                conditions,
                plan.engine,
                meter.fault_free,
                batch,
                ages,
                self._lowest_volts(case),
                spec.uses_scenario_vdd(case.case.environment),
            )
            years = outcomes.delay_seconds / SECONDS_PER_YEAR
            works = np.isfinite(outcomes.vmin_volts) & (years[:, None] > np.asarray(ages))
            vmin.append(np.where(works, outcomes.vmin_volts, np.nan))
            delay_years.append(np.minimum(years, ages[-1]))
        return {"vmin_volts": np.stack(vmin), "delay_life_years": np.stack(delay_years)}


def study_of_spec(spec: VminSpec, engine: str) -> Study:
    """The study of a spec, on an engine by its name."""
    return VminStudy(spec, *select_engine(engine, threads=usable_cores())).study


def study_of_header(header: Header) -> Study:
    """The study of a header, as another process makes it."""
    spec: Any = VminSpec.from_mapping(tomllib.loads(header.spec_toml))
    engine, _ = select_engine(header.engine, threads=usable_cores())
    return VminStudy(spec, engine, header.engine_reason).study
