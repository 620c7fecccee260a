"""Whole commands of `mcage gpu`."""

from itertools import product

import pytest
from command_line import from_json, run_mcage
from gpu_cases import DATA, MEASURED_KERNELS

import mcage


def test_the_optimum_is_that_of_sm_gating(command, tmp_path):
    (tmp_path / "k.toml").write_text(MEASURED_KERNELS)
    for loss in (0.08, 0.5):
        setting = f"time_model.delta={loss}"
        streaming, counted = from_json("gpu", "optimum", "--kernels", "k.toml", "--set", setting)
        spec = mcage.GatingSpec(workload={"kernels": "k.toml"}, time_model={"delta": loss})
        assert [streaming, counted] == mcage.optimum(spec)
        assert counted == {"kernel": "counted", "optimum_SMs": 12, "time_ratio": 1.02}
        assert 1 <= streaming["time_ratio"] <= 1 + loss
    assert "LU" in command("gpu", "optimum")[1]


@pytest.mark.parametrize(("seconds", "hottest"), [(0, 318.15), (1e-2, 323), (None, 344.78)])
def test_a_gpu_warms_up(seconds, hottest):
    after = () if seconds is None else ("--seconds", seconds)
    rows = from_json("gpu", "temperature", DATA / "temperature.csv", *after)
    rows = [row for row in rows if row["case"] == "all-on"]
    kelvin = [row["temperature_K"] for row in rows if row["block"].startswith("SM")]
    assert max(kelvin) == pytest.approx(hottest, abs=4 if seconds == 1e-2 else 0.01)


def test_a_map_of_heterogeneous_structures(command):
    code, out, _ = command(
        *("gpu", "heterogeneity", "--instances", "50", "--reading", "activity"),
        *("--reading", "thermal", "--miss-rate", "uniform(0.1, 0.5)", "--out", "r.h5"),
    )
    assert code == 0
    assert "proposal < baseline < duplication" in out
    rows = from_json("show", "r.h5")
    designs = ["baseline", "two-stage+planar-tags", "duplication"]
    named = [(row["reading"], row["design"]) for row in rows]
    assert named == [(reading, of) for reading in ("activity", "thermal") for of in designs]
    assert {order["reading"] for order in rows[-1]["orders"]} == {"thermal"}
    chosen = ("--where", "design=duplication", "--where", "reading=thermal")
    code, csv, said = command("show", "r.h5", "--csv", *chosen)
    assert [line.split(",")[:2] for line in csv.splitlines()[1:]] == [["thermal", "duplication"]]
    assert (
        "not in this CSV, but in --json and in mcage report: proposal < baseline < duplication"
        in said
    )
    assert command("show", "r.h5", "--fit")[0] == 2


def test_a_paper_on_whole_gpus_is_reproduced():
    out = run_mcage("reproduce", "--paper", "zhang-2015")
    assert "15 lines: 9 agree" in out
    assert "[1] No reading meets all printed delays" in out
    rows = from_json("reproduce", "--paper", "004")
    assert {(row["paper"], row["name"]) for row in rows} == {("004", "zhang-2015")}
    assert {row["kind"] for row in rows} == {"text", "text approx", "text bound"}


FILES = {
    "k.toml": "[kernels.a]\nsms = 99\n",
    "noon.toml": "[kernels.a]\nsms = 12:00:00\n",
    "l.csv": "kernel,seconds\nLU,1\nBFS,2\n",
    "powers.csv": "block,power_W\nSM3,nan\n",
    "hot.csv": "block,power_W\nSM3,400\n",
    "twice.csv": "block,power_W\nSM3,4\nSM3,4\n",
    "plan.toml": "name = 'x'\n",
}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("heterogeneity", "--out FILE is needed"),
        ("heterogeneity --benchmark Doom --out r.h5", "benchmark 'Doom' is unknown"),
        (
            "heterogeneity --benchmark NN --filter-rate 0.9 --out r.h5",
            "scheduler.benchmarks and scheduler.filter_rate: give one of them",
        ),
        (
            "heterogeneity --proposal-delay 1 --set proposal.l2_ipc_loss=0 --show-spec",
            "proposal.delay and proposal.l2_ipc_loss: give one of them",
        ),
        ("gating --kernels noon.toml --out r.h5", "noon.toml: kernels.a.sms = 12:00:00"),
        ("gating --recorded l.csv --out r.h5", "l.csv: line 3: kernel 'BFS' is unknown"),
        ("both --recorded l.csv --out r.h5", "l.csv: line 3: kernel 'BFS' is unknown"),
        ("optimum --kernels k.toml", "k.toml: kernels.'a'.sms = 99, but the GPU has 16 SMs"),
        ("temperature hot.csv", "heat block SM3 to"),
        ("temperature hot.csv --seconds -1", "--seconds -1: a time of 0 ... "),
        ("temperature twice.csv", "block 'SM3' stands twice"),
        ("temperature powers.csv --gpu plan.toml", "plan.toml"),
        ("both --environment undervolted --out r.h5", "cell_vt0 = 'sm'"),
        ("both --set sweep.registers.lds_rows=4 --out r.h5", "lds_rows = 4"),
        (
            "both --set sweep.aging.nbti_spread_mv=1 --out r.h5",
            "sweep.aging.nbti_spread_mv = 1",
        ),
    ],
)
def test_what_is_refused(refusal, tmp_path, line, message):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    said = refusal("gpu", *line.split())
    assert message in said
    assert said.count("\n") <= 2
    assert {path.name for path in tmp_path.iterdir()} == {*FILES}


# The command `mcage gpu both`: a campaign and its table.

SMALL = (
    *("gpu", "both", "--slices-per-sm", "1", "--engine", "numba", "--replay", "MatrixTranspose"),
    *("--periods", "1", "--set", "sweep.workload.generations=2"),
)


def test_levels_that_work_together_save_more(command):
    rows = from_json(*SMALL, "--instances", "5", "--out", "r.h5")
    pairs = [(row["policy"], row["technique"]) for row in rows]
    assert pairs == [*product(("default", "round-robin"), ("baseline", "rc+rar"))]
    both = rows[-1]
    assert rows[1]["saved"]["value"] < both["saved"]["value"] < both["independent"]["value"]
    table = command("show", "r.h5")[1]
    for word in ("none", "gating", "registers", "both", "if independent"):
        assert word in table
