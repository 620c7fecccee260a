"""What docs/model.md says so that results can be repeated is what the code does."""

from dataclasses import replace

import numpy as np
import pytest
from life_cases import (
    NUMBA,
    NUMPY,
    YEAR,
    cell,
    dvth,
    lived,
    random_values,
    rules,
    steady_trace,
    tail_of,
    whole_entries,
)
from tables import each
from trace_strategies import alloc, pattern, release, trace_of, write

from mcage.distributions import Distribution
from mcage.engines.interface import fault_free_maps
from mcage.lifetime.end_cause import EndCause
from mcage.replays.prepare import prepare
from mcage.replays.stored_values import record_codes
from mcage.techniques import TECHNIQUES


@each(
    ("delta_e", "delta_b", "code"),
    [(0, 0, 0o77), (1, 0, 0o70), (0, 1, 0o07), (4, 64, 0o62), (128, 256, 0o07)],
)
def test_the_code_of_a_record(delta_e, delta_b, code):
    """Three bits for each delta, the inner one lowest: its exponent, 7 for none."""
    assert record_codes(pattern(5, delta_e, delta_b)[None]).tolist() == [code]


def test_windows_need_all_their_entries():
    """A window of three registers, of which the first alone is written."""
    events = [alloc(0, 0, 3), write(0, 0, 0, random_values(1)[0]), release(99, 0)]
    for technique, cause in [
        ("baseline", EndCause.FAULTY_ENTRY),
        ("rar", EndCause.FAULTY_ENTRY),
        ("wc", EndCause.FAULTY_ENTRY),
        ("rc", EndCause.CENSORED),
    ]:
        life = lived([trace_of(events, 100)], technique, tail_of(whole_entries([2])))
        assert life.end.cause == [cause], technique


def test_ends_by_faults_lie_on_the_grid_of_twelve_halvings():
    zero = steady_trace([np.zeros(64, dtype=np.uint32)])
    for years in (0.321, 4.567):
        cells = {cell(0, bit): 1.0 - dvth(years * YEAR) for bit in (3, 900)}
        life = lived([zero], "baseline", tail_of(cells)).end.seconds[0] / YEAR
        assert life * 4096 == pytest.approx(np.ceil(years * 4096), abs=1e-6)


@each("engine", [NUMPY, NUMBA])
@each("technique", ["rc", "wc", "argo", "rrcd+pg"])
def test_cells_return_with_what_they_held_when_they_were_switched_off(technique, engine):
    """All lanes at '1' for 50 cycles; then, in the same places, a '0' in the first lane alone."""
    ones = random_values(1)[0] | np.uint32(1)
    events = [alloc(0, 0, 200), write(0, 0, 0, ones), release(50, 0)]
    events += [alloc(60, 0, 200), write(60, 0, 0, ones & ~np.uint32(1), lanes=1), release(90, 0)]
    replay = prepare(trace_of(events, 100), TECHNIQUES[technique])
    times = engine.cell_times(replay, fault_free_maps())
    first, other = times.ones[0][:, 0].sum(), times.ones[0][:, 32].sum()
    passes = times.period // 100
    assert (first, other) == (50 * passes, (50 + 30) * passes)


def test_a_slice_that_idles_off_goes_on_as_if_it_had_not():
    """A register that holds a '1' from one pass to its write in the next: all the busy time."""
    ones = ~np.zeros(64, dtype=np.uint32)
    events = [alloc(0, 0, 1), write(50, 0, 0, ones), release(99, 0)]
    distributions = replace(rules().distributions, activity=Distribution.of(0.4))
    life = lived([trace_of(events, 100)], "baseline", distributions=distributions)
    assert life.degradation.longest_duty[0] == pytest.approx([0, 0.4])
