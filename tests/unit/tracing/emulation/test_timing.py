"""When waves made by hand issue their instructions, cycle by cycle."""

from types import SimpleNamespace

import numpy as np

from mcage.tracing.emulation import waves
from mcage.tracing.emulation.machine import parse
from mcage.tracing.emulation.timing import cycles_of, time_waves
from mcage.tracing.emulation.waves import Reached, Wave

TEXTS = {
    "vector": ("v_mov_b32_e32 v0, v1", waves.VECTOR),
    "slow": ("v_exp_f32_e32 v0, v1", waves.SLOW),
    "scalar": ("s_mov_b32 s0, 0", waves.SCALAR),
    "load": ("global_load_dword v0, v[2:3], off", waves.LOAD),
    "store": ("global_store_dword v[2:3], v0, off", waves.STORE),
    "lds": ("ds_read_b32 v0, v1", waves.LDS),
    "wait 0": ("s_waitcnt vmcnt(0)", waves.WAIT),
    "wait 1": ("s_waitcnt vmcnt(1)", waves.WAIT),
    "wait lds": ("s_waitcnt lgkmcnt(0)", waves.WAIT),
    "barrier": ("s_barrier", waves.MEET),
    "end": ("s_endpgm", waves.LAST),
}
CODES = [
    Reached(number, parse(text)[0], 0, 0, kind=kind)
    for number, (text, kind) in enumerate(TEXTS.values())
]
NUMBER = {name: 2 * number for number, name in enumerate(TEXTS)}


def timed(*programs, units=1, windows=4, groups_at_once=9, group_of=None, generation=9):
    """Cycles at which the waves with these programs issue, and what else is known of them."""
    group_of = group_of or range(len(programs))
    found = [
        Wave(group, 0, np.array([NUMBER[name] for name in [*program, "end"]], np.int32), 1)
        for group, program in zip(group_of, programs, strict=True)
    ]
    time_waves(found, CODES, (generation, 1.0), units, windows, groups_at_once)
    columns = {
        name: np.array([getattr(wave, name) for wave in found]) for name in ("begin", "end", "slot")
    }
    ready = [wave.ready for wave in found]
    return [wave.issued.tolist() for wave in found], SimpleNamespace(ready=ready, **columns)


def test_the_older_wave_of_a_unit_goes_first():
    issued, result = timed(["vector"] * 2, ["vector"] * 2)
    assert issued == [[1, 5, 9], [9, 13, 17]]
    assert result.slot.tolist() == [0, 1]
    assert [ready.tolist()[:2] for ready in result.ready] == [[5, 9], [13, 17]]


def test_waves_alternate_while_one_of_them_does_something_else():
    issued, _ = timed(["vector", "scalar", "vector"], ["vector", "scalar", "vector"])
    assert issued == [[1, 5, 9, 13], [5, 9, 13, 17]]


def test_units_work_side_by_side():
    issued, _ = timed(["vector", "slow", "vector"], ["vector", "vector"], units=2)
    assert issued == [[1, 5, 21, 25], [1, 5, 9]]


def test_waits_wait_for_loads_in_their_order():
    issued, result = timed(["load", "load", "wait 1", "vector", "wait 0", "vector"])
    assert issued == [[1, 5, 501, 505, 509, 513, 517]]
    assert result.ready[0].tolist()[:2] == [501, 505]
    issued, result = timed(["load", "scalar", "wait 0"])
    assert issued == [[1, 5, 501, 505]]


def test_each_counter_counts_its_own():
    assert timed(["load", "lds", "wait lds"])[0] == [[1, 5, 69, 73]]
    assert timed(["store", "wait 0"], generation=9)[0] == [[1, 501, 505]]
    assert timed(["store", "wait 0"], generation=10)[0] == [[1, 2, 3]]


def test_loads_are_counted_for_as_long_as_a_wave_runs():
    """More than a million loads, which no counter of hardware would hold, do not confuse a wait."""
    count = (1 << 20) + 5
    issued, _ = timed([*["load"] * count, "wait lds"])
    assert issued[0][count] == 1 + 4 * count


def test_a_wave_keeps_its_window_until_its_loads_are_there():
    _, result = timed(["load"], ["vector"], windows=1)
    assert (result.begin.tolist(), result.end.tolist()) == ([0, 502], [501, 507])


def test_waves_of_a_group_meet_at_a_barrier():
    issued, _ = timed(
        ["vector", "vector", "barrier", "vector"], ["barrier", "vector"], units=2, group_of=[0, 0]
    )
    assert issued == [[1, 5, 9, 13, 17], [1, 10, 14]]


def test_nobody_waits_at_a_barrier_for_a_wave_that_has_ended():
    issued, _ = timed(["barrier", "vector"], ["scalar"] * 9, units=2, group_of=[0, 0])
    assert issued[1][-1] == 37
    assert issued[0] == [1, 38, 42]


def test_windows_are_used_again_after_their_release():
    _, result = timed(["vector"], ["vector"], ["vector"], windows=2)
    assert result.begin.tolist() == [0, 0, result.end[0] + 1]
    assert result.slot.tolist() == [0, 1, 0]


def test_a_group_enters_when_all_of_its_waves_have_windows():
    long, short = ["slow"] * 5, ["vector"]
    _, result = timed(long, short, short, short, units=2, windows=1, group_of=[0, 0, 1, 1])
    assert result.begin.tolist() == [0, 0, result.end[0] + 1, result.end[0] + 1]


def test_lds_has_room_for_some_groups_only():
    _, free = timed(["vector"], ["vector"], groups_at_once=2)
    _, full = timed(["vector"], ["vector"], groups_at_once=1)
    assert free.begin.tolist() == [0, 0]
    assert full.begin.tolist() == [0, full.end[0] + 1]


def test_clocks_of_generations():
    assert [cycles_of(generation, 1)[0][waves.VECTOR] for generation in (9, 11)] == [4, 1]
    assert cycles_of(9, 2)[1][waves.LOAD] == 1000
    assert cycles_of(9, 0.001)[1][waves.LDS] == 1
