"""Stress times of single cells, eight cells of an entry together.

Instances that run the same kernel go through its residencies side by side, some residencies at a
time: what these write is looked up once for all instances, and is at hand for the rest.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.engines.numba_engine.events import Events, gather_events, lit_components
from mcage.engines.numba_engine.jit import compiled, inner
from mcage.engines.numba_engine.placement.packing import begin_of, block_of, residency_of
from mcage.engines.numba_engine.placement.redirect import WHOLE_ENTRY
from mcage.engines.numba_engine.placement.residencies import (
    END,
    PARTIAL,
    WRITES_END,
    Residencies,
)
from mcage.engines.numba_engine.simd import TOGETHER, sum_cells
from mcage.engines.numba_engine.stress.epoch_log import EpochLog, occupants_in
from mcage.engines.numba_engine.stress.open_bits import IN_ROW
from mcage.engines.numba_engine.stress.tracked_groups import Tracking
from mcage.engines.numba_engine.vectors import COMPONENTS

_TOGETHER = 1024
"""Residencies that instances go through side by side: what they write fits the second-level
cache."""


@compiled
def run_side_by_side(
    residencies: Residencies,
    epoch_log: EpochLog,
    kernel: int,
    instances: NDArray[np.int64],
    tracking: Tracking,
    events: Events,
) -> None:
    """Take the cells of instances through the latest epoch, in which they ran the same kernel.

    Parameters
    ----------
    residencies, epoch_log : Residencies, EpochLog
        What happened.
    kernel : int
        Kernel that they ran.
    instances : int64[n]
        Instances.
    tracking : Tracking
        Tracked cells, whose seconds are raised.
    events : Events
        Workspace.
    """
    groups, progress, epochs = tracking.groups, tracking.progress, epoch_log.epochs
    first_residency = residencies.kernels.first_residency
    for instance in instances:
        _start(instance, occupants_in(epoch_log, instance, epochs[instance] - 1), groups, progress)
    last = first_residency[kernel + 1]
    for residency in range(first_residency[kernel], last, _TOGETHER):
        until = min(residency + _TOGETHER, last)
        for instance in instances:
            occupants = occupants_in(epoch_log, instance, epochs[instance] - 1)
            _advance(residencies, occupants, instance, until, groups, progress)
    for instance in instances:
        epoch = epochs[instance] - 1
        occupants, scale = (
            occupants_in(epoch_log, instance, epoch),
            epoch_log.scale[instance, epoch],
        )
        _finish(residencies, occupants, scale, instance, tracking, events)


@inner
def _start(instance: int, occupants: Any, groups: Any, progress: Any) -> None:
    """Bring the cells of an instance to the start of an epoch."""
    for place in range(progress.upcoming.shape[1]):
        progress.upcoming[instance, place] = occupants.first[place]
    entries = progress.depends.shape[1]
    for entry in range(entries):
        progress.depends[instance, entry] = False
        progress.mixed[instance, entry] = False
    begin, end = instance * entries, (instance + 1) * entries
    for group in range(groups.first[begin], groups.first[end]):
        progress.powered[group] = 0
        for cell in range(TOGETHER):
            progress.ones[group, cell] = 0
        for pass_ in range(progress.since.shape[1]):
            progress.since[group, pass_] = -1


@inner
def _advance(
    residencies: Any, occupants: Any, instance: int, until: int, groups: Any, progress: Any
) -> None:
    """Take the cells of an instance through its occupants before the residency `until`."""
    facts, cycle, occupant_at = residencies.facts, residencies.writes.cycle, occupants.occupant
    gated, passes = residencies.rules.gated, len(residencies.selector_starts)
    block_at, contents, writes = groups.block, residencies.contents, residencies.writes
    entries = residencies.slice_.entries
    for entry in range(entries):
        begin = groups.first[instance * entries + entry]
        end = groups.first[instance * entries + entry + 1]
        if begin == end:
            continue
        for pass_ in range(passes):
            place = entry * passes + pass_
            i = progress.upcoming[instance, place]
            while i < occupants.first[place + 1]:
                occupant = occupant_at[i]
                residency = residency_of(residencies, occupant)
                if residency >= until:
                    break
                write = begin_of(residencies, occupant)
                block, shift = block_of(occupant), np.uint64(0)
                now, leaves = cycle[write], np.int64(facts[residency, END])
                writes_end = np.int64(facts[residency, WRITES_END])
                if block != WHOLE_ENTRY:
                    shift = np.uint64(block * contents.block_components)
                    progress.mixed[instance, entry] = True
                    # A record powers all of its block, with what its other cells hold.
                    progress.depends[instance, entry] |= gated
                progress.depends[instance, entry] |= facts[residency, PARTIAL] != 0
                for group in range(begin, end):
                    if block != WHOLE_ENTRY and block != block_at[group]:
                        continue
                    if not gated:
                        _hold(contents.planes, writes.image, now, groups, progress, group, pass_)
                    sum_cells(
                        contents.planes,
                        writes.image,
                        writes.duration,
                        write,
                        writes_end,
                        shift,
                        groups.column,
                        groups.component,
                        progress.ones,
                        group,
                    )
                    progress.powered[group] += leaves - now
                    if not gated:
                        progress.since[group, pass_] = leaves
                        progress.write[group, pass_] = writes_end - 1
                        progress.shift[group, pass_] = shift
                i += 1
            progress.upcoming[instance, place] = i


@inner
def _finish(
    residencies: Any, occupants: Any, scale: float, instance: int, tracking: Any, events: Any
) -> None:
    """Add the epoch that the cells of an instance have come through to their seconds.

    Parameters
    ----------
    residencies, occupants : Residencies, Occupants
        A redirected replay.
    scale : float
        Seconds that a cycle stands for.
    instance : int
        Instance.
    tracking : Tracking
        Cells, how far they have come, and their seconds.
    events : Events
        Workspace.
    """
    groups, progress, seconds = tracking.groups, tracking.progress, tracking.seconds
    cycles, gated = residencies.kernels.cycles[occupants.kernel], residencies.rules.gated
    entries = residencies.slice_.entries
    for entry in range(entries):
        if progress.depends[instance, entry]:
            work_out_entry(residencies, occupants, scale, instance, entry, tracking, events)
            continue
        begin = groups.first[instance * entries + entry]
        end = groups.first[instance * entries + entry + 1]
        for group in range(begin, end):
            if not gated:
                _come_round(residencies, cycles, groups, progress, group)
            for cell in range(TOGETHER):
                tracked, ones = groups.tracked[group, cell], progress.ones[group, cell]
                if tracked >= 0:
                    zeros = progress.powered[group] - ones
                    seconds[0, tracked] += zeros * scale
                    seconds[1, tracked] += ones * scale


@inner
def _hold(
    planes: Any, image: Any, now: int, groups: Any, progress: Any, group: int, pass_: int
) -> None:
    """Let what the latest occupant has left stay until now.

    Before the first occupant nothing is known of the cells; only its start is kept.
    """
    if progress.since[group, pass_] < 0:
        progress.first[group, pass_] = now
        return
    cycles = now - progress.since[group, pass_]
    if cycles:
        progress.powered[group] += cycles
        row, shift = image[progress.write[group, pass_]], progress.shift[group, pass_]
        for cell in range(TOGETHER):
            word = planes[row, groups.column[group, cell]] << shift
            lit = word >> groups.component[group, cell] & np.uint64(1)
            progress.ones[group, cell] += cycles * np.int64(lit)


@inner
def _come_round(residencies: Any, cycles: int, groups: Any, progress: Any, group: int) -> None:
    """Let what a cell holds at the end of a pass stay until its first occupant in the next."""
    planes, image = residencies.contents.planes, residencies.writes.image
    for pass_ in range(len(residencies.selector_starts)):
        if progress.since[group, pass_] >= 0:
            until = progress.first[group, pass_] + cycles
            _hold(planes, image, until, groups, progress, group, pass_)


@inner
def work_out_entry(
    residencies: Any,
    occupants: Any,
    scale: float,
    instance: int,
    entry: int,
    tracking: Any,
    events: Any,
) -> None:
    """Add the times of an entry's cells if it matters what was there before an occupant."""
    cells, seconds = tracking.cells, tracking.seconds
    mixed, contents = tracking.progress.mixed[instance, entry], residencies.contents
    of_entry = instance * residencies.slice_.entries + entry
    first, last = cells.first[of_entry], cells.first[of_entry + 1]
    gathered = -1
    for number in range(first * IN_ROW, last * IN_ROW):
        place: Any = np.int64(cells.place[number // IN_ROW, number % IN_ROW])
        tracked = cells.tracked[number // IN_ROW, number % IN_ROW]
        if tracked < 0:
            continue
        bit, component = place // COMPONENTS, place % COMPONENTS
        block = component // contents.block_components if mixed else WHOLE_ENTRY
        if block != gathered:
            gather_events(residencies, occupants, entry, block, events)
            gathered = block
        lit_components(contents, events, bit, block)
        count = events.orbits[len(residencies.selector_starts)]
        ones = _sum_component(events.lit, events.held, count, component)
        powered = _sum_component(events.powered, events.held, count, component)
        seconds[0, tracked] += (powered - ones) * scale
        seconds[1, tracked] += ones * scale


@inner
def _sum_component(words: Any, held: Any, count: int, component: int) -> np.int64:
    """Cycles for which a component is in the words."""
    shift = np.uint64(component)
    total = np.int64(0)
    for i in range(count):
        total += np.int64(held[i]) * np.int64(words[i] >> shift & np.uint64(1))
    return total
