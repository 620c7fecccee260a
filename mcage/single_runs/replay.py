"""`mcage.replay` and what `mcage replay` prints: a steady pass of a trace under a technique."""

import os
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.costs.activity import CONVENTIONAL, activity_of, conventional
from mcage.costs.energy import Energy, Slowdown, energy, slowdown
from mcage.engines import engine_of
from mcage.engines.interface import Engine, fault_free_maps
from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, array_of_npy, read_regular
from mcage.geometry import SliceGeometry
from mcage.plain_text import shortened
from mcage.replays.outcome import Counters
from mcage.replays.prepare import PackedReplay, PreparedReplay, ProgrammedReplay, prepare
from mcage.results.writer import Arrays
from mcage.spec import SweepSpec
from mcage.spec.sections import Costs
from mcage.studies.sweep.plan import SweepPlan
from mcage.studies.sweep.study import Sweep
from mcage.techniques import Technique
from mcage.techniques import technique as named_technique
from mcage.traces import Trace, open_trace
from mcage.traces.transforms import WAVEFRONT, released
from mcage.variation.scenarios import scenario

# The case of a study: the only case of a sweep, planned, and computed again under changed keys.
#
# An evaluation is a sweep like any other, of the spec of the case with changed keys, so that
# `mcage sweep` gives the same numbers. Dies and workloads follow from the seed and the instance,
# so that all evaluations are of the same dies (common random numbers).


@dataclass(frozen=True, eq=False)
class SingleCase:
    """The only case of a sweep.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case.
    engine : Engine
        Engine that computes lives.
    study : str
        Name of the study in messages, with its article.
    like : Sweep, optional
        A sweep on the same engine. Its traces and fault-free replays are taken over where they
        would be the same.

    Raises
    ------
    UserError
        The spec has a stopping rule, several cases, or a value that the case has no use for.
    """

    spec: SweepSpec
    engine: Engine
    study: str
    like: Sweep | None = None

    def __post_init__(self) -> None:
        spec = self.spec
        if spec.stopping is not None:
            raise UserError(
                f"stopping: {self.study} computes as many "
                "instances as the spec says; leave it out of the spec"
            )
        cases = spec.cases({name: scenario(name) for name in spec.scenarios})
        if len(cases) != 1:
            raise UserError(
                f"{len(cases)} cases: {self.study} is of one technique, environment, scenario and "
                "vdd at a time"
            )
        spec.refuse_unused()

    @cached_property
    def _sweep(self) -> Sweep:
        return Sweep(self.spec, self.engine, like=self.like)

    @property
    def plan(self) -> SweepPlan:
        """Traces, models and conditions of the case, checked; its replays are not prepared yet."""
        return self._sweep.plan

    @property
    def label(self) -> str:
        """Name of the case in files and tables."""
        return self.plan.cases[0].label

    def compute(self, spec: SweepSpec) -> Arrays:
        """Arrays of the results file of a changed spec, for all instances of the case.

        Traces and fault-free replays of the case are used again where they would be the same.

        Raises
        ------
        UserError
            A model or a technique refuses the spec.
        """
        return Sweep(spec, self.engine, like=self._sweep).compute(0, self.spec.instances)


BATCH = 16
"""Number of instances whose cell times are in memory at once."""

MOST_FAULT_MAP_BYTES = 64 * MIB
"""Largest file of fault maps: 262,143 instances."""


def parse_delta_limit(text: str) -> int | None:
    """Parse a delta limit: a power of two, or "none".

    Raises
    ------
    UserError
        The text is neither.
    """
    if text == "none":
        return None
    number = int(text) if text.isdecimal() and len(text) < 20 else 0
    if 1 <= number <= 2**31 and number.bit_count() == 1:
        return number
    raise UserError(f"delta limit {shortened(text)}: a power of two up to 2**31, or none")


def load_fault_maps(path: Path, geometry: SliceGeometry) -> NDArray[np.uint8]:
    """Read fault maps from a NumPy file: uint8[instances, entries], 64 MiB at most.

    Parameters
    ----------
    path : Path
        The file.
    geometry : SliceGeometry
        The slice that they are maps of.

    Raises
    ------
    UserError
        The file cannot be read, or holds anything else.
    """
    try:
        maps = _array(path, read_regular(path, MOST_FAULT_MAP_BYTES), geometry)
    except UnreadableFileError as error:
        raise UserError(f"{path}: no NumPy file with a fault map ({error.reason})") from error
    if not len(maps):
        raise UserError(f"{path}: no instance in it")
    if maps.max() >= 1 << geometry.blocks:
        instance, entry = np.argwhere(maps >= 1 << geometry.blocks)[0]
        raise UserError(
            f"{path}: value {maps[instance, entry]} of instance {instance}, entry {entry}: "
            f"only bits 0 ... {geometry.blocks - 1} stand for blocks"
        )
    return np.ascontiguousarray(maps)


def _array(path: Path, content: bytes, geometry: SliceGeometry) -> NDArray[np.uint8]:
    """Fault maps of the content of a NumPy file."""
    if content.startswith(b"PK"):
        raise UserError(f"{path}: an archive of several arrays; one array is needed (.npy)")
    try:
        maps = array_of_npy(content)
    except ValueError as error:
        raise UserError(f"{path}: no NumPy file with a fault map ({error!s:.100})") from error
    if maps.dtype != np.uint8 or maps.shape[1:] != (geometry.entries,):
        raise UserError(
            f"{path}: {maps.dtype!s:.60}{list(maps.shape)!s:.60}, where "
            f"uint8[instances, {geometry.entries}] is needed"
        )
    return maps


def replay(
    trace: Trace | str | os.PathLike[str],
    technique: Technique | str,
    fault_maps: NDArray[np.uint8] | None = None,
    delta_limit: int | None = 64,
    engine: Engine | str = "auto",
    technology: str | Costs = "28nm",
    vdd_volts: float | None = None,
    release: str = WAVEFRONT,
) -> dict[str, Any]:
    """Counters, duty cycles, slowdown and energy of a steady pass, ready for JSON.

    Parameters
    ----------
    trace : Trace, str or path
        The kernel that runs: a trace, the name of a bundled one, or the path of a trace file.
    technique : Technique or str
        The technique of the register file: a name as of `mcage.technique`, or the value itself.
    fault_maps : uint8[I, 256], optional
        Of I instances; bit b set: block b of that entry is unusable. None: one without faults.
    delta_limit : int or None
        Largest delta of a compressible value: 64 as published, None for any power of two.
    engine : Engine or str
        An engine or its name; ``auto`` is the engine that mcage chooses.
    technology : str or Costs
        Constants of energy and slowdown, ``28nm`` or ``32nm``; or the section `costs` of a spec.
    vdd_volts : float, optional
        Supply voltage of the slice; by default the nominal voltage of the technology.
    release : str
        When windows are released: with their ``wavefront``, or with the ``work-group`` as recorded.

    Returns
    -------
    dict of str to Any
        What a fault map can change is a list with a value per instance, also without fault maps:
        then there is a single instance without faults. Counters of rotating selectors are means
        over their starting entries. Slowdown and energy are None where the kernel cannot run, and
        energy where its constants are not known.

    Raises
    ------
    UserError
        There is no such trace, technique, engine, technology or release, the Vdd is out of range,
        the engine does not implement a policy of the technique, or the technique cannot run the
        trace.

    Examples
    --------
    ``mcage.replay("Reduction", "rrcd")["longest_zero_duty"]``
    """
    if isinstance(technology, str):
        technology = SweepSpec.from_mapping({"costs": {"technology": technology}}, "replay").costs
    technology.of_technology.slice_at(vdd_volts)  # refuses both before anything is replayed
    trace = trace if isinstance(trace, Trace) else open_trace(trace)
    technique = named_technique(technique) if isinstance(technique, str) else technique
    maps = fault_free_maps(geometry=trace.geometry) if fault_maps is None else fault_maps
    engine = engine_of(engine)
    engine.check(technique)
    prepared = prepare(released(trace, release), technique, delta_limit)
    schedule = prepared.schedule
    counters = engine.count(prepared, maps)
    longest_zero, longest_one = _longest_duties(engine, prepared, maps)
    waits = _waits(prepared, maps)

    def each(values: NDArray[np.generic]) -> list[int | float]:
        return [_plain(value) for value in values]

    def mean(name: str) -> NDArray[np.float64]:
        counts: NDArray[np.float64] = getattr(counters, name) / counters.passes
        return counts

    return {
        "trace": trace.name,
        "caveat": "; ".join(filter(None, [trace.caveat, technology.caveat_on(trace.geometry)])),
        "geometry": trace.geometry.name,
        "technique": technique.name,
        "engine": engine.name,
        "delta_limit": delta_limit,
        "release": release,
        "instances": len(maps),
        "writes": {
            kind: each(mean(kind)) for kind in ("regular", "to_reliable", "to_faulty", "lds")
        },
        "reads": {
            "slice": each(schedule.reads * np.isfinite(waits) - mean("lds_reads")),
            "lds": each(mean("lds_reads")),
        },
        "peak_spilled_rows": each(counters.peak_spilled_rows),
        "mean_spilled_rows": _mean_spilled_rows(prepared, counters).tolist(),
        "mov_writes": schedule.mov_writes,
        "wakeups": each(mean("wakeups")),
        "mispredicted_writes": schedule.mispredicted_writes,
        **_long_run(engine, prepared, maps),
        "longest_zero_duty": longest_zero.tolist(),
        "longest_one_duty": longest_one.tolist(),
        "compressible_write_share": schedule.compressible_writes / schedule.writes,
        "window_size": _single(trace.window_sizes),
        "concurrent_windows": _concurrent_windows(prepared, maps),
        "cycles": schedule.cycles,
        "needed_faulty_entries": each(((maps != 0) & prepared.needed).sum(axis=1)),
        **_costs_of(prepared, counters, waits, technology, vdd_volts),
    }


def _costs_of(
    replay: PreparedReplay,
    counters: Counters,
    waits: NDArray[np.float64],
    costs: Costs,
    vdd_volts: float | None,
) -> dict[str, Any]:
    technique, node = replay.technique, costs.of_technology
    did, reference = activity_of(replay, counters), conventional(replay.schedule.trace)
    slower, runs = slowdown(did, technique, node, costs.penalties), np.isfinite(waits)
    longer = (1 + slower.total) * (1 + waits) - 1
    spent = energy(did, technique, node, vdd_volts, np.where(runs, longer, 0.0))
    before = energy(reference, CONVENTIONAL, node, vdd_volts)
    nominal = energy(reference, CONVENTIONAL, node)

    def each(values: NDArray[np.float64]) -> list[float | None]:
        known = runs & ~np.isnan(values)
        return [
            float(value) if is_known else None
            for value, is_known in zip(values, known, strict=True)
        ]

    return {
        "technology": costs.technology,
        "vdd_volts": node.nominal_vdd_volts if vdd_volts is None else vdd_volts,
        "slowdown": {
            **{cause: each(values) for cause, values in _parts(slower)},
            "waiting": each(waits),
            "total": each(longer),
        },
        "energy": {
            **{f"{part}_pj": each(values) for part, values in _parts(spent)},
            "total_pj": each(spent.total),
            "saving": each(1 - spent.total / before.total),
            "saving_over_nominal_vdd": each(1 - spent.total / nominal.total),
        },
    }


def _parts(of: Slowdown | Energy) -> list[tuple[str, NDArray[np.float64]]]:
    return [(field.name, getattr(of, field.name)) for field in fields(of)]


def _waits(replay: PreparedReplay, maps: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Cycles lost to waiting for a window, per recorded cycle; infinite where no window fits."""
    if not isinstance(replay, PackedReplay):
        return np.zeros(len(maps))
    return replay.packing.slowdown(maps)


def _concurrent_windows(replay: PreparedReplay, maps: NDArray[np.uint8]) -> int | list[Any]:
    """Number of windows open at once; under packing, number that fit, by size, per instance."""
    if not isinstance(replay, PackedReplay):
        return replay.schedule.trace.concurrent_windows
    return [_single(replay.packing.places(fault_map)) for fault_map in maps]


def _mean_spilled_rows(replay: PreparedReplay, counters: Counters) -> NDArray[np.float64]:
    mean: NDArray[np.float64] = counters.spilled_row_cycles / (
        counters.passes * replay.schedule.cycles
    )
    return mean


def _longest_duties(
    engine: Engine, replay: PreparedReplay, maps: NDArray[np.uint8]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    parts = []
    for start in range(0, len(maps), BATCH):
        times = engine.cell_times(replay, maps[start : start + BATCH])
        parts.append((times.longest_zero_duty, times.longest_one_duty))
        if not replay.technique.heeds_faults:
            return parts[0][0].repeat(len(maps)), parts[0][1].repeat(len(maps))
    return np.concatenate([zeros for zeros, _ in parts]), np.concatenate(
        [ones for _, ones in parts]
    )


def _long_run(
    engine: Engine, replay: PreparedReplay, maps: NDArray[np.uint8]
) -> dict[str, list[int]]:
    """Passes that stand for the long run of a placement program; nothing for other techniques."""
    if not isinstance(replay, ProgrammedReplay):
        return {}
    return {"long_run_passes": [engine.programs.long_run(replay, each).passes for each in maps]}


def _plain(value: Any) -> int | float:
    """Convert a number to an integer where it is whole, else to a float."""
    number = float(value)
    whole = isinstance(value, np.floating) and not number.is_integer()
    return number if whole else int(number)


def _single(sizes: tuple[int, ...]) -> int | list[int]:
    return sizes[0] if len(sizes) == 1 else list(sizes)
