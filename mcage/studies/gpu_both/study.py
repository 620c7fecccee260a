"""A study of both levels: from its spec to the arrays of any range of GPUs."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.aging.vmin import LARGER
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.results.header import SCHEMA_VERSION, rule_of
from mcage.results.measures import Case, Measure
from mcage.results.variable import Coordinate, Variable, flags_of
from mcage.results.writer import Arrays, joined, stacked
from mcage.stats.estimates import Estimate, Floats, mean
from mcage.studies.common import StudyOfSpec
from mcage.studies.gpu_both.register_files import (
    BothEnd,
    Clock,
    GpuFates,
    RegisterFiles,
    SmLevel,
    combined,
)
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_gating.life import SECONDS_PER_DAY, GatedLives, Population
from mcage.studies.gpu_gating.study import AGE, POLICY, Gating, GatingHeader
from mcage.studies.gpu_gating.workload import row_sum
from mcage.studies.sweep.plan import PROGRAM, SweepPlan
from mcage.studies.sweep.study import Halving, Say
from mcage.variation.scenarios import CELL_8T

# Variables of the results files of a study of both levels.

_SMS = ("policy", "instance")
_BOTH = ("policy", "technique", "instance")
_FAILED = "more SMs have failed for faulty cells than may be given up"

VARIABLES = (
    Variable(
        "mean_share",
        _SMS,
        "float64",
        "1",
        "share of the time for which an SM is on, mean over the SMs",
    ),
    Variable(
        "largest_share",
        _SMS,
        "float64",
        "1",
        "share of the time for which an SM is on, largest of the SMs",
    ),
    Variable(
        "logic_margin",
        (*_SMS, "age"),
        "float64",
        "1",
        "delay margin that the logic needs",
        "Delay of the slowest SM that is not retired over that of the slowest new SM, less 1; "
        "logic is under stress for as long as its SM is on.",
    ),
    Variable("logic_dvth_mv", (*_SMS, "age"), "float64", "mV", "largest shift of the logic of SMs"),
    Variable(
        "logic_life_years",
        _SMS,
        "float64",
        "year",
        "age at which the logic of more SMs is too slow than may be given up",
        "The horizon where there is none.",
    ),
    Variable(
        "cell_margin",
        (*_BOTH, "age"),
        "float64",
        "1",
        "delay margin that the cells need",
        "Delay of the slowest cell of the register files over that of the slowest new cell of the "
        "GPU, less 1; of the slices that live.",
        missing=f"{_FAILED}, or a shift leaves a cell no overdrive",
    ),
    Variable(
        "max_dvth_mv",
        (*_BOTH, "age"),
        "float64",
        "mV",
        "largest shift of a cell of the register files",
        "Of the slices that live.",
        missing=_FAILED,
    ),
    Variable(
        "longest_duty",
        _BOTH,
        "float64",
        "1",
        "longest duty cycle of a cell",
        "Over the life, the time for which its SM is gated included.",
    ),
    Variable(
        "cell_life_years",
        _BOTH,
        "float64",
        "year",
        "age at which more SMs have cells that are too slow than may be given up",
        "The horizon where there is none.",
    ),
    Variable(
        "fault_life_years",
        _BOTH,
        "float64",
        "year",
        "age at which more SMs have register files that fail for faults than may be given up",
        "The horizon where there is none.",
    ),
    Variable(
        "life_years",
        _BOTH,
        "float64",
        "year",
        "life",
        "Age at which more SMs are dead, for any cause, than may be given up; the horizon where "
        "end_cause is censored.",
    ),
    Variable(
        "end_cause",
        _BOTH,
        "int8",
        "1",
        "cause of the end of life",
        "Of the SM that could not be given up any more.",
        flags=flags_of(BothEnd),
    ),
)
"""Computed variables, in the order of the files."""

TECHNIQUE = Variable("technique", ("technique",), "text", "1", "technique of the register files")


# Measures of the cases of a study, declared once.

OF_LASTING = (
    "of the GPUs whose register files last, which have not failed for faults by the horizon"
)


def _shift(case: Case) -> Floats:
    """Largest shift of a cell of each GPU at the horizon; NaN where its register files fail."""
    shift: Floats = case["max_dvth_mv"][..., -1]
    return shift


def _left(case: Case) -> Floats:
    """Shift over the one with the first policy and the first technique."""
    left: Floats = _shift(case) / _shift(case.at(policy=0, technique=0))
    return left


def _saved(case: Case) -> Estimate | None:
    """Savings against these, on the GPUs that last with both."""
    is_first = not case.place["policy"] and not case.place["technique"]
    return None if is_first else mean(1 - _left(case))


def _saved_if_independent(case: Case) -> Estimate | None:
    """Savings if those of both levels were independent."""
    if not case.place["policy"] or not case.place["technique"]:
        return None
    return mean(1 - _left(case.at(technique=0)) * _left(case.at(policy=0)))


def _age(name: str) -> Callable[[Case], Floats]:
    """Age of each GPU by which something happens; infinite where it does not by the horizon."""
    return lambda case: np.where(case[name] < case.horizon_years, case[name], np.inf)


def _median(key: str, name: str, what: str, heading: str, also: str) -> Measure:
    return Measure(
        key,
        f"age at which half of the GPUs {what} [years]",
        (name,),
        _age(name),
        heading,
        "age",
        quantile=0.5,
        also=also,
        note="lives: medians, years",
    )


MEASURES = (
    Measure(
        "mean_share",
        "share of the time for which an SM is on [%]",
        heading="SM is on\n[%]",
        form="short",
        also="share",
    ),
    Measure(
        "lasting",
        "GPUs whose register files last",
        ("max_dvth_mv",),
        lambda case: np.isfinite(_shift(case)),
        "files last\n[GPUs]",
        kind="count",
        primary=True,
    ),
    Measure(
        "max_dvth_mv",
        "largest shift of a cell at the horizon [mV]",
        ("max_dvth_mv",),
        _shift,
        "max. dVth\n[mV]",
        primary=True,
        better="less",
    ),
    Measure(
        "saved",
        "less shift of a cell than with the first policy and technique [%]",
        ("max_dvth_mv",),
        lambda case: 1 - _left(case),
        "saved\n[%]",
        estimator=_saved,
        primary=True,
        note="saved: of the largest shift of a cell, against the first policy with the first "
        "technique",
    ),
    Measure(
        "saved_if_independent",
        "less shift of a cell if both levels were independent [%]",
        ("max_dvth_mv",),
        lambda case: 1 - _left(case.at(technique=0)) * _left(case.at(policy=0)),
        "if independent\n[%]",
        estimator=_saved_if_independent,
        also="independent",
    ),
    Measure(
        "cell_margin",
        "delay margin that cells need at the horizon [%]",
        ("cell_margin",),
        lambda case: case["cell_margin"][:, -1],
        "margin of\ncells [%]",
        better="less",
    ),
    Measure(
        "logic_margin",
        "delay margin that logic needs at the horizon [%]",
        ("logic_margin",),
        lambda case: case["logic_margin"][:, -1],
        "margin of\nlogic [%]",
        better="less",
    ),
    _median(
        "median_cell_life_years",
        "cell_life_years",
        "have cells that are too slow",
        "life: cells'\ndelay [years]",
        "cell_life",
    ),
    _median(
        "median_fault_life_years",
        "fault_life_years",
        "fail for faulty cells",
        "faults\n[years]",
        "fault_life",
    ),
    _median(
        "median_logic_life_years",
        "logic_life_years",
        "have logic that is too slow",
        "logic\n[years]",
        "logic_life",
    ),
    Measure(
        "median_life_years",
        "age at which half of the GPUs are dead [years]",
        ("life_years", "end_cause"),
        lambda case: case["life_years"],
        "life: GPU\n[years]",
        "age",
        quantile=0.5,
        primary=True,
        also="median_life",
    ),
)
"""The measures of a study of both levels, in the order of its table."""


BATCH_GPUS = 1024
"""GPUs whose SMs are simulated together."""

FEWEST_GPUS = 32
"""GPUs of a shard at least."""

LEAST_ACTIVITY = 0.001
"""Least share of the time that a sweep accepts; shares below it are computed all the same."""

SIGMAS = 7.0
"""Standard deviations within which all thresholds are taken to lie: one of 4e11 does not."""

KELVIN_ROUNDING = 1e-6
"""Added to the range of temperatures."""


@dataclass(frozen=True, kw_only=True)
class BothHeader(GatingHeader):
    """A study of both levels as its files know it."""

    command: ClassVar[str] = "mcage gpu both --engine {engine}"
    spec: ClassVar[type] = BothSpec
    maker: ClassVar[str] = f"{__name__}:Both"
    grid: ClassVar[tuple[str, ...]] = ("policy", "technique")
    measures: ClassVar[tuple[Measure, ...]] = MEASURES
    decided_by: ClassVar = BothSpec.decided_by

    @property
    def _gating(self) -> dict[str, Any]:
        fields: dict[str, Any] = tomllib.loads(self.spec_toml)["gating"]
        return fields


class Both(StudyOfSpec):
    """A study of both levels before its first GPU: everything that can be wrong is checked.

    Parameters
    ----------
    spec : BothSpec
        What to compute.
    engine : Engine
        What replays kernels.
    engine_reason : str
        Why that engine.
    say : callable, optional
        Receives messages about batches that shrink because memory runs out.

    Raises
    ------
    UserError
        A level makes no sense.
    """

    batch = FEWEST_GPUS

    def __init__(
        self, spec: BothSpec, engine: Engine, engine_reason: str = "", say: Say | None = None
    ) -> None:
        self.spec: BothSpec = spec
        self.engine_reason = engine_reason
        self._halving = Halving(say)
        try:
            spec.sweep.refuse_unused()
        except UserError as error:
            raise UserError(f"sweep: {error}") from error
        if eta := spec.sweep.aging.nbti_spread_mv:
            raise UserError(
                f"sweep.aging.nbti_spread_mv = {eta:g}: margins of whole GPUs are those of mean "
                "shifts; leave it out"
            )
        if (cell := spec.sweep.faults.cell) == CELL_8T:
            raise UserError(
                f"sweep.faults.cell = {cell!r}: lives of whole GPUs know the larger shift of a 6T "
                "cell alone; leave it out"
            )
        if (rule := spec.sweep.aging.vmin_model) != LARGER:
            raise UserError(
                f"sweep.aging.vmin_model = {rule!r}: lives of whole GPUs know the larger shift of "
                "a cell alone; leave it out"
            )
        horizon = {"horizon_years": spec.gating.life.horizon_years}
        life = spec.sweep.life.model_copy(update=horizon)
        self.ages_years = spec.sweep.model_copy(update={"life": life}).epoch_edges_years[1:]
        self.gating = Gating(spec.gating_of(self.ages_years))
        self.sms = self.gating.gpu.sms
        self.register_files = RegisterFiles(self._planned(engine), self.sms, spec.slices_per_sm)

    def _planned(self, engine: Engine) -> SweepPlan:
        try:
            return SweepPlan(self.spec.sweep_of(self.sms, self._ranges()), engine)
        except UserError as error:
            if str(error).startswith(PROGRAM):
                message = str(error).replace("--set ", "--set sweep.")
                raise UserError(f"sweep.{message}") from error
            if not str(error).startswith("aging.vt0_volts"):
                raise
            raise UserError(
                f"cell_vt0 = {self.spec.cell_vt0!r}: cells have the thresholds that "
                f"gating.variation and the NBTI model give to SMs; {error}"
            ) from error

    def _ranges(self) -> dict[str, tuple[float, float]]:
        """Between what the activity, temperature and threshold of any slice lie."""
        temperatures = self.gating.lives.temperatures(self.gating.surroundings_range)
        off, on = np.zeros((self.sms, 2)), np.ones((self.sms, 2))
        cold, hot = (temperatures.of(share, share)[0] for share in (off, on))
        wider = KELVIN_ROUNDING if cold.min() < hot.max() else 0.0
        variation = self.spec.gating.variation
        sigmas_mv = (
            variation.sigma_die_mv,
            variation.sigma_systematic_mv,
            variation.sigma_random_mv,
        )
        spread = 1e-3 * SIGMAS * float(np.hypot.reduce(sigmas_mv)) * self._varies
        vt0 = float(self.gating.nbti.vt0_volts)
        return {
            "activity": (LEAST_ACTIVITY, 1.0),
            "temperature_kelvin": (float(cold.min()) - wider, float(hot.max()) + wider),
            "vt0_volts": (vt0 - spread, vt0 + spread),
        }

    @property
    def _varies(self) -> bool:
        """Whether cells have the threshold of their SM."""
        return self.spec.cell_vt0 == "sm"

    @property
    def plan(self) -> SweepPlan:
        """The sweep over all slices."""
        return self.register_files.plan

    @cached_property
    def header(self) -> BothHeader:
        """Attributes of files that describe the study."""
        spec, plan, gating = self.spec, self.plan, self.gating
        swept = spec.sweep.model_copy(update={"programs": plan.programs})
        digest = spec.digest(
            str(SCHEMA_VERSION),
            repr(gating.kernels),
            gating.gpu.digest,
            repr(gating.nbti),
            *(trace.digest() for trace in plan.traces),
            *(repr(case.technique) for case in plan.cases),
        )
        return BothHeader(
            name="gpu-both",
            computes=VARIABLES,
            labels=(
                Coordinate(POLICY, spec.gating.policies),
                Coordinate(TECHNIQUE, spec.sweep.techniques),
                Coordinate(AGE, self.ages_years),
            ),
            stopping=rule_of(spec.stopping, VARIABLES),
            **self.campaign(spec.model_copy(update={"sweep": swept}), digest, plan.engine),
        )

    def compute(self, first: int, last: int) -> Arrays:
        """Arrays of the GPUs ``first`` ... ``last`` - 1, as `VARIABLES` declare them."""
        self.plan.prepare()
        parts = [
            self._batch(np.arange(start, min(start + BATCH_GPUS, last)))
            for start in range(first, last, BATCH_GPUS)
        ]
        return joined(VARIABLES, parts)

    def _batch(self, gpus: NDArray[np.int64]) -> Arrays:
        population = self.gating.population(gpus)
        runs = self.plan.in_threads(
            lambda policy: self.gating.lives.run(policy, population), self.gating.policies.values()
        )
        lives = dict(zip(self.gating.policies, runs, strict=True))
        size = self.register_files.batch
        places = [
            np.arange(start, min(start + size, len(gpus))) for start in range(0, len(gpus), size)
        ]

        def of_places(chosen: NDArray[np.int64]) -> Arrays:
            return self._slices(population, lives, chosen)

        parts = self.plan.in_batch_threads(
            lambda chosen: self._halving.run(of_places, chosen), places
        )
        of_slices = [variable for variable in VARIABLES if "technique" in variable.dims]
        return self._of_sms(lives) | joined(of_slices, chain.from_iterable(parts))

    def _of_sms(self, lives: Mapping[str, GatedLives]) -> dict[str, NDArray[np.generic]]:
        """Arrays of the level of the SMs."""
        of_policies = [
            {
                "mean_share": row_sum(life.of_sms.on_share) / self.sms,
                "largest_share": life.of_sms.on_share.max(axis=0),
                "logic_margin": life.margin_needed,
                "logic_dvth_mv": 1e3 * life.max_dvth_volts,
                "logic_life_years": life.life_years,
            }
            for life in lives.values()
        ]
        return stacked(of_policies)

    def _slices(
        self, population: Population, lives: Mapping[str, GatedLives], chosen: NDArray[np.int64]
    ) -> Arrays:
        """Arrays of the level of the register files, for some GPUs of a batch."""
        nbti, life = self.plan.nbti, self.spec.gating.life
        vt0_volts = population.vt0_volts[:, chosen]
        if not self._varies:
            vt0_volts = np.full_like(vt0_volts, float(nbti.vt0_volts))
        environment = self.plan.cases[0].conditions.environment
        clock = Clock(environment.highest_vdd_volts, nbti.alpha, life.delay_guardband, vt0_volts)
        rules = life.spare_sms, nbti.root, self.ages_years
        levels = {
            name: SmLevel(lives[name].of_sms.of(chosen), self.period_seconds(name))
            for name in lives
        }
        fates = self.register_files.fates(population.instances[chosen], vt0_volts, levels)
        of_pairs = [
            self._of_pair(combined(slices, levels[name].history, clock, *rules))
            for name, _, slices in fates
        ]
        shape = len(levels), len(self.plan.cases)
        return {
            name: array.reshape(*shape, *array.shape[1:])
            for name, array in stacked(of_pairs).items()
        }

    def _of_pair(self, fates: GpuFates) -> dict[str, NDArray[Any]]:
        """Arrays of a policy and a technique, as the variables are called."""
        horizon = self.ages_years[-1]
        return {
            "cell_margin": fates.cell_margin,
            "max_dvth_mv": 1e3 * fates.max_dvth_volts,
            "longest_duty": fates.longest_duty,
            "cell_life_years": np.minimum(fates.cell_delay_years, horizon),
            "fault_life_years": np.minimum(fates.fault_years, horizon),
            "life_years": np.minimum(fates.life_years, horizon),
            "end_cause": np.where(fates.life_years <= horizon, fates.cause, 0).astype(np.int8),
        }

    def period_seconds(self, name: str) -> float:
        """Time after which a policy puts other SMs to work; 0 where that is at each launch."""
        sensors = self.spec.gating.sensors
        policy = self.gating.policies[name]
        unread = policy.rotates and sensors.reassign == "launch"
        if unread or not policy.gates or name == "fixed":
            return 0.0
        return sensors.interval_days * SECONDS_PER_DAY
