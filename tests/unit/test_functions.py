"""Functions of the public interface: the same as the commands, with the names of their options."""

import inspect
import json
import re
from typing import Unpack, get_args, get_type_hints

import numpy as np
import pytest
import typer.main
from commands_in_python import FUNCTIONS, OF_TERMINALS, OF_THE_INSTALLATION, OTHER_NAMES
from gpu_cases import gating
from places import ROOT
from tables import each

import mcage
from mcage.aging.nbti import SECONDS_PER_YEAR
from mcage.campaign.run import run_campaign
from mcage.cli.app import COMMANDS, app
from mcage.cli.commands import named
from mcage.cli.spec_options import SpecOptions
from mcage.gpu.exchange import RuleKeys
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


def parameters_of(name):
    """Parameters of a public function; of ``**keys`` the keys that it takes."""
    function = getattr(mcage, name)
    if not callable(function):
        return set()
    names = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            names.add(parameter.name)
        elif name == "emulate":
            names |= mcage.Program.model_fields.keys()
        else:
            (keys,) = get_args(parameter.annotation) or get_args(
                eval(parameter.annotation, {"Unpack": Unpack, "RuleKeys": RuleKeys})
            )
            names |= keys.__annotations__.keys()
    return names


def options_of(command):
    """Flags of a command but those that set keys of its spec."""
    made = typer.main.get_command(app)
    for name in command.split():
        made = made.commands[name]
    function, keys = named(COMMANDS[command]), set()
    for hint in get_type_hints(function, include_extras=True).values():
        keys |= {
            key.flag
            for data in get_args(hint)
            if isinstance(data, SpecOptions)
            for key in data.kind.options()
        }
    flags = [option.opts[0] for option in made.params if option.param_type_name == "option"]
    return set(flags) - keys


def test_each_command_is_a_function():
    assert FUNCTIONS.keys() | set(OF_THE_INSTALLATION) == COMMANDS.keys()
    assert {name for names in FUNCTIONS.values() for name in names} <= set(mcage.__all__)


@each("command", sorted(FUNCTIONS))
def test_no_option_is_missing_in_python(command):
    """Each option is a parameter of the same name, or it is listed why not, once."""
    known = set().union(*map(parameters_of, FUNCTIONS[command]))
    flags = options_of(command)
    other = OTHER_NAMES.get(command, {})
    assert other.keys() <= flags
    missing = {
        flag
        for flag in flags - OF_TERMINALS.keys() - other.keys()
        if flag.removeprefix("--").replace("-", "_") not in known
    }
    assert not missing
    homes = {name for name in other.values() if name.isidentifier()}
    assert homes <= known


def test_exceptions_are_of_use():
    flags = set().union(*map(options_of, FUNCTIONS))
    assert OF_TERMINALS.keys() <= flags


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (
            ["avf", "MatrixTranspose", "--technique", "rrcd", "--release", "work-group"],
            lambda: mcage.avf("MatrixTranspose", "rrcd", release="work-group"),
        ),
        (
            ["faults", "--scenario", "clustered", "--vdd", "0.45", "--maps", "3", "--mu", "0.15"],
            lambda: mcage.faults(scenario="clustered", vdd=0.45, maps=3, mu=0.15).as_json(),
        ),
        (["trace", "list", "--suite", "modern"], lambda: mcage.bundled_traces("modern")),
        (
            ["nbti", "--duty", 0.4, "--years", 7, "--vdd", 0.9],
            lambda: mcage.nbti(duty=0.4, years=7, vdd=0.9),
        ),
    ],
)
def test_a_function_gives_what_its_command_prints(command, words, call):
    code, out, _ = command(*words, "--json")
    assert code == 0
    assert json.loads(out) == json.loads(json.dumps(call()))


def test_constants_of_a_model_may_be_set():
    (row,) = mcage.nbti("facelift", duty=0.5, constants={"eta": 0.3})
    assert row["dvth_mv"] != mcage.nbti("facelift", duty=0.5)[0]["dvth_mv"]


ONE_CASE = mcage.SweepSpec(
    techniques=["rrcd"], environments=["dvfs"], workload={"kernels": ["MatrixTranspose"]}
)


@each(
    ("call", "words"),
    [
        (lambda: mcage.nbti(duty=1.5), "duty 1.5"),
        (lambda: mcage.nbti(constants={"eta": 0.3}), "name the model"),
        (lambda: mcage.sensitivity(mcage.SweepSpec(), of="life"), "of life: choose from"),
        (lambda: mcage.sensitivity(mcage.SweepSpec(), ranges={"heat": (1, 2)}), "heat"),
        (lambda: mcage.import_traces("log", "out", values="during"), "values 'during'"),
        (lambda: mcage.write_report("none.h5", "out", width=100), "width 100"),
        (lambda: mcage.write_report("none.h5", "out", height=39), "height 39"),
        (lambda: mcage.failure_probability(ONE_CASE, 0.0, 1), "instances = 1"),
        (lambda: mcage.faults(maps=0), "maps 0"),
        (lambda: mcage.compare("one.h5"), "name them, too"),
        (lambda: mcage.pareto("one.h5", resamples=9), "--resamples 9"),
        (lambda: mcage.exchange("one.h5", sms=0), "sms = 0"),
        (lambda: mcage.emulate("k.cl", inputs=-1), "inputs = -1"),
        (lambda: mcage.bundled_traces("old"), "--suite 'old'"),
        (lambda: mcage.temperature("p.csv", seconds=-1), "--seconds -1"),
        (lambda: mcage.verify("none.h5"), "none.h5"),
        (
            lambda: mcage.run(mcage.SweepSpec(), "r.h5", processes=2, scheduler="s"),
            "--processes and --scheduler",
        ),
        (
            lambda: mcage.vmin(mcage.SweepSpec(), "v.h5"),
            "a SweepSpec is no spec of mcage vmin",
        ),
    ],
)
def test_mistakes_are_named(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mcage.UserError, match=re.escape(words)):
        call()
    assert not list(tmp_path.iterdir())


def test_a_study_of_gpus_is_that_of_the_command(tmp_path):
    study = gating(instances=4, policies=["default"])
    path = mcage.run(study.spec, tmp_path / "function.h5")
    assert path.read_bytes() == run_campaign(study.study, tmp_path / "study.h5").read_bytes()
    page = mcage.write_report(path, tmp_path / "report", width=85, figure="survival")
    assert page == tmp_path / "report" / "index.html"
    assert page.exists()


def test_traces_are_imported(tmp_path):
    facts = mcage.import_traces(SAMPLE, tmp_path / "traces", windows=3, slices="cu0.simd1")
    assert facts["format"] == "mgpusim"
    (made,) = facts["traces"]
    assert made["slice"] == "cu0.simd1"
    assert mcage.open_trace(tmp_path / "traces" / made["file"]).windows == made["windows"]


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


@each("name", ["rmst", "mean_life", "life_to_horizon"])
def test_a_sweep_may_be_stopped_by_each_of_these_names(name):
    spec = mcage.SweepSpec(stopping={"rel_ci": 0.1, "of": name})
    assert stopping_rule(spec).of == "rmst"
