"""Does code of a stranger run only where a user has typed its name, or has said that it may?

A module or file named `stranger` leaves `ran` in the current folder when it is imported.
"""

import re
import sys
from pathlib import Path

import fake_campaign
import pytest
import tomli_w
import typer.main
from amd_tools import needs_clang
from faulty_oracle import BLEND, BLEND_ARGUMENTS

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.cli.app import app
from mcage.spec import SweepSpec
from mcage.spec.keys import PLUG_IN, RunsCode, keys_below
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.vmin.spec import VminSpec

COMMANDS = {
    "sweep": SweepSpec,
    "vmin": VminSpec,
    "rare": SweepSpec,
    "sensitivity": SweepSpec,
    "inject": InjectSpec,
    "gpu gating": GatingSpec,
    "gpu optimum": GatingSpec,
    "gpu both": BothSpec,
}
"""Commands whose spec can name code, and its class."""

NO_CODE = {"gpu heterogeneity"}

NO_FILE = {"rare", "sensitivity", "gpu optimum"}
"""Commands that show no spec and write no results file."""

MARK = "from pathlib import Path\nPath('ran').touch()\nraise SystemExit\n"

AXES = ("techniques", "policies")


def commands():
    """Names of all commands, and the names of their options."""
    groups = [("", typer.main.get_command(app))]
    while groups:
        name, group = groups.pop()
        for part, command in group.commands.items():
            whole = f"{name} {part}".strip()
            if hasattr(command, "commands"):
                groups.append((whole, command))
            else:
                yield whole, {option for each in command.params for option in each.opts}


def keys_with_code():
    """Rows of command, key and value; daily, each key at the first command that has it."""
    seen = set()
    for command, kind in COMMANDS.items():
        for key, field in keys_below(kind):
            for mark in field.metadata:
                # Of both levels, the model of the register files is that of the SMs.
                if isinstance(mark, RunsCode) and key != "sweep.aging.model":
                    file = "-DX=stranger.py" if key == "program.flags" else "stranger.py"
                    marks = [pytest.mark.slow] if key in seen else []
                    seen.add(key)
                    value = "stranger:X" if mark is PLUG_IN else file
                    yield pytest.param(command, key, value, marks=marks)


def spec_with(command, key, value):
    """Text of a spec; an axis has the value beside one that ships with mcage."""
    *tables, name = key.split(".")
    shipped = {"techniques": "rrcd", "policies": "default"}
    fields = {name: [shipped[name], value] if name in AXES else value}
    for table in reversed(tables):
        fields = {table: fields}
    if command == "inject":
        fields["program"] = {"source": "kernel.co"} | fields.get("program", {})
    return fields


def results_file(place, fields):
    """A results file that records a spec; its results are those of another."""
    header = fake_campaign.campaign(instances=1, spec_toml=tomli_w.dumps(fields))
    return run_campaign(Study(header, fake_campaign.compute), place, 1)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "stranger.py").write_text(MARK)
    (tmp_path / "kernel.co").write_bytes(b"")
    yield tmp_path
    sys.modules.pop("stranger", None)  # or the next test would import nothing


def files_in(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


def of_command(command, *arguments):
    """Command line that computes, as far as mistakes are looked for."""
    names = command.split()
    out = [] if command in NO_FILE else ["--out", "out.h5"]
    return [*names, *arguments, *out]


def test_every_command_that_reads_a_spec_is_tried():
    with_spec = {name for name, options in commands() if "--trust" in options}
    assert with_spec == set(COMMANDS) | NO_CODE
    shown = {name for name, options in commands() if "--show-spec" in options}
    assert shown == with_spec - NO_FILE


@pytest.mark.parametrize("kind", [SweepSpec, VminSpec, InjectSpec, GatingSpec, BothSpec])
def test_keys_whose_help_names_code_are_marked(kind):
    marked = {
        key
        for key, field in keys_below(kind)
        if any(isinstance(mark, RunsCode) for mark in field.metadata)
    }
    said = {key.name for key in kind.options() if re.search(r"module:NAME|\.py\b", key.help)}
    assert said - {"techniques"} <= marked
    of_level = {key.rpartition("sweep.")[2] for key in marked}
    assert {"techniques", "aging.model", "aging.pbti"} <= of_level or kind is GatingSpec
    if kind is InjectSpec:
        assert {f"program.{key}" for key in ("source", "args", "check", "flags")} <= marked


@pytest.mark.parametrize(("name", "key", "value"), [*keys_with_code()])
def test_code_that_a_results_file_names_needs_a_word(name, key, value, command, folder):
    results_file(folder / "r.h5", spec_with(name, key, value))
    before = files_in(folder)
    code, out, said = command(*of_command(name, "r.h5"))
    assert (code, out) == (2, ""), said
    for word in ("r.h5", key, value, "--trust"):
        assert word in said
    assert len(said.splitlines()) <= 2
    assert files_in(folder) == before
    _, _, said = command(*of_command(name, "r.h5", "--trust"))
    assert "--trust" not in said
    is_tried = Path(value).suffix if name == "inject" else name not in NO_FILE
    if is_tried and key != "program.flags":
        assert (folder / "ran").exists(), said


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key", "value"), [*keys_with_code()])
@pytest.mark.parametrize("place", ["r.h5", "spec.toml"])
def test_show_spec_runs_and_writes_nothing(name, key, value, place, command, folder):
    if name in NO_FILE:
        return
    fields = spec_with(name, key, value)
    if place == "r.h5":
        results_file(folder / place, fields)
    else:
        (folder / place).write_text(tomli_w.dumps(fields))
    before = files_in(folder)
    code, out, said = command(*name.split(), place, "--show-spec")
    assert code == 0, said
    assert value in out
    assert "only keys, types and bounds" in said
    assert f"{key} = {value!r}" in said
    assert files_in(folder) == before
    # What is shown is a spec, whose bounds are checked all the same.
    (folder / "shown.toml").write_text(out)
    assert command(*name.split(), "shown.toml", "--show-spec")[1] == out
    code, out, said = command(*name.split(), place, "--instances", "0", "--show-spec")
    assert (code, out) == (2, "")
    assert "instances" in said


def test_what_a_user_types_needs_no_word(command, folder):
    """Neither in a TOML file nor as an option, which takes the place of what the file names."""
    results_file(folder / "r.h5", spec_with("sweep", "aging.model", "stranger:X"))
    (folder / "spec.toml").write_text('techniques = ["stranger:X"]\n')
    for given in (["spec.toml"], ["--technique", "stranger:X"], ["r.h5", "--nbti", "stranger:X"]):
        _, _, said = command("sweep", *given, "--out", "out.h5")
        assert "--trust" not in said
        assert (folder / "ran").exists()
        (folder / "ran").unlink()
    _, _, said = command("sweep", "r.h5", "--nbti", "planar", "--kernel", "NoSuchKernel")
    assert "NoSuchKernel" in said
    results_file(folder / "both.h5", spec_with("gpu both", "gating.policies", "stranger:X"))
    typed = ("--set", "gating.policies.0=default", "--out", "out.h5")
    assert "--trust" in command("gpu", "both", "both.h5", *typed)[2]


POLICY = """
from mcage.studies.gpu_gating.policies import POLICIES
X = POLICIES["default"]
"""


def made_of_sweep(folder, command):
    spec = SweepSpec(
        techniques=["baseline", "stranger:X"], aging={"model": "stranger:X", "pbti": "stranger:X"}
    )
    cases = tuple(fake_campaign.case(name) for name in ("baseline", "stranger:X", "rrcd"))
    header = fake_campaign.campaign(instances=4, spec_toml=spec.to_toml(), cases=cases)
    run_campaign(Study(header, fake_campaign.compute), folder / "r.h5", 4)


def made_of_gating(folder, command):
    (folder / "stranger.py").write_text(POLICY)
    policies = ("--policy", "default", "--policy", "stranger:X")
    made = command("gpu", "gating", *policies, "--instances", "2", "--out", "r.h5")
    assert made[0] == 0, made[2]


def made_of_inject(folder, command):
    (folder / "blend.cl").write_text(BLEND)
    (folder / "blend.py").write_text(BLEND_ARGUMENTS)
    inject = ("inject", "blend.cl", "--args", "blend.py", "--arch", "gfx900")
    made = command(*inject, "--instances", "20", "--out", "r.h5")
    assert made[0] == 0, made[2]


@needs_clang
@pytest.mark.slow
@pytest.mark.parametrize("made", [made_of_sweep, made_of_gating, made_of_inject])
def test_what_reads_results_runs_nothing(command, folder, made):
    """Of a sweep, of GPUs, and of injections, all with code of a stranger."""
    made(folder, command)
    sys.modules.pop("stranger", None)
    for name in ("stranger.py", "blend.py"):
        (folder / name).write_text(MARK)
    for line in (
        *("show r.h5", "compare r.h5 r.h5", "merge copy.h5 r.h5", "verify r.h5", "status r.h5"),
        *("pareto r.h5", "gpu exchange r.h5", "report r.h5 --out page"),
    ):
        code, _, said = command(*line.split())
        assert code in (0, 2), said
        assert not (folder / "ran").exists(), line
    assert (folder / "page").is_dir()
