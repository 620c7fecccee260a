"""Techniques and NBTI models of users: messages name the one that is wrong, and say why."""

import random
import subprocess
import sys
from pathlib import Path

import mutated_specs
import numpy as np
import pytest

from mcage.aging.nbti import facelift, nbti_model
from mcage.errors import UserError
from mcage.techniques import technique

SMALL = (
    *("--kernel", "MatrixTranspose", "--generations", "1", "--periods", "1", "--epochs", "1"),
    *("--instances", "2", "--technique", "baseline", "--environment", "nominal"),
    *("--engine", "numpy", "--out", "results.h5"),
)

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
        ("raise SystemExit", ["cannot import", "SystemExit"]),
        ("raise ValueError('two\\nlines \\x1b[31m' + 'x' * 100_000)", ["ValueError: two lines"]),
        ("raise BaseException('base')", ["BaseException: base"]),
        ("def f(): return f()\nf()", ["RecursionError"]),
        ("raise MemoryError", ["MemoryError"]),
        ("class E(Exception):\n    def __str__(self): return 1\nraise E", ["(E)"]),
        ("def __getattr__(name): raise SystemExit(name)", ["SystemExit: PLUGIN"]),
        ("PLUGIN = 3", ["has a int under 'PLUGIN'"]),
        ("PLUGIN = (", ["SyntaxError"]),
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
        ("def dvth(self, *given): return 1 / 0", ["dvth failed", "ZeroDivisionError"]),
        ("def dvth(self, *given): return np.nan * given[0]", ["dvth gives", "NaN"]),
        ("def dvth(self, *given): return None", ["dvth gives None"]),
        ("def dvth(self, *given): return np.zeros(3)", ["dvth gives an array of shape (3,)"]),
        ("def advance(self, state, *given): return state[:1]", ["advance gives an array of shape"]),
        ("def diffusion_per_second(self, kelvin): return [1.0]", ["an array of shape (1,)"]),
        ("def rates(self, *given): return 7", ["rates gives 7"]),
        ("def __repr__(self): raise KeyError('repr')", ["__repr__ failed", "KeyError"]),
        ("def stress_per_second(self, *given): return 'text'", ["stress_per_second gives 'text'"]),
        ("vt0_volts = property(lambda self: 1 / 0)", ["user_model:PLUGIN"]),
        ("root = 'four'", ["its root is 'four'"]),
        ("additive = None", ["its additive is None"]),
    ],
    ids=lambda given: given[:35] if isinstance(given, str) else "",
)
def test_a_model_that_fails_when_it_is_asked(body, words, command, write):
    write("user_model", MODEL.format(body=body))
    assert_blamed(
        command("sweep", *SMALL, "--nbti", "user_model:PLUGIN"), "user_model:PLUGIN", *words
    )


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


def test_the_right_answers_are_passed_on(write):
    write("user_right", MODEL.format(body="pass"))
    model, meant = nbti_model("user_right:PLUGIN"), facelift()
    assert repr(model) == repr(meant).replace("Facelift", "UserModel")
    assert model.vt0_volts == meant.vt0_volts
    past = np.ones((3, 4, 2))
    assert np.array_equal(model.dvth_of(past), meant.dvth_of(past))


@pytest.mark.parametrize("seed", range(12))
def test_failing_plugins_are_named(seed, command, write):
    plugin = mutated_specs.failing_plugin(random.Random(seed))
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


def test_a_sweep_calls_a_technique_as_it_calls_itself(command, write):
    write(
        "user_named",
        "import dataclasses\nimport mcage\n"
        "PLUGIN = dataclasses.replace(mcage.technique('rrcd'), name='fair')\n",
    )
    for out in (
        command("sweep", *SMALL, "--technique", "user_named:PLUGIN")[1],
        command("show", "results.h5")[1],
    ):
        assert "\nfair " in out
        assert "user_named:PLUGIN" not in out


def test_the_current_folder_is_searched_for_plugins_only(command, write, tmp_path):
    write("user_path", "import sys\nSEEN = list(sys.path)\nPLUGIN = 3\n")
    before = list(sys.path)
    assert_blamed(command("nbti", "--model", "user_path:PLUGIN"), "user_path:PLUGIN")
    assert sys.path == before
    assert str(tmp_path) not in before
    assert [*before, str(tmp_path)] == sys.modules["user_path"].SEEN


def test_no_command_imports_what_lies_in_the_current_folder(tmp_path):
    """Modules that libraries import if they find them, all at once: each says its name."""
    for module in ("numexpr", "bottleneck", "cupy", "org", "IPython"):
        (tmp_path / f"{module}.py").write_text(f"raise RuntimeError('{module} was run')\n")
    lines = [["sweep", *SMALL], ["show", "results.h5", "--figure", "figure.png"]]
    program = (
        "import sys; sys.path = [folder for folder in sys.path if folder]\n"
        "from mcage.cli.main import main\n"
        f"for line in {lines}:\n"
        "    sys.argv = ['mcage', *line]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, end.code\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "was run" not in ended.stderr
    assert (tmp_path / "figure.png").exists()
