"""Windows released with their wavefronts instead of their work-groups."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from trace_strategies import alloc, read, release, trace_of, traces, write

from mcage.spec import SweepSpec
from mcage.spec.sections import Workload
from mcage.traces import ALLOC, KERNELS, RELEASE, Trace, open_trace, validate_trace
from mcage.traces.transforms import (
    RELEASES,
    release_cycles,
    released,
    released_with_wavefronts,
    wavefront_ends,
)


def work_groups() -> Trace:
    """Two work-groups of two wavefronts, one after the other, in slots 0 and 1."""
    events = []
    for begin in (0, 40):
        for slot, busy in ((0, 10), (1, 25)):
            events += [
                alloc(begin, slot, 2),
                write(begin + 2, slot, 1, 7),
                read(begin + busy, slot, 1),
                release(begin + 30, slot),
            ]
    trace = trace_of(events, 80)
    return replace(trace, alloc_work_group=np.array([0, 0, 1, 1], dtype=np.uint32))


def test_a_wavefront_ends_as_long_after_its_last_access_as_the_last_of_its_group():
    trace = work_groups()
    assert wavefront_ends(trace).tolist() == [15, 30, 55, 70]
    assert release_cycles(released_with_wavefronts(trace)).tolist() == [15, 30, 55, 70]


def test_the_work_groups_of_two_launches_are_different_ones():
    trace = work_groups()
    launches = replace(
        trace,
        alloc_work_group=np.zeros(4, dtype=np.uint32),
        alloc_launch=np.array([0, 0, 1, 1], dtype=np.uint32),
    )
    assert wavefront_ends(launches).tolist() == [15, 30, 55, 70]


def test_a_wavefront_alone_in_its_group_ends_when_it_was_released():
    trace = work_groups()
    alone = replace(trace, alloc_work_group=np.arange(4, dtype=np.uint32))
    assert wavefront_ends(alone).tolist() == [30, 30, 70, 70]


def test_windows_that_were_not_released_together_stay_as_recorded():
    """A recorder that frees a window with its wavefront has told when it ends."""
    trace = work_groups()
    earlier = trace.cycle.copy()
    earlier[(trace.kind == RELEASE) & (trace.slot == 0) & (trace.cycle == 30)] = 20
    by_wavefront = replace(trace, cycle=earlier)
    assert wavefront_ends(by_wavefront).tolist() == [20, 30, 55, 70]


def test_by_wavefront_unless_told_otherwise():
    trace = work_groups()
    for changed, ends in (
        (released(trace), [15, 30, 55, 70]),
        (released(trace, "wavefront"), [15, 30, 55, 70]),
        (released(trace, "work-group"), [30, 30, 70, 70]),
    ):
        assert release_cycles(changed).tolist() == ends
    assert SweepSpec().workload.release == "wavefront"
    assert set(RELEASES) == set(get_args(Workload.model_fields["release"].annotation))


@given(traces())
def test_only_releases_move_and_only_forward(trace):
    changed = released_with_wavefronts(trace)
    validate_trace(changed)
    assert changed.cycles == trace.cycles
    assert (release_cycles(changed) <= release_cycles(trace)).all()
    for name in ("cycle", "kind", "slot", "reg", "exec_mask", "value"):
        before = getattr(trace, name)[trace.kind != RELEASE]
        assert np.array_equal(getattr(changed, name)[changed.kind != RELEASE], before)
    assert (changed.kind[changed.alloc_event] == ALLOC).all()


@given(traces())
def test_twice_is_as_good_as_once(trace):
    once = released_with_wavefronts(trace)
    assert release_cycles(released_with_wavefronts(once)).tolist() == release_cycles(once).tolist()


@pytest.mark.parametrize("name", KERNELS)
def test_recorded_windows_are_released_with_their_work_groups(name):
    """What `wavefront_ends` rests on: the last wavefront of a group ends when all are released."""
    trace = open_trace(name)
    given_back, ends = release_cycles(trace), wavefront_ends(trace)
    group = np.stack([trace.alloc_launch, trace.alloc_kernel, trace.alloc_work_group])
    _, number = np.unique(group, axis=1, return_inverse=True)
    for one in np.unique(number):
        mine = number.reshape(-1) == one
        assert len(np.unique(given_back[mine])) == 1
        assert ends[mine].max() == given_back[mine][0]
    validate_trace(released_with_wavefronts(trace))


def test_blackscholes_gives_back_a_third_of_its_time():
    """results/open-differences.md: windows outlive their wavefronts by a third of their lives."""
    trace = open_trace("BlackScholes")
    begin = trace.cycle[trace.alloc_event]
    lives = (wavefront_ends(trace) - begin).sum() / (release_cycles(trace) - begin).sum()
    assert lives == pytest.approx(2 / 3, abs=0.03)
