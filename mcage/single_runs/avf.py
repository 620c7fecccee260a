"""`mcage.avf`: AVF of traces under techniques, and reads of stuck cells."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import fault_free_maps
from mcage.errors import UserError
from mcage.files.inputs import PathLike, listed, named_file
from mcage.geometry import Bytes, SliceGeometry
from mcage.replays.prepare import prepare
from mcage.single_runs.replay import load_fault_maps, parse_delta_limit
from mcage.soft_errors.ace import (
    PlacedWrites,
    TechniqueAce,
    placed,
    shares_of_places,
    vulnerability,
)
from mcage.soft_errors.stuck import StuckCells, load_stuck_cells, wrong_reads
from mcage.stats.estimates import plain
from mcage.techniques import technique as named_technique
from mcage.traces import Trace, open_trace
from mcage.traces.transforms import WAVEFRONT, released

ORDERS = {"writes first": False, "reads first": True}
"""Orders in a cycle, and whether a read sees the value before a write of the same cycle."""


def avf(
    traces: Trace | PathLike | Sequence[Trace | PathLike],
    technique: str | Sequence[str] = "baseline",
    fault_map: PathLike | None = None,
    release: str = WAVEFRONT,
    delta_limit: int | str | None = 64,
    by: Literal["entry", "bit"] | None = None,
    stuck_cells: PathLike | None = None,
    seed: int = 1,
) -> list[dict[str, Any]]:
    """Compute how vulnerable a slice is: AVF by ACE time, under techniques, with stuck cells.

    Parameters
    ----------
    traces : Trace, str or path, or a sequence of these
        Traces, names of bundled kernels, or trace files.
    technique : str or sequence of str
        Names of techniques, without placement programs.
    fault_map : path, optional
        NumPy file, uint8 of shape (instances, 256); by default a slice without faults.
    release : str
        When windows are released: ``wavefront`` or ``work-group``.
    delta_limit : int or None
        Largest delta of a compressible value.
    by : str, optional
        ``entry`` or ``bit``: the AVF of each.
    stuck_cells : path, optional
        NumPy file of integers, shape (cells, 3): instance, cell, value or -1.
    seed : int
        Seed of the values that are drawn.

    Returns
    -------
    list of dict
        A row for each trace, technique, instance and order in a cycle; unknown numbers are None.
        ``avf_of_registers`` follows the rule by which each write ends the values of all lanes. With
        `by`, a row for each entry or bit instead.

    Raises
    ------
    UserError
        There is no such trace or technique, a file is refused, or a technique cannot run.
    """
    techniques = [named_technique(name) for name in listed(technique)]
    limit = parse_delta_limit("none" if delta_limit is None else str(delta_limit))
    map_file = None if fault_map is None else named_file(fault_map)
    cell_file = None if stuck_cells is None else named_file(stuck_cells)
    asked: Any = traces if isinstance(traces, list | tuple) else [traces]
    opened = [each if isinstance(each, Trace) else open_trace(each) for each in asked]
    rows: list[dict[str, Any]] = []
    for trace in opened:
        trace = released(trace, release)
        maps, stuck, instances = _faults(trace.geometry, map_file, cell_file, seed)
        for name in techniques:
            replay = prepare(trace, name, limit)
            for instance in instances:
                where = placed(replay, _map_of(maps, instance))
                for order, reads_first in ORDERS.items():
                    names = {
                        "trace": trace.name,
                        "technique": name.name,
                        "instance": instance,
                        "order": order,
                    }
                    ace = TechniqueAce.of(where, reads_first=reads_first)
                    if by:
                        rows += _by(names, ace, by)
                        continue
                    row = names | _figures(where, ace, reads_first)
                    if stuck:
                        row |= _stuck(where, ace, stuck.get(instance, _NO_CELLS))
                    rows.append(plain(row))
    return rows


def _faults(
    geometry: SliceGeometry, fault_map: Path | None, stuck_cells: Path | None, seed: int
) -> tuple[NDArray[np.uint8], dict[int, StuckCells], Sequence[int]]:
    """Fault maps, stuck cells by instance, and instances: without maps, those with stuck cells."""
    maps: NDArray[np.uint8] = fault_free_maps(geometry=geometry)
    stuck: dict[int, StuckCells] = {}
    if fault_map:
        maps = load_fault_maps(fault_map, geometry)
    if stuck_cells:
        stuck = load_stuck_cells(stuck_cells, geometry, seed)
        if fault_map and (highest := max(stuck)) >= len(maps):
            raise UserError(
                f"{stuck_cells}: cells of instance {highest}, but {fault_map} has maps of "
                f"{len(maps)} instances"
            )
    return maps, stuck, range(len(maps)) if fault_map or not stuck else sorted(stuck)


def _map_of(maps: Bytes, instance: int) -> Bytes:
    return np.asarray(maps[instance if len(maps) > 1 else 0])


def _by(names: dict[str, Any], ace: TechniqueAce, by: str) -> Iterator[dict[str, Any]]:
    for place, avf in enumerate((ace.by_entry if by == "entry" else ace.by_bit).tolist()):
        yield names | {by: place, "avf": avf}


def _figures(where: PlacedWrites, ace: TechniqueAce, reads_first: bool) -> dict[str, Any]:
    whole = vulnerability(where.schedule.trace, ace.needs)
    shares = shares_of_places(where, ace.needs)
    return {
        "avf": ace.avf,
        "avf_of_allocated": ace.avf / whole.allocated,
        "avf_of_registers": TechniqueAce.of(where, reads_first=reads_first, by_lane=False).avf,
        "allocated": whole.allocated,
        "resident": whole.resident,
        "writes": whole.writes,
        "dead_writes": whole.dead_writes,
        **{f"in_{place}": share for place, share in shares.items()},
    }


def _stuck(where: PlacedWrites, ace: TechniqueAce, cells: StuckCells) -> dict[str, Any]:
    """Reads of the stuck cells of an instance."""
    wrong = wrong_reads(where, ace.needs, cells)
    return {
        "stuck_cells": len(cells.cell),
        "wrong_reads": wrong.reads,
        "wrong_values": wrong.values,
        "differing": wrong.differing,
    }


_NO_CELLS = StuckCells(np.empty(0, np.int64), np.empty(0, np.bool_))
