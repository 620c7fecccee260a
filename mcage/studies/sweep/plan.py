"""From the spec of a sweep to all that its instances share: cases, traces, models, replays."""

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from llvmlite.binding import get_host_cpu_name
from numpy.typing import NDArray

from mcage.aging.environment import Environment, OperatingPoint, environment
from mcage.aging.nbti import NbtiModel, nbti_model
from mcage.aging.sampling import ConstantDraws, InstanceDistributions, TimeFractionDistributions
from mcage.aging.transistors import DelayPath, NbtiSpread, Pbti, TrapLaw
from mcage.aging.vmin import margins
from mcage.concurrency import usable_cores
from mcage.costs.activity import Activity, conventional, of_all
from mcage.distributions import Distribution
from mcage.engines.interface import Engine
from mcage.engines.stress import FaultFreeDuties, Turns, TurnsByEpoch
from mcage.errors import UserError
from mcage.files.disk_cache import arrays_of_record, kept_on_disk, record_of_arrays
from mcage.geometry import GCN, SliceGeometry
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.feasibility import (
    FaultFreeReplays,
    Limits,
    SlowdownTiming,
    duties_without_faults,
    fault_free_replays,
)
from mcage.lifetime.outcomes import Meter
from mcage.plain_text import shortened
from mcage.protection.codes import Code
from mcage.protection.policy import protection
from mcage.replays.prepare import PreparedReplay, prepare
from mcage.results.axes import label_of, points_of_cases
from mcage.results.differences import refuse_other_programs
from mcage.results.header import SCHEMA_VERSION
from mcage.soft_errors.ace import ace_under
from mcage.spec import Case, SweepSpec
from mcage.spec.draws import OF_MODEL, Draws
from mcage.spec.sections import Aging, Geometry, Workload
from mcage.spec.workload_mix import draw_kernels, draw_mixes
from mcage.studies.sweep.axes import AXES
from mcage.studies.sweep.header import MIX, WORKLOAD
from mcage.studies.sweep.soft_errors import SoftErrorMeter
from mcage.techniques import Technique, technique
from mcage.traces import Trace, first_generations
from mcage.traces.library import RecordedTrace, kernels_of_suite, recorded_trace
from mcage.traces.transforms import HELD, held_while_idle, on_slice, released
from mcage.variation.fault_models import FaultModel, fault_model
from mcage.variation.scenarios import CELL_6T, CELL_8T, Scenario, on_cell, scenario
from mcage.variation.vmin_tail import TailCells, check_vdd
from mcage.version import code_digest

# Which kernels a sweep draws from, and their traces as its slices replay them.


def kernels_of(spec: SweepSpec) -> tuple[str, ...]:
    """Names of the kernels of a sweep: those that it names, or those of its suite and slice.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.

    Raises
    ------
    UserError
        The suite has no kernel for the slice.
    """
    choice, wanted = spec.registers.geometry, GCN
    if spec.workload.kernels:
        return spec.workload.kernels
    if choice is not None:
        with suppress(UserError):  # refused with its reason where the traces are looked at
            wanted = choice.of(GCN)
    return kernels_of_suite(spec.workload.suite, wanted.entries, wanted.components)


@dataclass(frozen=True, eq=False)
class Workloads:
    """Kernels that I instances run.

    Attributes
    ----------
    periods : tuple of Turns
        Kernels that take turns in each period of each instance, numbers of those of the sweep.
    period_of_epoch : tuple of int
        Period that each epoch lies in.
    """

    periods: tuple[Turns, ...]
    period_of_epoch: tuple[int, ...]

    @cached_property
    def epochs(self) -> TurnsByEpoch:
        """Kernels that take turns in each epoch."""
        return TurnsByEpoch(self.periods[period] for period in self.period_of_epoch)

    def arrays(self, mixes: bool) -> dict[str, NDArray[np.generic]]:
        """Their variables of the results file; `mixes`: whether kernels take turns."""
        kernel = np.stack([of_period.kernel for of_period in self.periods], axis=1)
        if not mixes:
            return {WORKLOAD.name: kernel[..., 0].astype(np.int16)}
        share = np.stack([of_period.weight for of_period in self.periods], axis=1)
        of_mix, of_share = MIX
        return {of_mix.name: kernel.astype(np.int16), of_share.name: share}


def workloads_of(spec: SweepSpec, instances: NDArray[np.int64]) -> Workloads:
    """Kernels that instances of a sweep run.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.
    instances : int64[I]
        Their ids.
    """
    workload, kernels = spec.workload, kernels_of(spec)
    stream = workload.mix, spec.seed, instances, kernels, workload.periods
    if workload.schedule == "sequential":
        single = draw_kernels(*stream)
        periods = tuple(Turns.single(np.ascontiguousarray(kernel)) for kernel in single.T)
    else:
        kernel, share = draw_mixes(*stream, workload.mix_size)
        pairs = zip(np.moveaxis(kernel, 1, 0), np.moveaxis(share, 1, 0), strict=True)
        periods = tuple(Turns(*map(np.ascontiguousarray, pair)) for pair in pairs)
    return Workloads(periods, spec.period_of_epoch)


def check_weights(spec: SweepSpec) -> None:
    """Refuse a mix that leaves out a kernel of the sweep or names another, and a kernel twice.

    Raises
    ------
    UserError
        One line that names the kernel.
    """
    weights, kernels = spec.workload.mix, kernels_of(spec)
    if twice := next((name for name in kernels if kernels.count(name) > 1), None):
        raise UserError(
            f"workload.kernels: names {shortened(twice)} twice; to run a kernel more often than "
            "others, give workload.mix weights"
        )
    if isinstance(weights, dict) and set(weights) != set(kernels):
        unknown = sorted(set(weights) - set(kernels))
        raise UserError(
            f"workload.mix: {unknown[0]!r} is no kernel of this sweep; name it in workload.kernels"
            if unknown
            else f"workload.mix: no weight for {min(set(kernels) - set(weights))!r}; give it one, "
            "or leave it out of workload.kernels"
        )


def traces_of(spec: SweepSpec) -> tuple[RecordedTrace, ...]:
    """Traces that the slices of a sweep replay, one for each kernel.

    Parameters
    ----------
    spec : SweepSpec
        The sweep.

    Raises
    ------
    UserError
        A kernel has no trace, or the traces are not of slices of the same geometry.
    """
    workload = spec.workload
    changed = partial(_as_replayed, workload=workload, choice=spec.registers.geometry)
    how = f"{workload.release} {workload.generations} {spec.registers.geometry!r}"
    traces = tuple(recorded_trace(name, changed, how) for name in kernels_of(spec))
    _check_geometry(traces, spec.registers.selector_offsets)
    return traces


PROGRAM = "workload.kernels: "
"""Beginning of the keys by which files record the digests of traces."""


def with_programs(spec: SweepSpec) -> SweepSpec:
    """The spec with the digests of its traces as they were recorded; errors as of `traces_of`."""
    return spec.model_copy(update={"programs": _programs(spec, traces_of(spec))})


def _programs(spec: SweepSpec, traces: Sequence[RecordedTrace]) -> dict[str, str]:
    named = zip(kernels_of(spec), traces, strict=True)
    return {f"{PROGRAM}{name}": trace.recorded for name, trace in named}


def _as_replayed(trace: Trace, workload: Workload, choice: Geometry | None) -> Trace:
    trace = on_slice(trace, choice.of(trace.geometry)) if choice else trace
    # Ends of wavefronts follow from whole work-groups: an excerpt may have parts of one.
    trace = released(trace, workload.release)
    return first_generations(trace, workload.generations) if workload.generations else trace


def _check_geometry(traces: Sequence[RecordedTrace], selector_offsets: int) -> None:
    """Refuse traces of different slices, and more offsets than entries."""
    first = traces[0]
    for trace in traces:
        if trace.geometry.shape != first.geometry.shape:
            raise UserError(
                f"workload.kernels: {first.name!r} is of a slice {first.geometry.name}, "
                f"{trace.name!r} of {trace.geometry.name}; a sweep has slices of a single geometry"
            )
    if first.geometry.entries % selector_offsets:
        raise UserError(
            f"registers.selector_offsets = {selector_offsets}: must divide the "
            f"{first.geometry.entries} entries of the slice"
        )


# The cases of a sweep: each with its technique, its faults, its operating points and its name.

OF_FAULTS = "faults."
"""Beginning of the keys of the law of Vmin."""


@dataclass(frozen=True)
class PlannedCase:
    """A case whose technique, faults and conditions have been checked.

    Attributes
    ----------
    case : Case
        The case as the spec names it.
    technique : Technique
        Its technique.
    faults : FaultModel
        The model that its dies are drawn from.
    conditions : LifeConditions
        What the lives of all its instances have in common.
    faults_of_rows : tuple of FaultModel
        Where joint draws of constants change the law of Vmin: the model of each row; else empty.
    """

    case: Case
    technique: Technique
    faults: FaultModel
    conditions: LifeConditions
    faults_of_rows: tuple[FaultModel, ...] = ()

    def sample(
        self,
        seed: int,
        instances: NDArray[np.int64],
        rows: NDArray[np.int64] | None,
        floor_volts: float,
    ) -> TailCells:
        """Cells of instances that matter; see `FaultModel.sample`.

        Parameters
        ----------
        seed, instances, floor_volts
            As of `FaultModel.sample`.
        rows : int64[I], optional
            Row of each in the joint draws of constants, if there are any.
        """
        judged_by = floor_volts, self.conditions.protection
        if not self.faults_of_rows or rows is None or not len(rows):
            return self.faults.sample(seed, instances, *judged_by)
        together = [np.flatnonzero(rows == row) for row in np.unique(rows)]
        tails = [
            self.faults_of_rows[rows[places[0]]].sample(seed, instances[places], *judged_by)
            for places in together
        ]
        return TailCells.interleaved(tails, together)

    @property
    def label(self) -> str:
        """The case for people, whatever other cases stand beside it."""
        axes = [axis for axis in AXES if axis.named != "never" and not axis.of_spec]
        return label_of(points_of_cases(axes, [self], {})[0], axes)


def plan_cases(
    spec: SweepSpec,
    nbti: NbtiModel,
    distributions: InstanceDistributions,
    geometry: SliceGeometry,
) -> tuple[PlannedCase, ...]:
    """Every case of a spec, in the order of the results file.

    Parameters
    ----------
    spec : SweepSpec
        What to compute.
    nbti : NbtiModel
        Model of the threshold shift.
    distributions : InstanceDistributions
        Of what differs from instance to instance.
    geometry : SliceGeometry
        The slice.

    Raises
    ------
    UserError
        A technique, a scenario or an environment is unknown, or a case contradicts itself.
    """
    cases = spec.cases({name: scenario(name) for name in spec.scenarios})
    of_rows: dict[str, tuple[FaultModel, ...]] = {
        name: _faults_of_rows(spec, geometry, name) for name in spec.scenarios
    }
    planned = tuple(
        _planned(spec, case, nbti, distributions, geometry, of_rows[case.scenario])
        for case in cases
    )
    # Techniques share their dies and voltages: each of these is looked at once.
    vdds = {(c.case.protection, c.case.scenario, _fault_volts(c)): c for c in planned}
    for case in vdds.values():
        check_fault_vdd(spec, case)
    for case in {(case.case.scenario, case.case.protection): case for case in planned}.values():
        case.faults.check_protection(case.conditions.protection)
    return planned


def _planned(
    spec: SweepSpec,
    case: Case,
    nbti: NbtiModel,
    distributions: InstanceDistributions,
    geometry: SliceGeometry,
    faults_of_rows: tuple[FaultModel, ...],
) -> PlannedCase:
    rules = margins(spec.aging.vmin_model, spec.faults.cell or CELL_6T)
    faults = _fault_model(spec, case.scenario, geometry)
    # Temperatures that differ are drawn by instance; the environment is given the middle one.
    temperature_kelvin = float(distributions.temperature_kelvin.at(0.5))
    points, fractions = operating_points(spec, case, temperature_kelvin)
    _check_threshold(spec, points, distributions.highest_vt0_volts)
    _check_fault_voltage(case, points, faults)
    return PlannedCase(
        case=case,
        technique=technique(case.technique),
        faults=faults,
        conditions=LifeConditions(
            environment=points,
            nbti=nbti,
            epoch_edges_years=spec.epoch_edges_years,
            delay_guardband=spec.life.delay_guardband,
            vmin_coefficient=spec.life.vmin_coefficient,
            limits=limits(spec, geometry),
            protection=protection(case.protection, spec.faults.spread_blocks),
            distributions=(
                distributions
                if fractions is None
                else replace(distributions, time_fractions=fractions)
            ),
            holds_while_idle=spec.life.idle == HELD,
            spread=nbti_spread(spec, geometry),
            pbti=Pbti.of(spec.aging.pbti, nbti),
            margins=rules,
        ),
        faults_of_rows=faults_of_rows,
    )


def _fault_model(
    spec: SweepSpec, name: str, geometry: SliceGeometry, changed: dict[str, float] | None = None
) -> FaultModel:
    """Fault model of a scenario of a spec, and of keys of [faults] that are given in their place.

    These keys bear the names of the parameters, and hold as they are for any cell.
    """
    of_cells = on_cell(scenario(name), spec.faults.cell, spec.aging.vmin_model)
    fields = spec.faults.model_dump(exclude={"cell", "fit_per_mbit"}) | (changed or {})
    return fault_model(of_cells, geometry=geometry, **fields)


def limits(spec: SweepSpec, geometry: SliceGeometry) -> Limits:
    """End causes besides delay and faulty entries that cannot be avoided."""
    life, registers = spec.life, spec.registers
    return Limits(
        lds_rows=geometry.lds_rows if registers.lds_rows is None else registers.lds_rows,
        to_memory=registers.overflow == "memory",
        uncorrectable_blocks=life.uncorrectable_blocks,
        spill_limit=1.0 if life.spill_limit is None else life.spill_limit,
        slowdown=math.inf if life.slowdown_limit == "none" else float(life.slowdown_limit),
        timing=SlowdownTiming(spec.costs.of_technology, spec.costs.penalties),
    )


def nbti_spread(spec: SweepSpec, geometry: SliceGeometry) -> NbtiSpread | None:
    """How transistors differ that are stressed alike; None where they do not.

    Raises
    ------
    UserError
        The key ``life.delay_path`` names no path.
    """
    path = DelayPath.of(spec.life.delay_path, geometry.cells)
    if spec.aging.nbti_spread_mv == 0:
        return None
    return NbtiSpread(TrapLaw(spec.aging.nbti_spread_mv / 1e3), path)


def _faults_of_rows(
    spec: SweepSpec, geometry: SliceGeometry, scenario_name: str
) -> tuple[FaultModel, ...]:
    """Fault models of the rows of joint draws; empty where all rows have the same."""
    draws = spec.draws
    names = () if draws is None else draws.named(OF_FAULTS)
    if draws is None or not names:
        return ()
    models: list[FaultModel] = []
    for row in range(draws.rows):
        changed = {name: draws.columns[OF_FAULTS + name][row] for name in names}
        try:
            models.append(_fault_model(spec, scenario_name, geometry, changed))
        except UserError as error:
            raise UserError(f"{draws.place(row)}: {error}") from error
    return tuple(models)


def _fault_volts(planned: PlannedCase) -> tuple[float, float]:
    """Vdd at which the faults of a case are looked for, and that of its scenario."""
    return planned.conditions.environment.lowest_vdd_volts, planned.case.scenario_vdd_volts


def check_fault_vdd(spec: SweepSpec, planned: PlannedCase) -> None:
    """Refuse a case whose faults are looked for at a Vdd of which its fault model says nothing."""
    lowest_vdd_volts, scenario_vdd_volts = _fault_volts(planned)
    if planned.faults.mode != "varius":
        planned.faults.check_vdd(scenario_vdd_volts)  # the voltage of the published table
    if planned.conditions.protection.code is not None:
        return  # of words there is more left than of entries; too many weak cells are refused
    models = planned.faults_of_rows or (planned.faults,)
    # A slice has no more reliable entries with a higher mu: of rows that differ in nothing else,
    # the row with the highest is looked at, which takes a twentieth of a second.
    worst: dict[Scenario, int] = {}
    for row, model in enumerate(models):
        others = replace(model.scenario, mu_volts=0.0)
        before = worst.setdefault(others, row)
        if model.scenario.mu_volts > models[before].scenario.mu_volts:
            worst[others] = row
    for row in worst.values():
        try:
            check_vdd(models[row].scenario, lowest_vdd_volts)
        except UserError as error:
            name = planned.case.environment
            places = [f"operating_points.{name}"] if spec.points_of(name) else []
            if spec.draws is not None and planned.faults_of_rows:
                places.insert(0, spec.draws.place(row))
            raise UserError(": ".join([*places, str(error)])) from error


def _check_threshold(spec: SweepSpec, points: Environment, highest_vt0_volts: float) -> None:
    """Refuse operating points that lie below the threshold voltage of some transistor."""
    highest_vdd_volts = points.highest_vdd_volts
    if highest_vt0_volts < highest_vdd_volts:
        return
    if spec.points_of(points.name):
        raise UserError(
            f"operating_points.{points.name}: its highest Vdd, {highest_vdd_volts:g} V, "
            f"must exceed the threshold voltage, {highest_vt0_volts:g} V"
        )
    drawn = {} if spec.draws is None else dict.fromkeys(spec.draws.columns, "drawn")
    sources = {
        "aging.vt0_volts": spec.aging.vt0_volts,
        "aging.constants.vt0_volts": (spec.aging.constants or {}).get("vt0_volts"),
    } | drawn
    for key, vt0 in sources.items():
        if vt0 is not None and key.endswith("vt0_volts"):
            raise UserError(
                f"{key} = {vt0!r}: {highest_vt0_volts:g} V must stay below the highest Vdd of "
                f"environment {points.name!r}, {highest_vdd_volts:g} V"
            )


def _check_fault_voltage(case: Case, points: Environment, faults: FaultModel) -> None:
    """Refuse faults that are known at another voltage than the lowest of the case."""
    if not faults.grows and points.lowest_vdd_volts != case.scenario_vdd_volts:
        raise UserError(
            f"environment {points.name!r} asks for the faults at "
            f"{points.lowest_vdd_volts:g} V, but mode {faults.mode!r} knows those at "
            f"{case.scenario_vdd_volts:g} V only: choose undervolted, dvfs, or points of which "
            "that is the lowest, or mode varius"
        )


def operating_points(
    spec: SweepSpec, case: Case, temperature_kelvin: float
) -> tuple[Environment, TimeFractionDistributions | None]:
    """Operating points of a case.

    Parameters
    ----------
    spec : SweepSpec
        Defines environments that are no presets.
    case : Case
        Names an environment, and the Vdd of its scenario.
    temperature_kelvin : float
        Temperature of the slice, K, to which single points add their offset.

    Returns
    -------
    environment, time_fractions
        The operating points, and the distributions of the fractions of time spent at them; None
        where no instance differs from another in these.

    Raises
    ------
    UserError
        As `mcage.aging.environment.environment`.
    """
    name = case.environment
    points = spec.points_of(name)
    if not points:
        return environment(name, case.scenario_vdd_volts, temperature_kelvin), None
    fractions = TimeFractionDistributions(name, tuple(point.share_distribution for point in points))
    user_defined = Environment(
        name,
        tuple(
            OperatingPoint(
                vdd_volts=point.vdd_in(case.scenario_vdd_volts),
                time_fraction=fraction,
                temperature_kelvin=temperature_kelvin,
                temperature_offset_kelvin=point.temperature_offset_kelvin,
            )
            for point, fraction in zip(points, fractions.middle, strict=True)
        ),
    )
    return user_defined, fractions if fractions.vary else None


Name = TypeVar("Name")
Given = TypeVar("Given")
Result = TypeVar("Result")


class SweepPlan:
    """A sweep before its first instance: traces are loaded, and all cases are checked.

    Replays are prepared when they are first asked for, or by `prepare`.

    Parameters
    ----------
    spec : SweepSpec
        What to compute.
    engine : Engine
        What computes it.
    like : SweepPlan, optional
        A plan on the same engine. Its traces and replays are taken over where they would be the
        same.

    Attributes
    ----------
    spec, engine
        As given.
    traces : tuple of RecordedTrace
        What the slices replay, one trace for each kernel, without idle time.
    nbti : NbtiModel
        Model of the threshold shift.
    distributions : InstanceDistributions
        Distributions of what differs from instance to instance.
    cases : tuple of PlannedCase
        The cases in the order of the results file.
    threads : int
        Threads that prepare: one for each core, as long as the engine's memory is enough.
    batch_threads : int
        Threads that compute batches: no more of these than can be busy beside the engine.
    like : SweepPlan or None
        The plan whose traces and replays are the same, if there is one.

    Raises
    ------
    UserError
        A kernel, technique or case of the spec makes no sense.
    """

    def __init__(self, spec: SweepSpec, engine: Engine, like: "SweepPlan | None" = None) -> None:
        self.spec = spec
        self.engine = engine
        self.like = like if like and _replay_alike(spec, like.spec) else None
        self.traces: tuple[RecordedTrace, ...] = self.like.traces if self.like else self._traces()
        refuse_other_programs(spec.programs, self.programs)
        check_weights(spec)
        self.nbti = _nbti_model(spec.aging)
        self.distributions = _distributions(spec, self.nbti)
        self.cases = plan_cases(spec, self.nbti, self.distributions, self.geometry)
        pbti = self.cases[0].conditions.pbti
        if pbti is not None:
            _check_repr("pbti", str(spec.aging.pbti), pbti.model)
        self.threads = min(usable_cores(), engine.threads or usable_cores())
        self.batch_threads = min(self.threads, self._busy_threads or self.threads)
        self._pool = ThreadPoolExecutor(self.threads)
        self._batch_pool = ThreadPoolExecutor(self.batch_threads)
        self._preparing = Lock()
        self._check_cases()

    def _traces(self) -> tuple[RecordedTrace, ...]:
        return traces_of(self.spec)

    @property
    def programs(self) -> dict[str, str]:
        """Digests of what runs, as files record them: of each trace as it was recorded."""
        return _programs(self.spec, self.traces)

    @property
    def recorded_spec(self) -> SweepSpec:
        """The spec with the digests of its programs."""
        return self.spec.model_copy(update={"programs": self.programs})

    def _check_cases(self) -> None:
        """Refuse what only the engine, the models and the traces can tell."""
        for of in self.techniques.values():
            self.engine.check(of)
        for case in self.cases:  # refuses a model under which the worst cell cannot be found
            case.conditions.check_model()
        for case in self.cases:  # refuses a floor that the fault model says nothing about
            no_instance = np.empty(0, np.int64)
            for faults in case.faults_of_rows or (case.faults,):
                faults.sample(self.spec.seed, no_instance, case.conditions.floor_volts)
        for of in (
            self.techniques.values()
        ):  # refuses windows that do not fit in turn, or cannot be packed
            if of.may_lack_room:
                self._prepared(of, self.traces)

    @cached_property
    def techniques(self) -> dict[str, Technique]:
        """By name: the techniques of the cases, each of which is looked at once."""
        return {case.case.technique: case.technique for case in self.cases}

    @property
    def _busy_threads(self) -> int | None:
        """Threads that can be busy with batches; None if all can.

        Where more than means of shifts under `facelift` decides when cells fail, or windows are
        laid around faulty entries, the host computes for long without holding Python's lock.
        """
        if all(case.conditions.is_plain and not case.technique.packs for case in self.cases):
            return self.engine.busy_threads
        return None

    @property
    def geometry(self) -> SliceGeometry:
        """The slice, that of all traces."""
        return self.traces[0].geometry

    @property
    def mix_size(self) -> int:
        """Kernels that take turns in a mix; 0 if each period has a single kernel."""
        workload = self.spec.workload
        if workload.schedule == "sequential":
            return 0
        if workload.mix == "one":
            return 1
        kernels = len(self.traces)
        return kernels if isinstance(workload.mix, dict) else min(workload.mix_size, kernels)

    @property
    def margin_kinds(self) -> tuple[str, ...]:
        """Margins by which cells fail, where these are distinguished."""
        rules = self.cases[0].conditions.margins
        return () if rules is None else rules.kinds

    @property
    def reprs_of_cells(self) -> tuple[str, ...]:
        """All that decides when aged cells fail, as text, where it is not the default."""
        conditions = self.cases[0].conditions
        return tuple(repr(each) for each in (conditions.pbti, conditions.margins) if each)

    @property
    def spec_values(self) -> dict[str, Any]:
        """Plain values of the spec, as files record it."""
        return tomllib.loads(self.recorded_spec.to_toml())

    def digest(self, *further: str) -> str:
        """Digest of everything that decides the results of an instance, and of further texts."""
        return self.spec.digest(
            str(SCHEMA_VERSION),
            *further,
            *(trace.digest() for trace in self.traces),
            *(repr(case.technique) for case in self.cases),
            repr(self.nbti),
            *self.reprs_of_cells,
        )

    @property
    def caveats_of_traces(self) -> tuple[str, ...]:
        """Caveats of the traces, with their names."""
        names: dict[str, list[str]] = {}
        for trace in self.traces:
            names.setdefault(trace.caveat, []).append(trace.name)
        return tuple(f"{', '.join(of)}: {caveat}" for caveat, of in names.items() if caveat)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats that belong wherever the results are shown."""
        caveats = [*self.caveats_of_traces]
        costs, technology = self.spec.costs, self.spec.costs.of_technology
        if self.geometry.shape == technology.geometry.shape:
            points = (p for case in self.cases for p in case.conditions.environment.points)
            vdds_volts = {point.vdd_volts for point in points}
            caveats += filter(None, [technology.note_on_mixture(vdds_volts)])
        elif costs.tables is None:
            slice_ = "slices of {} x {} with blocks of {}".format(*self.geometry.shape)
            caveats.insert(0, f"{slice_}: no constants of their energy are published")
        caveats += filter(None, [costs.caveat_on(self.geometry)])
        if eta := self.spec.aging.nbti_spread_mv:
            life = self.spec.life
            caveats.append(
                f"a charged trap shifts by {eta:g} mV (assumed): dVth is that of the worst "
                "transistor, or an upper bound where few carry most of the stress; the guardband "
                f"of {life.delay_guardband:.1%}, which is that of mean shifts, is restated for "
                f"delay_path {life.delay_path}"
            )
        if self.spec.faults.cell == CELL_8T:
            caveats.append(
                "8T cells: the difference of their Vmin from that of 6T cells is simulated, and "
                "depends on the time that the clock leaves a read (assumed; table "
                f"{self.spec.aging.vmin_model}); energy and area are those of 6T cells"
            )
        return tuple(caveats)

    @cached_property
    def traces_with_idle(self) -> tuple[Trace, ...] | None:
        """The traces with the idle time in which slices hold; None where they are off then."""
        life = self.spec.life
        if life.idle != HELD:
            return None
        return tuple(held_while_idle(trace.whole, float(life.activity)) for trace in self.traces)

    @cached_property
    def lowest_floor_volts(self) -> dict[str, float]:
        """By scenario: the lowest Vmin, V, above which cells matter to any of its cases."""
        floors: dict[str, float] = {}
        for case in self.cases:
            name, floor_volts = case.case.scenario, case.conditions.floor_volts
            floors[name] = min(floors.get(name, floor_volts), floor_volts)
        return floors

    @cached_property
    def operating_points(self) -> int:
        """Number of operating points of the environment that has most."""
        return max(len(case.conditions.environment.points) for case in self.cases)

    @cached_property
    def fault_free(self) -> dict[str, FaultFreeReplays]:
        """By technique: its replays of all kernels on a slice without faults."""
        return self._of_each(self.techniques, self._fault_free, "fault_free")

    def _of_each(
        self, items: Mapping[Name, Given], function: Callable[[Given], Result], name: str
    ) -> dict[Name, Result]:
        """Results of a function by the names of the items, as far as `like` does not know them."""
        known: dict[Name, Result] = getattr(self.like, name) if self.like else {}
        lacking = {key: item for key, item in items.items() if key not in known}
        return known | dict(zip(lacking, self.in_threads(function, lacking.values()), strict=True))

    def _fault_free(self, technique: Technique) -> FaultFreeReplays:
        busy, whole = self._prepared(technique, self.traces), None
        if self.traces_with_idle:
            whole = self._prepared(technique, self.traces_with_idle)
        return fault_free_replays(self.engine, busy, whole, f"{technique!r} {self._kept_by}")

    @cached_property
    def _kept_by(self) -> str:
        """All that decides the replays of a technique, as text: what is kept on disk is found by.

        Some sums of floats depend on NumPy and on what the processor has instructions for.
        """
        life, registers = self.spec.life, self.spec.registers
        idle = (life.idle, str(life.activity)) if self.traces_with_idle else ()
        sizes = self.spec.delta_limit, registers.selector_offsets, self._room
        sizes_and_engine = (idle, *sizes, self.engine.name)
        traces = [trace.digest() for trace in self.traces]
        return f"{sizes_and_engine} {traces} {code_digest()} {np.__version__} {get_host_cpu_name()}"

    def _prepared(
        self,
        technique: Technique,
        traces: Sequence[Trace | RecordedTrace],
        code: Code | None = None,
    ) -> tuple[PreparedReplay, ...]:
        limit, offsets = self.spec.delta_limit, self.spec.registers.selector_offsets
        settings = technique, limit, offsets, self._room, code
        return tuple(prepare(trace, *settings) for trace in traces)

    @cached_property
    def _check_duties(self) -> dict[tuple[str, Code], FaultFreeDuties]:
        """Duty cycles of check cells on a slice without faults, by technique and code."""
        wanted = {
            (case.case.technique, code): (case.technique, code)
            for case in self.cases
            if (code := case.conditions.protection.code) is not None
        }

        def replayed(prepared_with: tuple[Technique, Code]) -> FaultFreeDuties:
            technique, code = prepared_with
            replays = self._prepared(technique, self.traces_with_idle or self.traces, code)
            key = f"check cells {code.name} {technique!r} {self._kept_by}"
            return duties_without_faults(self.engine, replays, key)

        return self._of_each(wanted, replayed, "_check_duties")

    @cached_property
    def soft_error_meters(self) -> tuple[SoftErrorMeter, ...]:
        """By case: what tells the soft errors of its lives."""
        return tuple(
            SoftErrorMeter(
                self._avf[case.case.technique],
                self.geometry,
                case.conditions.environment,
                case.conditions.protection,
                self.spec.faults.fit_per_mbit,
            )
            for case in self.cases
        )

    @cached_property
    def _avf(self) -> dict[str, NDArray[np.float64]]:
        """By technique: share of the bits of the slice that each kernel needs."""

        def needed(technique: Technique) -> NDArray[np.float64]:
            if technique.program is not None:
                return np.full(len(self.traces), np.nan)

            def computed() -> dict[str, NDArray[Any]]:
                limit = self.spec.delta_limit
                each = (
                    ace_under(trace.whole, technique, delta_limit=limit).avf
                    for trace in self.traces
                )
                return {"avf": np.array(list(each))}

            return kept_on_disk(f"avf {technique!r} {self._kept_by}", computed)["avf"]

        return self._of_each(self.techniques, needed, "_avf")

    def fault_free_of(self, case: PlannedCase) -> FaultFreeReplays:
        """Replays of a case without faults, those of check cells included."""
        replays, code = self.fault_free[case.case.technique], case.conditions.protection.code
        if code is None:
            return replays
        return replace(replays, check_duties=self._check_duties[case.case.technique, code])

    @cached_property
    def _room(self) -> int | None:
        """Spilled rows for which the LDS has room; None where those beyond may not go to memory."""
        room = limits(self.spec, self.geometry)
        return room.lds_rows if room.to_memory else None

    @cached_property
    def conventional(self) -> Activity:
        """Activity on a conventional register file, on all kernels (`of_all`)."""
        if self.like:
            return self.like.conventional

        def counted() -> dict[str, NDArray[Any]]:
            activities = self.in_threads(conventional, [trace.whole for trace in self.traces])
            return {
                name: array
                for kernel, activity in enumerate(activities)
                for name, array in arrays_of_record(activity, str(kernel)).items()
            }

        arrays = kept_on_disk(f"conventional {self._kept_by}", counted)
        kernels = range(len(self.traces))
        return of_all([record_of_arrays(Activity, arrays, str(kernel)) for kernel in kernels])

    @cached_property
    def meters(self) -> tuple[Meter, ...]:
        """By case: what tells the slowdown and the power of its lives."""
        technology, penalties = self.spec.costs.of_technology, self.spec.costs.penalties
        return tuple(
            Meter(
                fault_free=self.fault_free_of(case),
                conventional=self.conventional,
                environment=case.conditions.environment,
                technology=technology,
                penalties=penalties,
                time_fractions_vary=case.conditions.distributions.time_fractions is not None,
                protection=case.conditions.protection,
            )
            for case in self.cases
        )

    def prepare(self) -> None:
        """Compute what all instances share, once; otherwise the first batch does."""
        with self._preparing:
            _ = self._expected, self._made_ready, self.meters, self._avf

    @cached_property
    def _of_device(self) -> dict[str, Technique]:
        """By name: techniques of whose lives an engine with devices computes all on these."""
        return {
            case.case.technique: case.technique
            for case in self.cases
            if case.conditions.is_plain and not (case.technique.packs or case.technique.program)
        }

    @cached_property
    def _expected(self) -> None:
        """Tell the engine what will be asked for, while replays are prepared."""
        if self._of_device:
            cycles = max(trace.cycles for trace in self.traces_with_idle or self.traces)
            self.engine.expect(self._of_device.values(), self.geometry, cycles)

    @cached_property
    def _made_ready(self) -> None:
        """Let the engine begin with what the first batch would have to wait for."""
        for name in self._of_device:
            replays = self.fault_free[name]
            if replays.redirects:
                self.engine.make_ready(replays.replays, replays.duties)

    def in_threads(
        self, function: Callable[[Given], Result], items: Iterable[Given]
    ) -> Iterable[Result]:
        """Results of a function in the order of the items, as many at once as cores help.

        Parameters
        ----------
        function : callable
            Is called with each item, from several threads.
        items : iterable
            Its arguments.
        """
        return self._pool.map(function, items)

    def in_batch_threads(
        self, function: Callable[[Given], Result], batches: Iterable[Given]
    ) -> Iterable[Result]:
        """As `in_threads`, for a function that computes a batch."""
        return self._batch_pool.map(function, batches)


def _replay_alike(spec: SweepSpec, other: SweepSpec) -> bool:
    """Whether what two sweeps replay without faults is the same, technique by technique."""

    def of_replays(spec: SweepSpec) -> tuple[Any, ...]:
        workload, life, registers = spec.workload, spec.life, spec.registers
        busy = None if life.idle == "gated" else life.activity
        traces = (workload.kernels, workload.generations, workload.release)
        return (*traces, life.idle, busy, *registers.model_dump().values())

    return of_replays(spec) == of_replays(other)


def _nbti_model(aging: Aging) -> NbtiModel:
    model = nbti_model(aging.model, aging.constants)
    _check_repr("model", aging.model, model)
    return model


def _check_repr(key: str, name: str, model: NbtiModel) -> None:
    if type(model).__repr__ is object.__repr__:
        raise UserError(
            f"aging.{key} = {name!r}: its repr must tell its constants, so that results of others "
            "are not taken for its own: make it a dataclass"
        )


def _distributions(spec: SweepSpec, nbti: NbtiModel) -> InstanceDistributions:
    vt0_volts = spec.aging.vt0_volts
    return InstanceDistributions(
        temperature_kelvin=Distribution.of(spec.life.temperature_kelvin),
        vt0_volts=Distribution.of(float(nbti.vt0_volts) if vt0_volts is None else vt0_volts),
        shift_factor=Distribution.of(spec.aging.shift_factor),
        activity=Distribution.of(spec.life.activity),
        temperature_swing_kelvin=Distribution.of(spec.life.temperature_swing_kelvin),
        draws=_draws(spec, nbti),
    )


def _draws(spec: SweepSpec, nbti: NbtiModel) -> ConstantDraws | None:
    """Joint draws as instances have them; an amplitude that is calibrated is so row by row."""
    draws = spec.draws
    if draws is None:
        return None
    columns = {key: np.array(values) for key, values in draws.columns.items()}
    of_slices = {
        key.partition(".")[2]: values
        for key, values in columns.items()
        if not key.startswith((OF_MODEL, OF_FAULTS))
    }
    of_model: dict[str, NDArray[np.float64]] = {}
    if draws.of_model:
        models = [_model_of_row(spec, draws, row) for row in range(draws.rows)]
        varying = [
            name
            for name, value in vars(nbti).items()
            if name in draws.of_model or any(getattr(m, name) != value for m in models)
        ]
        of_model = {name: np.array([getattr(m, name) for m in models]) for name in varying}
    if "vt0_volts" in of_model:  # of the instances, which hand it to the model
        of_slices["vt0_volts"] = of_model.pop("vt0_volts")
    return ConstantDraws(draws.rows, of_slices, of_model, spec.faults.slices_per_chip)


def _model_of_row(spec: SweepSpec, draws: Draws, row: int) -> NbtiModel:
    drawn = {name: draws.columns[OF_MODEL + name][row] for name in draws.of_model}
    try:
        return nbti_model(spec.aging.model, {**(spec.aging.constants or {}), **drawn})
    except UserError as error:
        raise UserError(f"{draws.place(row)}: {error}") from error
