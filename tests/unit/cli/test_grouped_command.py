"""What all commands have in common: options that are taken once, and the two lengths of help."""

import pytest
import typer.main
from tables import each
from typer.testing import CliRunner

from mcage.cli.app import app
from mcage.cli.commands import GroupedCommand


def commands_of(command):
    """All commands below one."""
    for child in getattr(command, "commands", {}).values():
        yield from commands_of(child)
    if not hasattr(command, "commands"):
        yield command


COMMANDS = list(commands_of(typer.main.get_command(app)))


@each("made", COMMANDS)
def test_every_command_refuses_what_is_given_twice(made):
    assert isinstance(made, GroupedCommand)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rare --age 1 --technique rrcd --age 3", "--age takes one value, but 1 and 3 are given"),
        ("rare --age=1 --json --age=1", "--age takes one value, but 1 and 1 are given"),
        ("sweep --seed 1 --seed 2 --seed 3", "--seed takes one value, but 1 and 2 and 3 are given"),
        ("sweep --out a.h5 --out b.h5", "--out takes one value, but a.h5 and b.h5 are given"),
        ("trace import log --out a -o b", "--out takes one value, but a and b are given"),
        ("gpu gating --spare-sms 1 --spare-sms 2", "--spare-sms takes one value, but 1 and 2 are"),
        (
            "sweep --spread-blocks --show-spec --keep-blocks",
            "--spread-blocks and --keep-blocks contradict each other: give one of them",
        ),
    ],
)
def test_an_option_with_one_value_is_not_given_twice(command, line, words):
    code, out, error = command(*line.split())
    assert code == 2
    assert not out
    assert words in error


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


def test_what_is_not_understood_names_the_help_of_its_command(command):
    for line in ("rare --vdd", "gpu gating --seed", "rare --vdd-volts 0.5", "sweep --seed x"):
        code, out, error = command(*line.split())
        assert (code, out) == (2, "")
        words = line.split(" --")[0]
        assert error.endswith(f"The options are listed by: mcage {words} --help\n")
    assert "--vdd)" in command("rare", "--vdd-volts", "0.5")[2], "a near name is proposed"


def shown(*line):
    return CliRunner().invoke(app, [*line]).output.splitlines()


@pytest.mark.parametrize("command", ["sweep", "rare", "sensitivity"])
def test_the_help_shows_what_matters_and_help_all_the_rest(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    usual, all_ = shown(command, "--help"), shown(command, "--help-all")
    assert len(usual) <= 120 < len(all_)
    (made,) = (each for each in COMMANDS if each.name == command)
    flags = {made_of.opts[0] for made_of in made.params if made_of.opts[0].startswith("--")}
    listed = {line.split()[1] for line in all_ if line.startswith("│ --")}
    assert {flag[:30] for flag in flags} <= {flag.partition("/")[0] for flag in listed}
    assert shown(command, "--help") == usual, "what is hidden is hidden again"


def test_the_options_of_a_sweep_that_the_help_shows():
    (sweep,) = (each for each in COMMANDS if each.name == "sweep")
    flags = [p for p in sweep.params if p.param_type_name == "option" and not p.hidden]
    assert 30 <= len(flags) <= 36
