"""From the spec of a sweep to all that its instances share: cases, traces, models, replays."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from llvmlite.binding import get_host_cpu_name
from numpy.typing import NDArray

from mcage.aging.nbti import NbtiModel, nbti_model
from mcage.aging.sampling import ConstantDraws, InstanceDistributions
from mcage.concurrency import usable_cores
from mcage.costs import Activity, conventional
from mcage.distributions import Distribution
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.files.disk_cache import arrays_of_record, kept_on_disk, record_of_arrays
from mcage.geometry import SliceGeometry
from mcage.lifetime.feasibility import FaultFreeReplays, fault_free_replays
from mcage.lifetime.outcomes import Meter
from mcage.replays.prepare import PreparedReplay, prepare
from mcage.spec import SweepSpec
from mcage.spec.draws import OF_MODEL, Draws
from mcage.spec.sections import Aging
from mcage.sweep.cases import OF_FAULTS, plan_cases
from mcage.sweep.kernels import check_weights, traces_of
from mcage.techniques import Technique
from mcage.traces import Trace
from mcage.traces.recorded import RecordedTrace
from mcage.traces.transforms import HELD, held_while_idle
from mcage.version import code_digest

_OF_ITS_NAME = "synthesized from the profile of its name"
"""So that one sentence says it of all bundled profiles."""

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
        self.traces: tuple[RecordedTrace, ...] = self.like.traces if self.like else traces_of(spec)
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

    def _check_cases(self) -> None:
        """Refuse what only the engine, the models and the traces can tell."""
        for case in self.cases:
            self.engine.check(case.technique)
        for case in self.cases:  # refuses a model under which the worst cell cannot be found
            case.conditions.check_model()
        for case in self.cases:  # refuses a floor that the fault model says nothing about
            no_instance = np.empty(0, np.int64)
            for faults in case.faults_of_rows or (case.faults,):
                faults.sample(self.spec.seed, no_instance, case.conditions.floor_volts)
        for case in self.cases:  # refuses windows that do not fit in turn, or cannot be packed
            if case.technique.may_lack_room:
                self._prepared(case.technique, self.traces)

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
    def knows_margins(self) -> bool:
        """Whether cells fail by margins that are told apart."""
        return any(case.conditions.margins is not None for case in self.cases)

    @property
    def reprs_of_cells(self) -> tuple[str, ...]:
        """All that decides when aged cells fail, as text, where it is not the default."""
        conditions = self.cases[0].conditions
        return tuple(repr(each) for each in (conditions.pbti, conditions.margins) if each)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What must be said wherever the results are shown."""
        names: dict[str, list[str]] = {}
        for trace in self.traces:
            of_its_name = trace.caveat.replace(f"synthesized from {trace.name}", _OF_ITS_NAME)
            names.setdefault(of_its_name, []).append(trace.name)
        caveats = [f"{', '.join(of)}: {caveat}" for caveat, of in names.items() if caveat]
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
        known = self.like.fault_free if self.like else {}
        techniques = {
            case.case.technique: case.technique
            for case in self.cases
            if case.case.technique not in known
        }
        replays = self.in_threads(self._fault_free, techniques.values())
        return known | dict(zip(techniques, replays, strict=True))

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
        given = (idle, self.spec.delta_limit, registers.selector_offsets, self.engine.name)
        traces = [trace.digest() for trace in self.traces]
        return f"{given} {traces} {code_digest()} {np.__version__} {get_host_cpu_name()}"

    def _prepared(
        self, technique: Technique, traces: Sequence[Trace | RecordedTrace]
    ) -> tuple[PreparedReplay, ...]:
        limit, offsets = self.spec.delta_limit, self.spec.registers.selector_offsets
        return tuple(prepare(trace, technique, limit, offsets) for trace in traces)

    @cached_property
    def conventional(self) -> tuple[Activity, ...]:
        """What every kernel does on a conventional register file."""
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
        return tuple(record_of_arrays(Activity, arrays, str(kernel)) for kernel in kernels)

    @cached_property
    def meters(self) -> tuple[Meter, ...]:
        """By case: what tells the slowdown and the power of its lives."""
        technology, penalties = self.spec.costs.of_technology, self.spec.costs.penalties
        return tuple(
            Meter(
                fault_free=self.fault_free[case.case.technique],
                conventional=self.conventional,
                environment=case.conditions.environment,
                technology=technology,
                penalties=penalties,
                time_fractions_vary=case.conditions.distributions.time_fractions is not None,
            )
            for case in self.cases
        )

    def prepare(self) -> None:
        """Compute what all instances share, once; otherwise the first batch does."""
        with self._preparing:
            _ = self.meters

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
        return (*traces, life.idle, busy, *registers.model_dump(exclude={"lds_rows"}).values())

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
    given = {name: draws.columns[OF_MODEL + name][row] for name in draws.of_model}
    try:
        return nbti_model(spec.aging.model, {**(spec.aging.constants or {}), **given})
    except UserError as error:
        raise UserError(f"{draws.place(row)}: {error}") from error
