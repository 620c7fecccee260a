"""Names that others chose: no markup, no escape sequence and no formula of them takes effect."""

import dataclasses
import io
import re
from pathlib import Path

import fake_campaign
import numpy as np
import pytest
from grammars import ESCAPES, MARKUP
from rich.console import Console
from tables import each
from trace_strategies import alloc, release, trace_of, write

import mcage
from mcage.campaign.progress import Lines, ProgressBar
from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.plain_text import one_line, shortened, visible, visible_lines
from mcage.report.tables import PlainConsole
from mcage.traces import save_trace

NAMES = (MARKUP, ESCAPES, "\x9b31m\u202e", "a\rb\bc", "$\\no_formula$", ":bomb:")
"""What a terminal, rich or matplotlib would act upon."""


@pytest.fixture
def command(command):
    """`mcage` in an empty folder: text on stdout and stderr of a command that ends as expected."""

    def run(*arguments, expected=0):
        code, out, said = command(*arguments)
        assert code == expected, said
        return out + said

    return run


def assert_harmless(text, name):
    """Nothing but printable characters, and the name as it is or as it is made visible."""
    assert all(line.isprintable() for line in text.split("\n"))
    assert visible(name) in text.replace("\n", "")


def trace_file(name):
    events = [alloc(0, 0, 4), write(1, 0, 0, 7), write(2, 0, 1, np.arange(64)), release(9, 0)]
    trace = trace_of(events, cycles=10, name=name)
    save_trace(dataclasses.replace(trace, source={name: name}), "named.h5")
    return "named.h5"


@pytest.mark.parametrize("name", NAMES)
def test_names_in_traces(name, command):
    file = trace_file(name)
    assert_harmless(command("trace", "show", file), name)
    assert_harmless(command("replay", file, "--technique", "rrcd", "--engine", "numpy"), name)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_files(name, command):
    Path(trace_file("plain")).rename(f"{name}.h5".replace("/", "|"))
    name = name.replace("/", "|")
    assert_harmless(command("trace", "validate", f"{name}.h5"), f"{name}.h5: ok")
    for arguments in (("show", f"{name}.h5"), ("trace", "show", f"{name}.no")):
        assert command(*arguments, expected=2).strip().isprintable()


@pytest.mark.filterwarnings("error")
def test_names_in_results(command):
    name = MARKUP + ESCAPES + "$\\no_formula$"
    cases = tuple(
        case | {"case": f"{number} {name}", "technique": f"{name}{number}"}
        for number, case in enumerate(fake_campaign.CAMPAIGN.cases)
    )
    named = fake_campaign.campaign(cases=cases, instances=50)
    run_campaign(Study(named, fake_campaign.compute), Path("results.h5"), 50)
    assert_harmless(command("show", "results.h5"), f"{name}0")
    compared = ["--compare", *(f"{number} {name}" for number in (0, 1))]
    for option in (["--causes"], ["--fit"], ["--slices-per-chip", "2"], compared):
        assert_harmless(command("show", "results.h5", *option), name)
    command("show", "results.h5", "--figure", "lives.svg")
    assert Path("lives.svg").exists()


def test_a_name_of_no_option(command):
    said = command("sweep", f"--{''.join(NAMES)}", expected=2)
    assert all(line.isprintable() for line in said.split("\n"))


def test_a_spec_that_is_shown_has_no_control_characters(command, tmp_path):
    file = trace_file("plain")
    strange = Path(f"{NAMES[2]}.h5")
    Path(file).rename(strange)
    shown = command("sweep", "--kernel", strange, "--show-spec")
    assert all(line.isprintable() for line in shown.split("\n"))
    (tmp_path / "shown.toml").write_text(shown)
    assert command("sweep", "shown.toml", "--show-spec") == shown


@each("name", NAMES)
def test_notes_of_a_sweep(name):
    lines, terminal = io.StringIO(), io.StringIO()
    Lines(lines).say(name)
    ProgressBar(Console(file=terminal, force_terminal=True, color_system=None, width=80)).say(name)
    for text in (lines.getvalue(), terminal.getvalue()):
        assert text == f"{visible(name)}\n"


def test_every_table_is_printed_on_a_plain_console():
    """Who makes a console of rich's, or escapes markup that is none, does not know this rule."""
    # The last one draws bars, and asks a console whether it is in a notebook.
    allowed = {"report/console.py", "campaign/progress.py"}
    folder = Path(mcage.__file__).parent
    for path in folder.rglob("*.py"):
        if str(path.relative_to(folder)) not in allowed:
            assert not re.search(r"\bConsole\(|rich\.markup", path.read_text("utf-8")), path


def test_a_plain_console_keeps_line_breaks_and_numbers():
    out = io.StringIO()
    PlainConsole(file=out, width=80).print("B10 life\n[years] 3.5 :bomb:")
    assert out.getvalue() == "B10 life\n[years] 3.5 :bomb:\n"


@each(
    ("given", "expected"),
    [
        ("naïve µ", "naïve µ"),
        ("\x1b[31m", "\\u001b[31m"),
        ("\udcff", "\\udcff"),
        ("a\nb", "a\\u000ab"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_visible(given, expected):
    assert visible(given) == expected


def test_visible_lines():
    assert visible_lines("a\n\tb\n") == "a\n\\u0009b\n"


def test_shortened():
    assert shortened("short") == "'short'"
    assert shortened(0.1) == "0.1"
    assert shortened(10**400) == "an integer of about 401 digits"
    assert len(shortened("x" * 10**6)) < 70
    assert len(shortened([["x" * 1000] * 1000] * 1000)) < 3000
    assert len(shortened({"x" * 1000: 3})) < 80


def test_one_line():
    assert one_line("two\n  lines") == "two lines"
    assert len(one_line("x" * 10**6)) < 700
    assert one_line("begin" + "x" * 10**6 + "end").startswith("begin")
    assert one_line("begin" + "x" * 10**6 + "end").endswith("end")
