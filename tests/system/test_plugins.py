"""Techniques and NBTI models of users: messages name the one that is wrong, and say why."""

import math
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import grammars
import pytest
from command_line import from_json, invoke, run_mcage
from places import ROOT, shown_files
from tables import each

from mcage.aging.environment import environment
from mcage.aging.nbti import MODEL_NAMES, Transistors, constants, facelift, nbti_model
from mcage.errors import UserError
from mcage.techniques import technique

SMALL = (
    *("--kernel", "MatrixTranspose", "--generations", "1", "--periods", "1", "--epochs", "1"),
    *("--instances", "2", "--technique", "baseline", "--environment", "turbo"),
    *("--engine", "numpy", "--out", "results.h5"),
)

OWN = """
class Own(BaseException):
    def __str__(self): raise self
raise Own
"""

MODEL = """
import numpy as np
from mcage.aging.nbti import Facelift, facelift

class UserModel(Facelift):
    {body}

PLUGIN = UserModel(**vars(facelift()))
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes modules into the current folder, and forgets them afterwards."""
    monkeypatch.chdir(tmp_path)
    known = set(sys.modules)

    def module(name, text):
        (tmp_path / f"{name}.py").write_text(text)

    yield module
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def assert_blamed(ended, plugin, *words):
    """Exit code 2, one line on stderr that names the plug-in, no results file."""
    code, _, error = ended
    error = "".join(line for line in error.splitlines(True) if not line.startswith("engine "))
    assert code == 2, error
    assert error.count("\n") == 1, error
    assert plugin in error
    assert all(word in error for word in words), error
    assert len(error) < 1000
    assert not Path("results.h5").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exit(0)", ["cannot import", "SystemExit: 0"]),
        ("raise ValueError('two\\nlines \\x1b[31m' + 'x' * 100_000)", ["ValueError: two lines"]),
        ("def f(): return f()\nf()", ["RecursionError"]),
        (OWN, ["cannot import", "(Own)"]),
        ("class E(Exception):\n    def __str__(self): return 1\nraise E", ["(E)"]),
        ("def __getattr__(name): raise SystemExit(name)", ["SystemExit: PLUGIN"]),
        ("PLUGIN = 3", ["has a int under 'PLUGIN'"]),
    ],
    ids=lambda given: given[:25] if isinstance(given, str) else "",
)
@pytest.mark.parametrize("option", ["--nbti", "--technique"])
def test_a_plugin_that_cannot_be_imported(option, text, words, command, write):
    write("user_import", text)
    ended = command("sweep", *SMALL, option, "user_import:PLUGIN")
    assert_blamed(ended, "'user_import:PLUGIN'", *words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def dvth(self, *given): exit(0)", ["dvth failed", "SystemExit: 0"]),
        ("def dvth(self, *given): return np.nan * given[0]", ["dvth gives", "NaN"]),
        ("def dvth(self, *given): return np.zeros(3)", ["dvth gives an array of shape (3,)"]),
        ("def advance(self, state, *given): return state[:1]", ["advance gives an array of shape"]),
        ("def diffusion_per_second(self, kelvin): return [1.0]", ["an array of shape (1,)"]),
        ("def rates(self, *given): return 7", ["rates gives 7"]),
        ("def __repr__(self): raise KeyError('repr')", ["__repr__ failed", "KeyError"]),
        ("def stress_per_second(self, *given): return 'text'", ["stress_per_second gives 'text'"]),
        ("vt0_volts = property(lambda self: 1 / 0)", ["user_model:PLUGIN"]),
        ("root = 'four'", ["its root is 'four'"]),
        ("root = True", ["its root is True"]),
        ("root = 0.5", ["its root is 0.5, where a number of 1 ... 100 is needed"]),
        ("additive = None", ["its additive is None"]),
    ],
    ids=lambda given: given[:35] if isinstance(given, str) else "",
)
def test_a_model_that_fails_when_it_is_asked(body, words, command, write):
    write("user_model", MODEL.format(body=body))
    assert_blamed(
        command("sweep", *SMALL, "--nbti", "user_model:PLUGIN", "--no-spread"),
        "user_model:PLUGIN",
        *words,
    )


LAW = """root = {root}
    def stress_per_second(self, *given):
        return super().stress_per_second(*given) ** ({root} / 4)
    def dvth(self, stress, stressed, recovered):
        return super().dvth(np.asarray(stress) ** (4 / {root}), stressed, recovered)
"""


@pytest.mark.parametrize("root", [6.25, 1 / 0.27, 6, 4.0])
def test_a_law_of_time_may_have_any_exponent(root, command, write):
    """Under full stress the shift grows with the root of time, and by its factor at every root."""
    write("user_model", MODEL.format(body=LAW.format(root=root)))
    model, turbo = nbti_model("user_model:PLUGIN"), environment("turbo", 0.419)
    once, later = (model.largest_dvth(turbo, seconds) for seconds in (1e7, 64e7))
    assert later == pytest.approx(64 ** (1 / root) * once, rel=1e-12)
    slower = Transistors(shift_factor=1.25)
    assert model.largest_dvth(turbo, 1e7, slower) == pytest.approx(1.25 * once, rel=1e-12)
    if root == 4.0:
        assert model.rates(turbo, slower).stress == facelift().rates(turbo, slower).stress
    code, _, error = command("sweep", *SMALL, "--nbti", "user_model:PLUGIN")
    assert code == 0, error


def test_a_model_may_leave_out_an_axis(command, write):
    """One rate for slices of different temperatures."""
    body = "def diffusion_per_second(self, kelvin): return np.ones(1)"
    write("user_model", MODEL.format(body=body))
    code, _, error = command("sweep", *SMALL, "--nbti", "user_model:PLUGIN")
    assert code == 0, error


def test_a_model_that_fails_late(command, write):
    """The checks before a sweep call it some dozen times, the lives of the sweep later."""
    body = """
    asked = 0
    def stress_per_second(self, *given):
        return super().stress_per_second(*given)
    def dvth_after(self, *given):
        raise RuntimeError('late')
    """
    write("user_late", MODEL.format(body=body))
    assert_blamed(
        command("sweep", *SMALL, "--nbti", "user_late:PLUGIN"), "user_late:PLUGIN", "late"
    )


@pytest.mark.parametrize("seed", range(12))
def test_failing_plugins_are_named(seed, command, write):
    plugin = grammars.failing_plugin(random.Random(seed))
    write(plugin.module, plugin.source)
    code, _, error = command("sweep", *SMALL, plugin.option, plugin.name)
    if code == 0:  # it fails only after more calls than this sweep makes
        assert Path("results.h5").exists()
    else:
        Path("results.h5").unlink(missing_ok=True)
        assert_blamed((code, "", error), plugin.module)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("Technique('user', 'direct', Storage.PLAIN, Gating.NONE, 's', 's')", ["placement"]),
        ("Technique('user', Placement.DIRECT, Storage.PLAIN, Gating.NONE, None, 's')", ["source"]),
        (
            "UserTechnique('user', Placement.DIRECT, Storage.PLAIN, Gating.NONE, 's', 's')",
            ["subclass UserTechnique"],
        ),
    ],
    ids=["placement", "source", "subclass"],
)
def test_a_technique_that_engines_would_not_understand(value, words, write):
    write(
        "user_technique",
        "from mcage.techniques import Gating, Placement, Storage, Technique\n"
        f"class UserTechnique(Technique):\n    redirects = True\nPLUGIN = {value}\n",
    )
    with pytest.raises(UserError, match=r"technique 'user_technique:PLUGIN': ") as refusal:
        technique("user_technique:PLUGIN")
    assert all(word in str(refusal.value) for word in words)


def test_a_plugin_may_consist_of_several_files(command, write):
    write("user_values", "ETA = 0.1\n")
    write(
        "user_several",
        "import dataclasses\nfrom mcage.aging.nbti import facelift\nfrom user_values import ETA\n"
        "PLUGIN = dataclasses.replace(facelift(), eta=ETA)\n",
    )
    code, out, error = command("nbti", "--model", "user_several:PLUGIN")
    assert (code, error) == (0, "")
    assert "user_several:PLUGIN" in out


def test_the_current_folder_is_searched_for_plugins_only(command, write, tmp_path):
    write("user_path", "import sys\nSEEN = list(sys.path)\nPLUGIN = 3\n")
    before = list(sys.path)
    assert_blamed(command("nbti", "--model", "user_path:PLUGIN"), "user_path:PLUGIN")
    assert sys.path == before
    assert str(tmp_path) not in before
    assert [*before, str(tmp_path)] == sys.modules["user_path"].SEEN


@pytest.mark.slow
def test_no_command_imports_what_lies_in_the_current_folder(tmp_path):
    """Modules that libraries import if they find them, all at once: each says its name."""
    for module in ("numexpr", "bottleneck", "cupy", "org", "IPython", "rich", "tomllib"):
        (tmp_path / f"{module}.py").write_text(f"raise RuntimeError('{module} was run')\n")
    for line in (["sweep", *SMALL], ["show", "results.h5", "--figure", "figure.png"]):
        program = [sys.executable, "-m", "mcage", *line]
        ended = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        assert "was run" not in ended.stderr
    assert (tmp_path / "figure.png").exists()


# `mcage nbti`, and how a user's own model is found, or refused.


run, of_json = partial(run_mcage, "nbti"), partial(from_json, "nbti")


def test_shift_and_delay_of_all_models():
    options = ["--duty", "0.4", "--years", "7", "--vdd", "0.9", "--temperature", "353.15"]
    rows = {row["model"]: row for row in of_json(*options)}
    assert list(rows) == list(MODEL_NAMES)
    assert rows["finfet"]["dvth_mv"] == pytest.approx(39.9893, rel=1e-5)
    assert rows["planar"]["dvth_mv"] == pytest.approx(1.21963, rel=1e-5)
    assert "39.989" in run(*options)


def test_without_overdrive_a_transistor_does_not_switch():
    (row,) = of_json("--model", "facelift", "--vdd", "0.25")
    assert row == {"model": "facelift", "dvth_mv": 0, "delay_increase_percent": None}
    assert "does not switch" in run("--model", "facelift", "--vdd", "0.25")


def test_constants_are_listed():
    rows = of_json("--list")
    listed = {(row["model"], row["constant"]): row for row in rows}
    assert len(listed) == len(rows) == sum(len(constants(name)) for name in MODEL_NAMES)
    assert listed["planar", "vt0_volts"] == {
        "model": "planar",
        "constant": "vt0_volts",
        "value": 0.3,
        "unit": "V",
        "status": "printed",
        "source": "Zhang et al., INTEGRATION 2015, Table 3",
    }
    text = run("--list", "--model", "finfet-thermal")
    assert text.startswith("finfet-thermal: finfet, but for")
    assert "oxide_thickness_nm" not in text


@each(
    ("arguments", "message"),
    [
        (["--duty", "1.5"], "duty 1.5: a fraction of the time, 0 ... 1, is needed"),
        (["--years", "-1"], "years -1: an age of 0 ... 1000 years is needed"),
        (["--temperature", "80"], "kelvin, not degrees Celsius"),
        (["--list", "--model", "my:OWN"], "only models that ship with mcage are listed"),
    ],
)
def test_bad_options(arguments, message):
    result = invoke("nbti", *arguments)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_the_example_of_the_documentation(tmp_path, monkeypatch):
    (tmp_path / "documented_my_nbti.py").write_text(shown_files("aging.md")["my_nbti.py"])
    monkeypatch.syspath_prepend(tmp_path)
    model = "documented_my_nbti:NO_RECOVERY"
    assert nbti_model(model).eta == 0
    (row,) = of_json("--model", model, "--duty", "0.5")
    assert row["dvth_mv"] == pytest.approx(66.6872 * math.sqrt(math.sqrt(0.5)), rel=1e-5)
    assert "--model my_nbti:NO_RECOVERY" in (ROOT / "docs" / "aging.md").read_text()


FAILS = """
class Own(BaseException):
    def __str__(self): raise self
def fail(*given, **named): raise Own
"""
ARGUMENTS = """
import numpy as np
GRID, BLOCK = (1,), (64,)
def arguments(random):
    return {"x": np.ones(64, np.float32), "y": np.ones(64, np.float32), "a": 2.5, "n": 64}
"""
POLICY = """
from mcage.studies.gpu_gating.policies import Policy
class Mine(Policy):
    gates, rotates = {gates}, False
    def workers(self, readings, count): raise Own
PLUGIN = Mine()
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise Own", ["Own"]),
        ("arguments = fail", ["arguments", "Own"]),
        (ARGUMENTS + "GRID = type('Grid', (tuple,), {'__getitem__': fail})()", ["GRID"]),
    ],
    ids=lambda given: given[-30:] if isinstance(given, str) else "",
)
def test_whatever_a_file_of_arguments_raises_is_its_own(text, words, refusal, write):
    write("user_arguments", FAILS + text)
    sample = ROOT / "tests" / "samples" / "emulation" / "gfx900.co"
    given = ("--arch", "gfx900", "--args", "user_arguments.py", "--entry", "saxpy")
    said = refusal("trace", "emulate", sample, *given, "--out", "t.h5")
    assert said.startswith("error: user_arguments.py")
    assert all(word in said for word in words), said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("gates", ["True", "property(fail)"])
def test_whatever_a_policy_raises_is_its_own(gates, refusal, write):
    write("user_policy", FAILS + POLICY.format(gates=gates))
    given = ("--policy", "user_policy:PLUGIN", "--instances", "2", "--out", "results.h5")
    said = refusal("gpu", "gating", *given)
    assert "user_policy:PLUGIN" in said
    assert "Own" in said


def test_ctrl_c_in_the_code_of_a_user_is_no_error_of_it(command, write):
    write("user_stopped", "raise KeyboardInterrupt")
    sample = ROOT / "tests" / "samples" / "emulation" / "gfx900.co"
    given = ("--arch", "gfx900", "--args", "user_stopped.py", "--out", "t.h5")
    for arguments in (("trace", "emulate", sample, *given), ("replay", "MatrixTranspose")):
        named = ("--technique", "user_stopped:X") if arguments[0] == "replay" else ()
        assert command(*arguments, *named)[0] == 130
