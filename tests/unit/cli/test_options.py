"""Options of commands: told by the fields of a spec, taken once; ``--set``, help and Ctrl-C."""

import os
import subprocess
import sys
import tomllib
from typing import Annotated, ClassVar, get_args, get_type_hints
from unittest import mock

import pytest
import typer.main
from pydantic import Field
from tables import each
from typer.testing import CliRunner

from mcage.cli import app as cli_app
from mcage.cli import commands, methods, studies
from mcage.cli.app import app
from mcage.cli.spec_options import SpecArguments, SpecOptions, parse_set
from mcage.errors import UserError
from mcage.spec import SweepSpec
from mcage.spec.keys import COMPARED, Option, UsedIf, keys_below
from mcage.spec.sections import Life
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec

PANELS = ("What to compare", "Workload", "Life", "Aging", "Faults", "Registers", "Run")
KEYS = [
    (spec, key)
    for spec in (SweepSpec, GatingSpec, BothSpec, HeterogeneitySpec)
    for key in spec.options()
]


class LifeWithBreaks(Life):
    """A section with one more key; the whole of what is written to add it."""

    break_days: Annotated[
        float,
        Field(ge=0, le=30),
        Option("--break DAYS"),
        UsedIf(
            lambda spec, _: spec.life.activity != 1.0,
            "slices that are always busy take none (activity = {spec.life.activity:g}); leave it "
            "out",
        ),
    ] = 2.0
    """Days for which a slice rests in a year."""


class SpecWithBreaks(SweepSpec):
    """A spec with that section."""

    command: ClassVar[str] = "with breaks"
    life: LifeWithBreaks = LifeWithBreaks()


said = []


def breaks(arguments: Annotated[SpecArguments, SpecOptions("breaks", kind=SpecWithBreaks)]) -> None:
    """Take breaks: a command that takes the spec, and says what its line has made of it."""
    said.append(arguments.spec())


def test_a_new_key_is_told_in_one_place():
    """Its option, panel, help and default, ``--set``, range and refusal come from its field."""
    said.clear()
    made = typer.Typer()
    for name in ("breaks", "other"):
        commands.add_command(made, f"{__name__}:breaks", name)

    def run(*line):
        return CliRunner().invoke(made, ["breaks", "--no-spread", *line], env={"COLUMNS": "100"})

    result = run("--help")
    assert result.exception is None, result.exception
    helped = result.output
    assert "Days for which a slice rests in a year. Default: 2." in " ".join(helped.split())
    life = helped[helped.index("─ Life") : helped.index("─ Aging")]
    assert "--break" in life
    assert "DAYS" in life
    for line in ([], ["--break", "3"], ["--set", "life.break_days=4"]):
        assert run(*line).exception is None
    assert [spec.life.break_days for spec in said] == [2.0, 3.0, 4.0]
    for line, words in (
        (["--break", "40"], "breaks: life.break_days = 40.0: input should be less"),
        (["--set", "life.break=4"], "unknown key 'life.break'"),
        (["--set", "life.break=4"], "is life.break_days meant?"),
        (["--break", "3", "--set", "life.break_days=4"], "both set life.break_days"),
    ):
        assert words in str(run(*line).exception)
    with pytest.raises(UserError) as refused:
        said[1].refuse_unused()
    assert str(refused.value) == (
        "life.break_days = 3.0: slices that are always busy take none (activity = 1); leave it out"
    )
    said[0].refuse_unused()
    SpecWithBreaks(life={"break_days": 3, "activity": 0.5}).refuse_unused()
    assert "break_days = 3.0" in said[1].to_toml()


@each("spec, key", KEYS)
def test_a_help_text_is_a_sentence_or_a_noun_phrase(spec, key):
    assert key.help[0].isupper()
    assert key.help.endswith(".")
    assert key.default_text() not in ("", "None", "()"), "what a missing value stands for is told"


@each("spec", [SweepSpec, GatingSpec, BothSpec, HeterogeneitySpec])
def test_each_option_sets_a_key_of_its_own(spec):
    keys = spec.options()
    for part in ("flag", "name", "parameter"):
        assert len({getattr(key, part) for key in keys}) == len(keys)
    listed = [key.name for key in keys if key.panel == COMPARED]
    assert listed == spec.compared, "keys to compare have options, in the order of the list"


def options_of(command):
    """Flags of a command, by panel."""
    panels = {}
    for parameter in typer.main.get_command(app).commands[command].params:
        if parameter.param_type_name == "option":
            panels.setdefault(parameter.rich_help_panel, []).extend(parameter.opts)
    return panels


def test_the_panels_of_a_sweep_and_the_ten_options_that_come_first():
    panels = options_of("sweep")
    assert tuple(panels) == PANELS
    assert panels[COMPARED] == [
        *("--technique", "--protection", "--environment", "--scenario", "--vdd", "--kernel"),
        *("--nbti", "--horizon", "--instances", "--seed", "--set"),
    ]
    assert {"--out", "--engine", "--devices"} < set(panels[commands.RUN])


@pytest.mark.parametrize(
    "command", [studies.sweep, methods.rare, methods.sensitivity], ids=lambda of: of.__name__
)
def test_every_command_draws_every_option(command):
    """But for keys of which it takes the default alone."""
    given = {flag for flags in options_of(command.__name__).values() for flag in flags}
    without = spec_options(command).without
    for key in SweepSpec.options():
        if command is studies.sweep or not key.name.startswith("stopping."):
            assert (key.flag in given) == (key.name not in without)


OF_ASKING = {"instances", "techniques", "environments", "vdd_volts", "low_vdd", "stopping"}
"""Keys that say of which cases, and of how many slices, a command asks."""

OF_INJECTIONS = {"life.slowdown_limit"}
"""Keys of which an injection has another default: a slice answers however slow it is."""


def spec_options(command):
    """Options of the spec that a command takes."""
    hints = [*get_type_hints(command, include_extras=True).values()]
    (found,) = (part for hint in hints for part in get_args(hint) if isinstance(part, SpecOptions))
    return found


def spec_of(command, **values):
    """Spec of a command line with nothing but these options."""
    options = spec_options(command)
    names = (parameter.name for parameter in options.parameters())
    return options.gathered(dict.fromkeys(names) | values).spec()


def leaves(spec):
    """Values of a spec by dotted key, but of what a command asks."""
    flat, tables = {}, [("", spec.model_dump(exclude=OF_ASKING))]
    for above, table in tables:
        inner = {f"{above}{name}": value for name, value in table.items()}
        tables += [(f"{name}.", value) for name, value in inner.items() if isinstance(value, dict)]
        flat |= {name: value for name, value in inner.items() if not isinstance(value, dict)}
    return flat


@pytest.mark.parametrize(
    ("command", "differing"),
    [
        (methods.rare, set()),
        (studies.vmin, set()),
        (methods.sensitivity, set()),
        (studies.inject, OF_INJECTIONS),
    ],
)
def test_all_commands_ask_about_the_same_slices(command, differing):
    """Field by field: what a sweep has by default, so has every study of sweeps."""
    of_command, of_sweep = (leaves(spec_of(each)) for each in (command, studies.sweep))
    assert len(of_sweep) > 50
    unlike = {name for name, value in of_sweep.items() if of_command[name] != value}
    assert unlike == differing


@pytest.mark.parametrize("command", [methods.rare, studies.vmin])
def test_help_has_no_option_that_is_always_refused(command):
    """Every value but the default would be; in a spec, the reason is told."""
    options = spec_options(command)
    names = {parameter.name for parameter in options.parameters()}
    assert {key.replace(".", "_") for key in options.without}.isdisjoint(names)
    known = {name for name, _ in keys_below(SweepSpec)}
    assert set(options.without) <= known
    assert "aging.nbti_spread_mv" in options.without


# ``--set KEY=VALUE``: sets any key, and is refused by name where it cannot be meant.

POINTS = """
environments = ["phone"]
[[operating_points.phone]]
vdd_volts = 0.9
share = 0.25
[[operating_points.phone]]
vdd_volts = "scenario"
"""


@each(
    ("text", "path", "value"),
    [
        ("seed=3", ("seed",), 3),
        ("life.epochs = 9", ("life", "epochs"), 9),
        ("faults.spread_blocks=true", ("faults", "spread_blocks"), True),
        ("aging.model=my.models:OWN", ("aging", "model"), "my.models:OWN"),
        ("life.activity=uniform(0.5, 1)", ("life", "activity"), "uniform(0.5, 1)"),
        ('workload.kernels=["DCT", "Reduction"]', ("workload", "kernels"), ["DCT", "Reduction"]),
        ("a.low=[{v = 0.7}, {v = 'x'}]", ("a", "low"), [{"v": 0.7}, {"v": "x"}]),
        ('workload.mix."a.b"=2', ("workload", "mix", "a.b"), 2),
        ('workload.kernels=["a=b"]', ("workload", "kernels"), ["a=b"]),
        ("operating_points.phone.0.share=0.5", ("operating_points", "phone", "0", "share"), 0.5),
    ],
)
def test_keys_and_values(text, path, value):
    assert parse_set(text) == (path, value)


@each(
    ("text", "word"),
    [
        ("seed", "KEY=VALUE is needed"),
        ("life epochs=3", "KEY=VALUE is needed"),
        ("life.\nepochs=3", "KEY=VALUE is needed"),
        ("a" * 5000 + "=3", "KEY=VALUE is needed"),
        (".".join("a" * 200) + "=3", "KEY=VALUE is needed"),
        ("environments=[turbo, dvfs]", "not a TOML value"),
        ("seed=[1]\nlife=2", "one KEY=VALUE is needed"),
        ("seed=" + "[" * 5000 + "]" * 5000, "nested too deep"),
        ("seed=" + "9" * 400, "2**64"),
        ("life.epochs=nan", "must be a finite number"),
    ],
)
def test_what_is_no_key_and_value(text, word):
    with pytest.raises(UserError) as caught:
        parse_set(text)
    assert str(caught.value).startswith("--set ")
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def shown(*arguments):
    """The spec of a command line as plain values."""
    with mock.patch("mcage.cli.studies.study_of"):
        result = CliRunner().invoke(app, ["sweep", *arguments, "--show-spec"])
    if result.exception is not None:
        raise result.exception
    return tomllib.loads(result.stdout)


def test_a_key_with_and_without_an_option(tmp_path):
    both = shown("--set", "life.epochs=9", "--set", "faults.mode=table", "--seed", "5")
    assert (both["life"]["epochs"], both["faults"]["mode"], both["seed"]) == (9, "table", 5)
    path = tmp_path / "phone.toml"
    path.write_text(POINTS)
    in_file = shown(str(path))
    changed = shown(str(path), "--set", "operating_points.phone.0.share=0.5")
    in_file["operating_points"]["phone"][0]["share"] = 0.5
    assert changed == in_file


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "life.epochs=0"], ["sweep: life.epochs = 0: input should be"]),
        (["phone.toml", "--set", "life.epochs=0"], ["phone.toml and --set: life.epochs = 0"]),
        (["--set", "life.epoch=9"], ["unknown key 'life.epoch'", "is life.epochs meant?"]),
        (["--set", "environment=dvfs"], ["unknown key 'environment'", "environments = [...]"]),
        (
            ["phone.toml", "--set", "environments.7=dvfs"],
            ["places 0 ... 0, not 7"],
        ),
        (["--set", "life.epochs.x=9", "--set", "seed=1"], ["life.epochs = {'x': 9}"]),
        (["--set", "seed.x=9", "--seed", "1"], ["--seed and --set seed.x=9", "both set seed"]),
        (["--epochs", "9", "--set", "life.epochs=9"], ["--epochs", "both set life.epochs"]),
        (["--set", "life={epochs = 9}", "--horizon", "4"], ["--horizon and --set", "both set"]),
        (["--constant", "eta=1", "--set", "aging.constants.xi1=1"], ["both set aging.constants"]),
    ],
)
def test_what_is_refused(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "phone.toml").write_text(POINTS)
    with pytest.raises(UserError) as caught:
        shown(*arguments)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


# What all commands have in common: options that are taken once, and the two lengths of help.


def all_commands(command=None, path=()):
    command = command or typer.main.get_command(app)
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from all_commands(below, (*path, name))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rare --age 1 --technique rrcd --age 3", "--age takes one value, but 1 and 3 are given"),
        ("sweep --seed 1 --seed 2 --seed 3", "--seed takes one value, but 1 and 2 and 3 are given"),
        ("trace import log --out a -o b", "--out takes one value, but a and b are given"),
        (
            "sweep --spread-blocks --show-spec --keep-blocks",
            "--spread-blocks and --keep-blocks contradict each other: give one of them",
        ),
    ],
)
def test_an_option_with_one_value_is_not_given_twice(refusal, line, words):
    assert words in refusal(*line.split())


@pytest.mark.parametrize(
    "line",
    [
        "trace list --json --json",
        "--debug nbti --debug --model planar --debug --constant xi1=0.9 --constant vt0_volts=0.3",
    ],
)
def test_flags_and_options_with_several_values_are_given_as_often_as_one_likes(command, line):
    code, out, error = command(*line.split())
    assert (code, error) == (0, "")
    assert out


@each(
    ("line", "words"),
    [
        ("rare --vdd", ""),
        ("gpu gating --seed", ""),
        ("rare --vdd-volts 0.5", "--vdd)"),  # a near name is proposed
        ("sweep --vdd 421mV", "; in volts, such as 0.421"),
    ],
)
def test_what_is_not_understood_names_the_help_of_its_command(refusal, line, words):
    said = refusal(*line.split())
    assert words in said
    assert said.endswith(f"The options are listed by: mcage {line.split(' --')[0]} --help\n")


def printed_lines(*line):
    return CliRunner().invoke(app, [*line]).output.splitlines()


@pytest.mark.parametrize("command", ["sweep", "rare", "sensitivity"])
def test_the_help_shows_what_matters_and_help_all_the_rest(command, monkeypatch):
    """In eighty columns, with texts that are wide enough to be read."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    usual, all_ = printed_lines(command, "--help"), printed_lines(command, "--help-all")
    assert len(usual) <= 120 < len(all_)
    made = typer.main.get_command(app).commands[command]
    flags = {made_of.opts[0] for made_of in made.params if made_of.opts[0].startswith("--")}
    listed = {line.split()[1] for line in all_ if line.startswith("│ --")}
    assert {flag[:30] for flag in flags} <= {flag.partition("/")[0] for flag in listed}
    assert printed_lines(command, "--help") == usual, "what is hidden is hidden again"
    assert max(map(len, usual)) <= 80
    assert not [line for line in usual if "…" in line or line.startswith("╭─ Options")]
    helps = [line[35:].strip(" │") for line in usual if line.startswith("│ --")]
    assert sum(map(len, helps)) / len(helps) > 25  # columns of a word or two cannot be read


# Does Ctrl-C end a command quietly while it still imports what it needs?

HEAVY = {"typing", "typer", "numpy", "threading", "pathlib", "contextlib", "importlib"}

CHILDREN = """
import os, runpy, signal, sys

def child(start, moment):
    \"\"\"Exit code of a child that Ctrl-C reaches at this import, counted from that of Typer.\"\"\"
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    imports = []

    def interrupt(event, arguments):
        if event == "import" and (imports or arguments[0] == "typer"):
            imports.append(arguments[0])
            if len(imports) == moment:
                os.kill(os.getpid(), signal.SIGINT)

    sys.addaudithook(interrupt)
    sys.argv = ["mcage", "techniques"]
    sys.stdout = open(os.devnull, "w")
    start()

def as_script():
    from mcage.cli.main import main
    main()

def as_module():
    runpy.run_module("mcage", run_name="__main__")

print(*(child(as_script, moment) for moment in (1, 5, 25, 125, 300)), child(as_module, 50))
"""


def test_ctrl_c_while_commands_are_imported():
    line = [sys.executable, "-c", CHILDREN]
    ran = subprocess.run(line, capture_output=True, text=True, env=searched_here())
    assert ran.stdout.split() == ["130"] * 6, ran.stderr
    assert set(ran.stderr.splitlines()) <= {
        "interrupted: stopping (Ctrl-C once more stops at once)"
    }


def test_the_entry_point_imports_nothing_that_takes_time():
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import mcage.cli.main\n"
        "print(*{*sys.modules} - before)"
    )
    line = [sys.executable, "-S", "-c", program]
    ran = subprocess.run(line, capture_output=True, text=True, env=searched_here(), check=True)
    assert "mcage.cli.main" in ran.stdout.split()
    assert not HEAVY & set(ran.stdout.split())


def searched_here():
    """Environment of a process that finds modules where this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_the_list_of_commands_shows_the_beginning_of_each_help():
    """Which it takes from the sources."""
    singles = [command for _, command in all_commands() if not hasattr(command, "commands")]
    assert len(singles) == len(cli_app.COMMANDS)
    for command in singles:
        assert command.help.splitlines()[0] == command.short_help
