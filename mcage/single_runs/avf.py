"""What `mcage avf` prints: AVF of traces under techniques, and reads of stuck cells."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mcage.engines.interface import fault_free_maps
from mcage.errors import UserError
from mcage.geometry import Bytes
from mcage.replays.prepare import prepare
from mcage.single_runs.replay import load_fault_maps
from mcage.soft_errors.ace import (
    Placed,
    TechniqueAce,
    byte_times,
    needs_of,
    placed,
    shares_of_places,
    vulnerability,
)
from mcage.soft_errors.stuck import StuckCells, wrong_reads
from mcage.soft_errors.stuck_files import load_stuck_cells
from mcage.techniques import Technique
from mcage.traces import Trace
from mcage.traces.transforms import WAVEFRONT, released

ORDERS = {"writes first": False, "reads first": True}
"""Orders in a cycle, and whether a read sees the value before a write of the same cycle."""

By = Literal["entry", "bit"]


@dataclass(frozen=True)
class Question:
    """What is asked of every trace.

    Parameters
    ----------
    techniques : sequence of Technique
        Without placement programs.
    fault_map : Path, optional
        File of `load_fault_maps`; by default a slice without faults.
    stuck_cells : Path, optional
        File of `load_stuck_cells`.
    delta_limit : int or None
        Largest delta of a compressible value.
    release : str
        When windows are released: ``wavefront`` or ``work-group``.
    by : str, optional
        ``entry`` or ``bit``: AVF of each entry, or of each bit of an entry.
    seed : int
        Seed of the values of stuck cells.
    """

    techniques: Sequence[Technique]
    fault_map: Path | None = None
    stuck_cells: Path | None = None
    delta_limit: int | None = 64
    release: str = WAVEFRONT
    by: By | None = None
    seed: int = 1


def avf_rows(trace: Trace, question: Question) -> Iterator[dict[str, Any]]:
    """Figures of a trace: a row for each technique, instance and order in a cycle.

    Parameters
    ----------
    trace : Trace
        A valid trace.
    question : Question
        What is asked.

    Yields
    ------
    dict of str to Any
        Ready for JSON; unknown numbers are None. ``avf_of_registers`` follows the rule by which
        each write ends the values of all lanes. With `by`, a row for each entry or bit instead.

    Raises
    ------
    UserError
        A file is refused, or a technique cannot run the trace on a fault map.
    """
    trace, geometry = released(trace, question.release), trace.geometry
    maps: NDArray[np.uint8] = fault_free_maps(geometry=geometry)
    if question.fault_map:
        maps = load_fault_maps(question.fault_map, geometry)
    stuck: dict[int, StuckCells] = {}
    if question.stuck_cells:
        stuck = load_stuck_cells(question.stuck_cells, geometry, question.seed)
        _check_instances(question, stuck, len(maps))
    for technique in question.techniques:
        replay = prepare(trace, technique, question.delta_limit)
        for instance in _instances(question, stuck, len(maps)):
            where = placed(replay, _map_of(maps, instance))
            for order, reads_first in ORDERS.items():
                names = {
                    "trace": trace.name,
                    "technique": technique.name,
                    "instance": instance,
                    "order": order,
                }
                ace = _ace(where, reads_first)
                if question.by:
                    yield from _by(names, ace, question.by)
                    continue
                row = names | _figures(where, ace, reads_first)
                if stuck:
                    row |= _stuck(where, ace, stuck.get(instance, _NO_CELLS))
                yield {
                    key: None if isinstance(of, float) and math.isnan(of) else of
                    for key, of in row.items()
                }


def _check_instances(question: Question, stuck: dict[int, StuckCells], maps: int) -> None:
    """Refuse stuck cells of an instance without a fault map, if there are fault maps."""
    if question.fault_map and (highest := max(stuck)) >= maps:
        raise UserError(
            f"{question.stuck_cells}: cells of instance {highest}, but {question.fault_map} has "
            f"maps of {maps} instances"
        )


def _instances(question: Question, stuck: dict[int, StuckCells], maps: int) -> Sequence[int]:
    """Instances of the maps; without maps, those that have stuck cells."""
    return range(maps) if question.fault_map or not stuck else sorted(stuck)


def _map_of(maps: Bytes, instance: int) -> Bytes:
    return np.asarray(maps[instance if len(maps) > 1 else 0])


def _ace(where: Placed, reads_first: bool, by_lane: bool = True) -> TechniqueAce:
    needs = needs_of(where.schedule.trace, reads_first=reads_first, by_lane=by_lane)
    return TechniqueAce(where, needs, byte_times(where, needs))


def _by(names: dict[str, Any], ace: TechniqueAce, by: By) -> Iterator[dict[str, Any]]:
    for place, avf in enumerate((ace.by_entry if by == "entry" else ace.by_bit).tolist()):
        yield names | {by: place, "avf": avf}


def _figures(where: Placed, ace: TechniqueAce, reads_first: bool) -> dict[str, Any]:
    whole = vulnerability(where.schedule.trace, ace.needs)
    shares = shares_of_places(where, ace.needs)
    return {
        "avf": ace.avf,
        "avf_of_allocated": ace.avf / whole.allocated,
        "avf_of_registers": _ace(where, reads_first, by_lane=False).avf,
        "allocated": whole.allocated,
        "resident": whole.resident,
        "writes": whole.writes,
        "dead_writes": whole.dead_writes,
        **{f"in_{place}": share for place, share in shares.items()},
    }


def _stuck(where: Placed, ace: TechniqueAce, cells: StuckCells) -> dict[str, Any]:
    """Reads of the stuck cells of an instance."""
    wrong = wrong_reads(where, ace.needs, cells, np.zeros(1))
    return {
        "stuck_cells": len(cells.cell),
        "wrong_reads": float(wrong.reads[0]),
        "wrong_values": float(wrong.values[0]),
        "differing": wrong.differing,
    }


_NO_CELLS = StuckCells(np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0))
