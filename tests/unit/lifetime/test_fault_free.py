"""What is kept on disk of fault-free replays is what they give, and of no others."""

import pytest
from engine_cases import daily
from sweep_cases import assert_same_arrays, small_spec

from mcage.engines import select_engine
from mcage.engines.numba_engine import residencies
from mcage.files.disk_cache import arrays_of_record
from mcage.studies.sweep.plan import SweepPlan
from mcage.studies.sweep.study import Sweep
from mcage.traces import library

TECHNIQUES = ["rrcd+rc+rar"]
KERNELS = ["QuasiRandomSequence"]
WORKLOAD = {"kernels": KERNELS, "periods": 3, "generations": 1}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MCAGE_CACHE", str(tmp_path / "cache"))


def plan_of(**fields):
    given = {"techniques": TECHNIQUES, "workload": WORKLOAD}
    plan = SweepPlan(small_spec(**given | fields), select_engine("numba")[0])
    plan.prepare()
    return plan


def contents(plan):
    """All that a plan knows of its replays, as arrays."""
    arrays = arrays_of_record(plan.conventional, "conventional")
    for name, replays in plan.fault_free.items():
        arrays |= arrays_of_record(replays.happens, name)
        arrays |= arrays_of_record(replays.activity, f"{name}, activity")
        for duties in (replays.duties.at_zero, replays.duties.at_one):
            which = f"{name} {len(arrays)}"
            arrays |= {which: duties.cycles, f"{which}, period": duties.period}
            arrays |= arrays_of_record(duties.skyline, which)
    return arrays


@pytest.mark.parametrize("idle", ["gated", "held"])
def test_a_second_run_knows_the_same(idle):
    life = {"epochs": 4, "idle": idle, "activity": 0.5}
    first, second = plan_of(life=life), plan_of(life=life)
    assert [trace.name for trace in second.traces] == KERNELS
    assert [trace.digest() for trace in second.traces] == [trace.digest() for trace in first.traces]
    assert_same_arrays(contents(first), contents(second))


OTHERS = (
    {},
    {"registers": {"selector_offsets": 4}},
    {"registers": {"delta_limit": "none"}},
    {"workload": WORKLOAD | {"generations": 2}},
    {"life": {"epochs": 4, "idle": "held", "activity": 0.5}},
)


@pytest.mark.parametrize("fields", daily(OTHERS, OTHERS[:2]), ids=str)
def test_other_replays_are_not_taken_for_them(monkeypatch, fields):
    plan_of()
    other = contents(plan_of(**fields))
    monkeypatch.setenv("MCAGE_CACHE", "off")
    assert_same_arrays(other, contents(plan_of(**fields)))


def test_results_are_the_same_to_the_last_bit_and_need_no_trace(monkeypatch):
    """Counting, cell times and stress times share a table of residencies, which is made once."""
    made, spec = [], small_spec(instances=4, techniques=TECHNIQUES, workload=WORKLOAD)
    tabulate = residencies.residencies_of

    def residencies_of(replays):
        made.append(replays)
        return tabulate(replays)

    monkeypatch.setattr(residencies, "residencies_of", residencies_of)
    cold = Sweep(spec, *select_engine("numba")).compute(0, 4)
    assert len(made) == 1
    monkeypatch.setattr(library, "open_trace", None)  # whoever reads a trace fails
    assert_same_arrays(cold, Sweep(spec, *select_engine("numba")).compute(0, 4))
    assert len(made) == 1


def test_threads_share_a_trace_that_is_read_once(monkeypatch):
    read, opened = [], library.bundled_trace
    monkeypatch.setattr(library, "bundled_trace", lambda name: read.append(name) or opened(name))
    plan_of()
    assert read == KERNELS
    assert all(trace.whole.cycles == trace.cycles for trace in plan_of().traces)
