"""What the tests of lives have in common: traces whose duty cycles are known, and tails by hand."""

from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from nbti_cases import prefactor_of
from trace_strategies import alloc, release, trace_of, write

from mcage.aging.environment import environment
from mcage.aging.nbti import SECONDS_PER_YEAR, facelift
from mcage.aging.sampling import InstanceDistributions
from mcage.engines.interface import Engine
from mcage.engines.numba_engine import NumbaEngine
from mcage.engines.numpy_engine import NumpyEngine
from mcage.engines.stress import Turns
from mcage.lifetime.conditions import LifeConditions
from mcage.lifetime.faults import SliceLuck, luck_and_limits
from mcage.lifetime.feasibility import (
    FaultFreeReplays,
    Limits,
    duties_without_faults,
    fault_free_replays,
)
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.protection.policy import ECP, protection
from mcage.replays.prepare import prepare
from mcage.techniques import TECHNIQUES
from mcage.traces.model import COLUMNS, Trace
from mcage.variation.fault_models import NewSlices
from mcage.variation.vmin_tail import TailCells

NUMPY, NUMBA = NumpyEngine(), NumbaEngine()
YEAR = SECONDS_PER_YEAR
MODEL = facelift()
CYCLES = 100
NEVER = 100.0
"""A guardband that no life of these tests uses up."""


def random_values(rows, seed=0):
    """Contents that no rule compresses, uint32[rows, 64]."""
    values = np.random.default_rng(seed).integers(0, 2**32, (rows, 64), dtype=np.uint32)
    values[:, 0] = values[:, 1] + 3  # no power of two
    return values


def steady_trace(values):
    """One window whose registers hold one value each, all the time, pass after pass."""
    rows = len(values)
    events = [alloc(0, 0, rows), release(CYCLES - 1, 0)]
    events += [write(0, 0, reg, value) for reg, value in enumerate(values)]
    return trace_of(events, CYCLES)


def alternating_trace(value, cycles_before, other):
    """One register that holds `value` for so many of 100 cycles, then `other`."""
    events = [alloc(0, 0, 1), write(0, 0, 0, value), write(cycles_before, 0, 0, other)]
    return trace_of([*events, release(CYCLES - 1, 0)], CYCLES)


def cell(entry, bit=0):
    return 2048 * entry + bit


def tail_of(*instances):
    """Tail cells of instances, each a dict from cell to Vmin."""
    parts = [
        (np.array(list(weak), dtype=np.int32), np.array(list(weak.values()), dtype=float))
        for weak in instances
    ]
    return TailCells.join(parts)


def whole_entries(entries):
    """Tail in which these entries have a faulty cell in each of their blocks at any Vdd."""
    return {cell(entry, 512 * block): np.inf for entry in entries for block in range(4)}


def rules(**changes):
    """Rules of a life at 1.0 V for ten years of ten epochs, which ends by faults only."""
    given = {
        "environment": environment("turbo", 0.419),
        "nbti": MODEL,
        "epoch_edges_years": tuple(float(year) for year in range(11)),
        "delay_guardband": NEVER,
        "vmin_coefficient": 1.0,
        "protection": ECP.name,
    } | changes
    given["protection"] = protection(given["protection"], given.pop("spread_blocks", False))
    names = {field.name for field in fields(Limits)}
    limits = {name: given.pop(name) for name in names & given.keys()}
    given["limits"] = Limits(**{"lds_rows": 32} | limits)
    given.setdefault("distributions", InstanceDistributions.nominal(given["nbti"], 353.15))
    return LifeConditions(**given)


@dataclass(frozen=True)
class Alike:
    """A trace that equals others of the same content."""

    trace: Trace = field(compare=False)
    content: tuple

    @classmethod
    def of(cls, trace):
        columns = (getattr(trace, column.attribute).tobytes() for column in COLUMNS)
        return cls(trace, (trace.kernels, trace.cycles, *columns))


@lru_cache(maxsize=12)
def _shared_replays(engine, alike, technique, room, code):
    replays = (prepare(given.trace, technique, lds_rows=room) for given in alike)
    shared = fault_free_replays(engine, tuple(replays))
    if code is None:
        return shared
    check = (prepare(given.trace, technique, lds_rows=room, code=code) for given in alike)
    return replace(shared, check_duties=duties_without_faults(engine, tuple(check)))


def shared_replays(engine, traces, technique, limits=None, code=None):
    """Replays of traces, computed once for all traces of the same content."""
    room = limits.lds_rows if limits and limits.to_memory else None
    return _shared_replays(engine, tuple(map(Alike.of, traces)), technique, room, code)


def in_sequence(kernels):
    """Workload of instances that run one kernel in each epoch: int64[instances, epochs]."""
    if isinstance(kernels[0], Turns):
        return kernels
    return [Turns.single(kernel) for kernel in np.asarray(kernels, dtype=np.int64).T]


class Ready(NamedTuple):
    """Arguments of `simulate_lifetimes`, what their weak cells are, and what is drawn for these."""

    conditions: LifeConditions
    engine: Engine
    fault_free: FaultFreeReplays
    batch: SliceBatch
    weak: TailCells
    luck: SliceLuck


def ready(
    traces,
    technique,
    tail=None,
    sample=(),
    kernels=None,
    engine=None,
    constants=None,
    ids=None,
    **changes,
):
    """The instances of a tail: one healthy instance by default.

    `kernels` is the kernel of every epoch of every instance, the first one by default; or `Turns`
    of every epoch. `ids` are the ids of the instances, 0, 1, ... by default.
    """
    engine = engine or NUMPY
    tail = tail or tail_of({})
    given = rules(**changes)
    technique = TECHNIQUES[technique] if isinstance(technique, str) else technique
    shared = shared_replays(engine, tuple(traces), technique, given.limits, given.protection.code)
    if kernels is None:
        kernels = np.zeros((tail.instances, len(given.epoch_edges_years) - 1), dtype=np.int64)
    sampled = np.tile(np.array(sample, dtype=np.int64), (tail.instances, 1))
    new = NewSlices.at(given.environment.lowest_vdd_volts, tail, given.protection)
    ids = np.arange(tail.instances) if ids is None else ids
    luck = SliceLuck(1, ids, new.tail.geometry.cells)
    new, of_batch, limits = luck_and_limits(luck, given, constants, new, sampled)
    batch = SliceBatch(in_sequence(kernels), new, sampled, constants, of_batch, limits)
    return Ready(given, engine, shared, batch, tail, luck)


def lived(*given, **changes):
    """Lives of instances; arguments as of `ready`."""
    return simulate_lifetimes(*ready(*given, **changes)[:4])


def arrays_of(outcomes):
    """All arrays of the outcomes of lives by dotted name, such as ``end.seconds``."""
    records = {part.name: getattr(outcomes, part.name) for part in fields(outcomes)}
    arrays = {
        f"{name}.{array.name}": getattr(record, array.name)
        for name, record in records.items()
        for array in fields(record)
    }
    sampled = arrays.pop("degradation.sampled")
    return arrays | {"degradation.sampled_dvth_volts": sampled.dvth_volts()}


def dvth(seconds, duty_cycle=1.0, prefactor=None):
    """Closed form of the shift after one life at one duty cycle, in volts."""
    prefactor = prefactor or prefactor_of(MODEL, 1.0, 353.15)
    recovered = np.sqrt(MODEL.eta * (1 - duty_cycle))
    return prefactor * (duty_cycle * seconds) ** 0.25 * (1 - recovered)


def seconds_to_delay(guardband, duty_cycle=1.0, vdd_volts=1.0, prefactor=None):
    """Closed form of the life of a transistor whose delay may grow by the guardband."""
    limit = (vdd_volts - 0.3) * (1 - (1 + guardband) ** (-1 / 1.3))
    return (limit / dvth(1.0, duty_cycle, prefactor)) ** 4
