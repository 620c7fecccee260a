"""Functions of the public interface: the same as the commands, with the names of their options."""

import inspect
import json

import numpy as np
import pytest
import typer.main
from gpu_cases import gating
from places import ROOT
from tables import each

import mcage
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.campaign.run import run_campaign
from mcage.cli.app import app
from mcage.methods.rare_events.case import estimate
from mcage.stats.estimates import known_name
from mcage.studies.sweep.header import stopping_rule

SAMPLE = ROOT / "tests" / "samples" / "mgpusim" / "isa_GPU[1].CU0.debug.zst"
SMALL = {
    "instances": 4,
    "techniques": "rrcd",
    "environments": "dvfs",
    "workload": {"kernels": "MatrixTranspose", "generations": 1},
}
OWN_NAMES = {"files", "spec", "constants", "slices", "labels"}
"""Parameters that are arguments of the command, or several values of an option."""


@each(
    ("function", "command"),
    [
        (mcage.nbti, ["nbti"]),
        (mcage.sensitivity, ["sensitivity"]),
        (mcage.import_traces, ["trace", "import"]),
        (mcage.write_report, ["report"]),
    ],
)
def test_parameters_have_the_names_of_options(function, command):
    made = typer.main.get_command(app)
    for name in command:
        made = made.commands[name]
    options = {flag for parameter in made.params for flag in parameter.opts}
    for name in set(inspect.signature(function).parameters) - OWN_NAMES:
        assert f"--{name.replace('_', '-')}" in options


def test_nbti_is_that_of_the_command(command):
    code, out, _ = command("nbti", "--duty", 0.4, "--years", 7, "--vdd", 0.9, "--json")
    assert code == 0
    assert json.loads(out) == mcage.nbti(duty=0.4, years=7, vdd=0.9)
    (row,) = mcage.nbti("facelift", duty=0.5, constants={"eta": 0.3})
    assert row["dvth_mv"] != mcage.nbti("facelift", duty=0.5)[0]["dvth_mv"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mcage.nbti(duty=1.5), "duty 1.5"),
        (lambda: mcage.nbti(constants={"eta": 0.3}), "name the model"),
        (lambda: mcage.nbti("faceloft"), "faceloft"),
        (lambda: mcage.sensitivity(mcage.SweepSpec(), of="life"), "of life: choose from"),
        (lambda: mcage.sensitivity(mcage.SweepSpec(), method="x"), "method x: choose from"),
        (lambda: mcage.sensitivity(mcage.SweepSpec(), ranges={"heat": (1, 2)}), "heat"),
        (lambda: mcage.import_traces("log", "out", values="during"), "values 'during'"),
        (lambda: mcage.import_traces("log", "out", cycles=(9, 3)), "cycles 9:3: ends before"),
        (lambda: mcage.import_traces("none.txt", "out"), "none.txt"),
        (lambda: mcage.write_report("none.h5", "out"), "none.h5"),
        (lambda: mcage.write_report("none.h5", "out", width=100), "width 100"),
        (
            lambda: mcage.vmin(mcage.SweepSpec(), "v.h5"),
            "a SweepSpec is no spec of mcage vmin",
        ),
    ],
)
def test_mistakes_are_named(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mcage.UserError) as refused:
        call()
    assert words in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_study_of_gpus_is_that_of_the_command(tmp_path):
    study = gating(instances=4, policies=["default"])
    path = mcage.run_gpu(study.spec, tmp_path / "function.h5")
    assert path.read_bytes() == run_campaign(study.study, tmp_path / "study.h5").read_bytes()
    page = mcage.write_report(path, tmp_path / "report", width=85, figure="survival")
    assert page == tmp_path / "report" / "index.html"
    assert page.exists()


def test_traces_are_imported(tmp_path):
    facts = mcage.import_traces(SAMPLE, tmp_path / "traces", windows=3)
    assert facts["format"] == "mgpusim"
    for made in facts["traces"]:
        assert mcage.open_trace(tmp_path / "traces" / made["file"]).windows == made["windows"]


def test_a_single_slice_is_imported(tmp_path):
    facts = mcage.import_traces(SAMPLE, tmp_path, slices="cu0.simd1")
    assert [made["slice"] for made in facts["traces"]] == ["cu0.simd1"]


def test_sensitivity_in_words_and_ranges():
    spec = mcage.SweepSpec(**SMALL)
    ends = tuple(np.array([0.2, 0.4]))
    by_ends = mcage.sensitivity(spec, "rmst", parameter="eta", ranges={"eta": ends})
    by_text = mcage.sensitivity(spec, of="mean_life", ranges={"eta": "0.2..0.4"}, parameter=["eta"])
    assert by_ends == by_text
    assert [effect.setting for effect in by_ends.bars[0].effects] == [0.2, 0.4]


def test_a_rare_estimate_in_ppm_and_fit():
    failures = estimate(np.ones(1000), np.arange(1000) < 3, 0.003)
    shares = np.array([failures.probability, failures.lower, failures.upper])
    np.testing.assert_allclose(list(vars(failures.failed_ppm).values()), 1e6 * shares)
    fit = -1e9 * np.log1p(-shares) / (3 * SECONDS_PER_YEAR / 3600)
    np.testing.assert_allclose(list(vars(failures.mean_rate_fit(3.0)).values()), fit)


@each(
    ("name", "known", "meant"),
    [
        ("rmst", ["median_life", "mean_life"], "mean_life"),
        ("life_to_horizon", ["median_life", "mean_life"], "mean_life"),
        ("mean_life", ["life_to_horizon"], "life_to_horizon"),
        ("rmst", ["case", "life_to_horizon_years"], "life_to_horizon_years"),
        ("rmst", ["rmst", "mean_life"], "rmst"),
        ("rmst", ["median_life"], "rmst"),
        ("median_life", ["mean_life"], "median_life"),
    ],
)
def test_the_names_of_the_mean_life_up_to_the_horizon_mean_the_same(name, known, meant):
    assert known_name(name, known) == meant


def test_a_sweep_may_be_stopped_by_each_of_these_names():
    for name in ("rmst", "mean_life", "life_to_horizon"):
        spec = mcage.SweepSpec(stopping={"rel_ci": 0.1, "of": name})
        assert stopping_rule(spec).of == "rmst"
