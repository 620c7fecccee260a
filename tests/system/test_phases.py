"""Where the time of a sweep goes: ``scripts/benchmarks/phases.py`` and ``host_share.py``."""

import itertools
import json
import sys

import bench_engines
import host_share
import pytest
from phases import ENGINE_PHASES, run_timed_sweep
from sweep_cases import small_spec

from mcage.engines.numba_engine import NumbaEngine

pytestmark = pytest.mark.slow  # they are of scripts, on which no result depends


def test_all_phases_of_a_sweep_are_found(monkeypatch):
    monkeypatch.setenv("MCAGE_CACHE", "off")  # fault-free slices are replayed, too
    timed = run_timed_sweep(small_spec(instances=3), NumbaEngine())
    for phase in (*ENGINE_PHASES, "preparation", "sampling", "lives", "files"):
        assert timed["core_seconds"][phase] > 0, phase
    assert sum(timed["core_seconds"].values()) == pytest.approx(timed["core_seconds_total"])
    assert 0 < timed["engine_wall_seconds"] < timed["wall_seconds"]


def test_the_benchmark_runs(monkeypatch, tmp_path, capsys):
    out = tmp_path / "bench.json"
    few = "--engines numba,numpy --techniques rrcd --traces MatrixTranspose --instances 2"
    few += " --budget-s 0 --sweep-instances 0 --scale-to 0 --same-work 1"
    monkeypatch.setattr(sys, "argv", ["bench_engines.py", *few.split(), "--json", str(out)])
    bench_engines.main()
    rows = json.loads(out.read_text())["replays"]
    phases = ("cell times", "counting", "stress")
    measured = {(row["engine"], row["phase"]): row for row in rows}
    assert measured.keys() == set(itertools.product(("numba", "numpy"), phases))
    assert all(measured["numba", phase]["times_numpy_on_the_same_work"] > 1 for phase in phases)
    assert measured["numba", "stress"]["write_events"] == 2 * 10322
    assert measured["numpy", "stress"]["write_events"] == 10322
    assert "ns/event" in capsys.readouterr().out


def test_the_host_without_kernels():
    """What stands in for kernels takes time that is not counted."""
    workload = {"kernels": ["MatrixTranspose", "QuasiRandomSequence"]}
    rules = {"life": {"slowdown_limit": "none"}, "registers": {"overflow": "end"}}
    host = host_share.Host(batch=16, **rules, workload=workload, low_vdd="printed")
    before = host_share.CLOCK.seconds
    seconds, wall, held = host.run(64, 1, host_share.LockSampler())
    assert 0 < seconds < wall + 1
    assert 0 < held <= 1
    assert host_share.CLOCK.seconds > before
    calls = host_share.CLOCK.calls
    assert calls["launch"] > calls["wait"] > 0
    assert calls["placed in 8 passes"] > 0
