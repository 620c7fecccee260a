"""A sweep: from its spec to the arrays of any range of instances."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import SECONDS_PER_YEAR, NbtiModel, nbti_model
from mcage.aging.sampling import OF_SLICES, InstanceConstants, InstanceDistributions
from mcage.campaign.progress import Progress, Silent
from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import BESIDE
from mcage.campaign.stopping import stopping_rule
from mcage.costs import Activity, conventional, load_costs
from mcage.distributions import Distribution
from mcage.engines.interface import Engine
from mcage.engines.select import device_of, select_engine
from mcage.errors import UserError
from mcage.files.destination import place_of
from mcage.geometry import SLICE
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.costs import Consumption, Meter
from mcage.lifetime.degradation.stepwise import most_instances
from mcage.lifetime.fault_free import FaultFreeReplays, share
from mcage.lifetime.simulator import Lives, live
from mcage.random import stream
from mcage.replays.prepare import PreparedReplay, prepare
from mcage.results.conform import Arrays
from mcage.results.header import CaseName, SweepHeader
from mcage.results.schema import DVTH_BIN_EDGES_MV, SCHEMA_VERSION, VARIABLES
from mcage.spec import Case, SweepSpec
from mcage.spec.sections import Aging, Faults, Workload
from mcage.spec.workload_mix import draw_kernels
from mcage.sweep.conditions import conditions_of, name_of
from mcage.sweep.halving import Halving, Say
from mcage.sweep.unused_keys import refuse_unused
from mcage.techniques import TECHNIQUES, Technique, technique
from mcage.traces import KERNELS, Trace, first_generations, open_trace
from mcage.traces.transforms import HELD, held_while_idle, released
from mcage.variation import FaultModel, TailCells, fault_model, scenario
from mcage.version import running_code

SAMPLED_CELLS = 1024
"""Cells of each instance whose shifts make up the dVth histogram."""

DENSE_BATCH = 48
"""Instances in a batch where some technique keeps two sums for each of their cells: 8 MB each."""

SHARD_INSTANCES = 256
BATCHES_IN_SHARD = 4


@dataclass(frozen=True)
class _PlannedCase:
    case: Case
    technique: Technique
    faults: FaultModel
    rules: LifeConditions

    @property
    def name(self) -> CaseName:
        return name_of(self.case, self.rules.environment)


class Sweep:
    """A sweep made ready: traces loaded, every case checked.

    Parameters
    ----------
    spec : SweepSpec
        What to compute.
    engine : Engine
        What computes it.
    engine_reason : str
        Why that engine.
    like : Sweep, optional
        A sweep on the same engine whose traces and shared replays are taken over where they would
        be the same.
    say : callable, optional
        Is told of batches that become smaller because memory runs out.

    Raises
    ------
    UserError
        A kernel, technique or case of the spec makes no sense.
    """

    def __init__(
        self,
        spec: SweepSpec,
        engine: Engine,
        engine_reason: str = "",
        like: "Sweep | None" = None,
        say: Say | None = None,
    ) -> None:
        self.spec = spec
        self._engine = engine
        self._reason = engine_reason
        self._pool = ThreadPoolExecutor(min(_threads(), engine.threads or _threads()))
        self._halving = Halving(say)
        self._preparing = Lock()
        self._like = like if like and _replay_alike(spec, like.spec) else None
        self._traces: tuple[Trace, ...] = (
            self._like._traces
            if self._like
            else tuple(
                _as_replayed(open_trace(name), spec.workload)
                for name in spec.workload.kernels or KERNELS
            )
        )
        self._traces_with_idle = (
            tuple(held_while_idle(trace, float(spec.life.activity)) for trace in self._traces)
            if spec.life.idle == HELD
            else None
        )
        _check_weights(spec.workload)
        self._nbti = _nbti_model(spec.aging)
        self._laws = _laws(spec, self._nbti)
        self._cases = tuple(_planned(spec, case, self._nbti, self._laws) for case in _grid(spec))
        for one in self._cases:  # refuses a policy that the engine does not implement
            engine.check(one.technique)
        self._floor_volts: dict[str, float] = {
            name: min(one.rules.floor_volts for one in self._cases if one.case.scenario == name)
            for name in spec.scenarios
        }
        for one in self._cases:  # refuses a model under which the worst cell cannot be found
            one.rules.check_model()
        for one in self._cases:  # refuses a floor that the fault model does not speak about
            one.faults.sample(spec.seed, np.empty(0, np.int64), one.rules.floor_volts)
        for one in self._cases:  # refuses windows that find no room in turn, or cannot be packed
            if one.technique.may_lack_room:
                self._prepared(one.technique, self._traces)

    @cached_property
    def campaign(self) -> SweepHeader:
        """The sweep as its files know it."""
        spec = self.spec
        return SweepHeader(
            spec_toml=spec.to_toml(),
            spec_digest=spec.digest(
                str(SCHEMA_VERSION),
                *(trace.digest() for trace in self._traces),
                *(repr(one.technique) for one in self._cases),
                repr(self._nbti),
            ),
            seed=spec.seed,
            instances=spec.instances,
            cases=tuple(one.name for one in self._cases),
            kernels=tuple(trace.name for trace in self._traces),
            workload_periods=spec.workload.periods,
            operating_points=self._most_points,
            epoch_edges_years=spec.epoch_edges_years,
            engine=self._engine.name,
            engine_reason=self._reason,
            device=device_of(self._engine),
            stopping=stopping_rule(spec),
            codes=(running_code(_plug_ins(spec)),),
        )

    @property
    def _most_points(self) -> int:
        return max(len(one.rules.environment.points) for one in self._cases)

    @cached_property
    def _shared(self) -> dict[str, FaultFreeReplays]:
        """Replays of each technique that all instances share."""

        def replays(one: Technique) -> FaultFreeReplays:
            busy, whole = self._prepared(one, self._traces), None
            if self._traces_with_idle:
                whole = self._prepared(one, self._traces_with_idle)
            return share(self._engine, busy, whole)

        known = self._like._shared if self._like else {}
        techniques = {
            one.case.technique: one.technique
            for one in self._cases
            if one.case.technique not in known
        }
        found = self._pool.map(replays, techniques.values())
        return known | dict(zip(techniques, found, strict=True))

    @cached_property
    def _conventional(self) -> tuple[Activity, ...]:
        """What every kernel does on a conventional register file."""
        return (
            self._like._conventional
            if self._like
            else tuple(self._pool.map(conventional, self._traces))
        )

    @cached_property
    def _meters(self) -> tuple[Meter, ...]:
        """What reads off the slowdown and the power of each case."""
        costs = load_costs()
        technology = costs.technology(self.spec.costs.technology)
        return tuple(
            Meter(
                shared=self._shared[one.case.technique],
                conventional=self._conventional,
                environment=one.rules.environment,
                technology=technology,
                penalties=costs.penalties,
                shares_vary=one.rules.laws.shares is not None,
            )
            for one in self._cases
        )

    def _prepared(self, one: Technique, traces: tuple[Trace, ...]) -> tuple[PreparedReplay, ...]:
        limit, offsets = self.spec.delta_limit, self.spec.registers.selector_offsets
        return tuple(prepare(trace, one, limit, offsets) for trace in traces)

    def prepare(self) -> None:
        """Compute what all instances share; otherwise the first `compute` does."""
        with self._preparing:
            _ = self._meters

    def compute(self, first: int, last: int) -> Arrays:
        """Results of instances ``first`` ... ``last`` - 1, as `mcage.results.schema` declares."""
        self.prepare()
        size = self._batch_size
        batches = [np.arange(start, min(start + size, last)) for start in range(first, last, size)]
        parts = self._pool.map(partial(self._halving.run, self._batch), batches)
        return _joined(chain.from_iterable(parts))

    @property
    def _batch_size(self) -> int:
        size = self._engine.batch
        if any(one.technique.packs for one in self._cases):
            size = min(size, DENSE_BATCH)
        if any(one.technique.heeds_faults and not one.rules.sums_suffice for one in self._cases):
            size = min(size, most_instances(self.spec.life.epochs))
        return size

    def _batch(self, instances: NDArray[np.int64]) -> dict[str, NDArray[np.generic]]:
        spec = self.spec
        workload = _workloads(spec, instances, len(self._traces))
        kernel_of_epoch = workload[:, list(spec.period_of_epoch)]
        sample = np.stack(
            [
                stream(spec.seed, "dvth.sample", int(instance)).choice(
                    SLICE.cells, SAMPLED_CELLS, replace=False, shuffle=False
                )
                for instance in instances
            ]
        )
        constants = self._laws.draw(spec.seed, instances, spec.life.epochs)
        tails: dict[tuple[str, float], TailCells] = {}
        lives, consumptions, histograms, at_points = [], [], [], []
        for one, meter in zip(self._cases, self._meters, strict=True):
            name, floor_volts = one.case.scenario, self._floor_volts[one.case.scenario]
            if (name, floor_volts) not in tails:
                tails[name, floor_volts] = one.faults.sample(spec.seed, instances, floor_volts)
            if (name, one.rules.floor_volts) not in tails:
                above = _above(tails[name, floor_volts], one.rules.floor_volts)
                tails[name, one.rules.floor_volts] = above
            tail = tails[name, one.rules.floor_volts]
            laws = one.rules.laws.shares
            shares = None if laws is None else laws.draw(spec.seed, instances)
            own = replace(constants, shares=shares)
            lived = live(one.rules, self._engine, meter.shared, kernel_of_epoch, tail, sample, own)
            worked = lived.life_seconds > 0
            histograms.append(_histogram(1e3 * lived.sampled_dvth_volts[worked]))
            consumptions.append(
                meter.read(kernel_of_epoch, lived.moment_seconds, lived.moment_events, shares)
            )
            at_points.append(self._at_points(one, shares, len(instances)))
            none = np.empty(0)
            lives.append(
                replace(lived, sampled_dvth_volts=none, moment_seconds=none, moment_events=none)
            )
        arrays = _arrays(workload, constants, lives, consumptions, histograms)
        return arrays | {"operating_point_share": np.stack(at_points)}

    def _at_points(
        self, one: _PlannedCase, drawn: NDArray[np.float64] | None, instances: int
    ) -> NDArray[np.float64]:
        """Shares of the time at each operating point: float64[instances, points], else NaN."""
        points = one.rules.environment.points
        shares = np.full((instances, self._most_points), np.nan)
        shares[:, : len(points)] = [point.share for point in points] if drawn is None else drawn.T
        return shares


def run_sweep(
    spec: SweepSpec,
    out_path: Path,
    engine: str = "auto",
    shard_size: int | None = None,
    progress: Progress | None = None,
    devices: Sequence[int] | None = None,
    accept_other_code: bool = False,
) -> Path:
    """Compute a sweep into one results file; continue where an earlier run was stopped.

    Parameters
    ----------
    spec : SweepSpec
        What to compute.
    out_path : Path
        Results file.
    engine : str
        ``auto``, or an engine's name.
    shard_size : int, optional
        Instances that are lost at most by a kill; does not change results. By default 256, or
        some batches of an engine whose batches are large.
    progress : Progress, optional
        Where to report; silent by default.
    devices : sequence of int, optional
        Devices of the ``cuda`` engine; by default all.
    accept_other_code : bool
        Whether results that other code has left at ``out_path`` may be continued, or stand; the
        file then says so.

    Returns
    -------
    Path
        ``out_path``.

    Raises
    ------
    UserError
        The spec makes no sense, or ``out_path`` cannot be written, holds something else, or was
        begun by other code.
    """
    refuse_unused(spec)
    place_of(out_path, BESIDE)
    chosen, reason = select_engine(engine, devices, _threads())
    shard_size = shard_size or max(SHARD_INSTANCES, BATCHES_IN_SHARD * chosen.batch)
    progress = progress or Silent()
    sweep = Sweep(spec, chosen, reason, say=progress.say)
    progress.say(f"engine {chosen.name} ({reason}); {len(sweep.campaign.cases)} cases")
    if _is_compiled_first(chosen):
        progress.say("the engine is compiled first, for a minute or two; later runs need not")
    for name in sorted(set(spec.operating_points or {}) - set(spec.environments)):
        progress.say(f"note: operating_points.{name} is given, but this sweep does not name it")
    return run_campaign(
        sweep.campaign,
        out_path,
        sweep.compute,
        shard_size,
        progress,
        accept_other_code=accept_other_code,
    )


def _is_compiled_first(engine: Engine) -> bool:
    if engine.name != "numba":
        return False
    from mcage.engines.numba_engine.jit import compiled_before

    return not compiled_before()


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_replayed(trace: Trace, workload: Workload) -> Trace:
    # Ends of wavefronts are told from whole work-groups: an excerpt may keep parts of one.
    trace = released(trace, workload.release)
    return first_generations(trace, workload.generations) if workload.generations else trace


def _replay_alike(one: SweepSpec, other: SweepSpec) -> bool:
    """Whether what two sweeps replay without faults is the same, technique by technique."""

    def of_replays(spec: SweepSpec) -> tuple[Any, ...]:
        workload, life, registers = spec.workload, spec.life, spec.registers
        busy = None if life.idle == "gated" else life.activity
        traces = (workload.kernels, workload.generations, workload.release)
        return (*traces, life.idle, busy, registers.delta_limit, registers.selector_offsets)

    return of_replays(one) == of_replays(other)


def _plug_ins(spec: SweepSpec) -> set[str]:
    """Modules of the user's own that a sweep asks for as module:NAME."""
    names = (*spec.techniques, spec.aging.model)
    return {name.partition(":")[0] for name in names if ":" in name and name not in TECHNIQUES}


def _grid(spec: SweepSpec) -> tuple[Case, ...]:
    return spec.cases({name: scenario(name).vdd_volts for name in spec.scenarios})


def _check_weights(workload: Workload) -> None:
    weights, kernels = workload.mix, workload.kernels or KERNELS
    if isinstance(weights, dict) and set(weights) != set(kernels):
        unknown = sorted(set(weights) - set(kernels))
        raise UserError(
            f"workload.mix: {unknown[0]!r} is no kernel of this sweep; name it in workload.kernels"
            if unknown
            else f"workload.mix: no weight for {min(set(kernels) - set(weights))!r}; give it one, "
            "or leave it out of workload.kernels"
        )


def _nbti_model(aging: Aging) -> NbtiModel:
    name = aging.model
    model = nbti_model(name, aging.constants)
    if type(model).__repr__ is object.__repr__:
        raise UserError(
            f"aging.model = {name!r}: its repr must tell its constants, so that results of others "
            "are not taken for its own: make it a dataclass"
        )
    return model


def _laws(spec: SweepSpec, nbti: NbtiModel) -> InstanceDistributions:
    vt0_volts = spec.aging.vt0_volts
    return InstanceDistributions(
        temperature_kelvin=Distribution.of(spec.life.temperature_kelvin),
        vt0_volts=Distribution.of(float(nbti.vt0_volts) if vt0_volts is None else vt0_volts),
        shift_factor=Distribution.of(spec.aging.shift_factor),
        activity=Distribution.of(spec.life.activity),
        temperature_swing_kelvin=Distribution.of(spec.life.temperature_swing_kelvin),
    )


def _planned(
    spec: SweepSpec, case: Case, nbti: NbtiModel, laws: InstanceDistributions
) -> _PlannedCase:
    life = spec.life
    faults = _fault_model(spec.faults, case.scenario)
    faults.check_vdd(case.scenario_vdd_volts)
    # Of temperatures that differ the laws know; the environment is given the middle one.
    conditions, shares = conditions_of(spec, case, laws.temperature_kelvin.at(0.5))
    highest_vt0_volts = laws.vt0_volts.bounds[1]
    is_own = bool(spec.points_of(case.environment))
    if is_own and highest_vt0_volts >= conditions.highest_vdd_volts:
        raise UserError(
            f"operating_points.{case.environment}: its highest Vdd, "
            f"{conditions.highest_vdd_volts:g} V, must exceed the "
            f"threshold voltage, {highest_vt0_volts:g} V"
        )
    given = {
        "aging.vt0_volts": spec.aging.vt0_volts,
        "aging.constants.vt0_volts": (spec.aging.constants or {}).get("vt0_volts"),
    }
    key, vt0 = next(((key, vt0) for key, vt0 in given.items() if vt0 is not None), ("", None))
    if vt0 is not None and highest_vt0_volts >= conditions.highest_vdd_volts:
        raise UserError(
            f"{key} = {vt0!r}: {highest_vt0_volts:g} V must stay below "
            f"the highest Vdd of environment {case.environment!r}, "
            f"{conditions.highest_vdd_volts:g} V"
        )
    if not faults.grows and conditions.lowest_vdd_volts != case.scenario_vdd_volts:
        raise UserError(
            f"environment {case.environment!r} asks for the faults at "
            f"{conditions.lowest_vdd_volts:g} V, but mode {faults.mode!r} knows those at "
            f"{case.scenario_vdd_volts:g} V only: choose undervolted, dvfs, or points of which "
            "that is the lowest, or mode varius"
        )
    return _PlannedCase(
        case=case,
        technique=technique(case.technique),
        faults=faults,
        rules=LifeConditions(
            environment=conditions,
            nbti=nbti,
            epoch_edges_years=spec.epoch_edges_years,
            delay_guardband=life.delay_guardband,
            vmin_coefficient=life.vmin_coefficient,
            lds_rows=spec.registers.lds_rows,
            spread_blocks=spec.faults.spread_blocks,
            laws=laws if shares is None else replace(laws, shares=shares),
            spill_limit=1.0 if life.spill_limit is None else life.spill_limit,
            holds_while_idle=life.idle == HELD,
        ),
    )


def _fault_model(faults: Faults, scenario_name: str) -> FaultModel:
    return fault_model(
        scenario_name,
        faults.mode,
        spread_blocks=faults.spread_blocks,
        slices_per_chip=faults.slices_per_chip,
        tolerance=faults.tolerance,
        sigma_die_volts=faults.sigma_die_volts,
        sigma_systematic_volts=faults.sigma_systematic_volts,
        sigma_random_volts=faults.sigma_random_volts,
        phi=faults.phi,
        mu_volts=faults.mu_volts,
    )


def _workloads(spec: SweepSpec, instances: NDArray[np.int64], kernels: int) -> NDArray[np.int64]:
    """Kernel of every period: int64[instances, periods]."""
    workload = spec.workload
    names = workload.kernels or KERNELS[:kernels]
    return draw_kernels(workload.mix, spec.seed, instances, names, workload.periods)


def _above(tail: TailCells, floor_volts: float) -> TailCells:
    return tail.at(np.flatnonzero(tail.vmin_volts > floor_volts), np.arange(tail.instances))


def _arrays(
    workload: NDArray[np.int64],
    constants: InstanceConstants,
    lives: list[Lives],
    consumptions: list[Consumption],
    histograms: list[NDArray[np.int64]],
) -> dict[str, NDArray[np.generic]]:
    """Arrays of the schema out of the lives of a batch, one `Lives` per case."""
    every = _stacked(lives) | _stacked(consumptions)
    writes = every["writes"]
    worked = every["life_seconds"] > 0

    def of_working(name: str) -> NDArray[np.float64]:
        """Values of the slices that worked at all: a slice dead on arrival has none."""
        values = every[name]
        return np.where(worked.reshape(worked.shape + (1,) * (values.ndim - 2)), values, np.nan)

    return {
        "workload": workload.astype(np.int16),
        **{name: np.broadcast_to(getattr(constants, name), len(workload)) for name in OF_SLICES},
        "temperature_swing_kelvin": np.broadcast_to(
            constants.temperature_swing_kelvin, every["epoch_faulty"].shape[1:]
        ),
        "life_years": every["life_seconds"] / SECONDS_PER_YEAR,
        "end_cause": every["end_cause"],
        "max_dvth_mv": 1e3 * of_working("max_dvth_volts"),
        "longest_duty": of_working("longest_duty"),
        "write_share": writes,
        "spill_rate": writes[..., 3],
        "peak_spilled_rows": every["peak_spilled_rows"],
        "faulty_entries_start": every["faulty_start"],
        "faulty_entries_end": every["faulty_end"],
        "wakeups_per_write": every["wakeups"],
        "movs_per_write": every["movs"],
        "mispredictions_per_write": every["mispredictions"],
        "delay_increase": of_working("delay_increase"),
        "slowdown": every["slowdown"],
        "power_mw": every["power_mw"],
        "energy_saving": every["energy_saving"],
        "conventional_power_mw": every["conventional_power_mw"],
        "energy_saving_nominal": 1
        - every["power_mw"] * (1 + every["slowdown"]) / every["conventional_power_mw"],
        "epoch_max_dvth_mv": 1e3 * every["epoch_max_dvth_volts"],
        "epoch_faulty_entries": every["epoch_faulty"],
        "epoch_peak_spilled_rows": every["epoch_peak_spilled"],
        "dvth_histogram": np.stack(histograms),
    }


def _stacked(of_cases: Sequence[Lives] | Sequence[Consumption]) -> dict[str, NDArray[Any]]:
    """Each field of some values of one kind, the cases in front."""
    return {
        field.name: np.stack([getattr(one, field.name) for one in of_cases])
        for field in fields(of_cases[0])
    }


def _histogram(dvth_mv: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cells per bin: float64[instances, sample, 2] to int64[2, bins]."""
    bins = len(DVTH_BIN_EDGES_MV) - 1  # each of one millivolt
    number = np.minimum(dvth_mv, bins - 1).astype(np.int64)
    return np.stack([np.bincount(number[..., one].ravel(), minlength=bins) for one in range(2)])


def _joined(batches: Iterable[dict[str, NDArray[np.generic]]]) -> Arrays:
    parts = list(batches)
    joined: dict[str, NDArray[np.generic]] = {}
    for variable in VARIABLES:
        arrays = [part[variable.name] for part in parts]
        if variable.per_instance:
            joined[variable.name] = np.concatenate(arrays, axis=variable.dims.index("instance"))
        else:
            joined[variable.name] = np.sum(arrays, axis=0)
    return joined
