"""The table of options: one row sets one key, with the default that the spec has."""

import inspect

import pytest
import typer.main
from tables import each
from typer.testing import CliRunner

from mcage.cli import rare, sensitivity
from mcage.cli.app import app
from mcage.cli.spec_arguments import SpecOptions
from mcage.cli.spec_options import COMPARED, RUN, SPEC_OPTIONS
from mcage.spec import SweepSpec
from mcage.spec.sections import Stopping

PANELS = ("What to compare", "Workload", "Life", "Aging", "Faults", "Registers", "Run")
OF_NONE = {
    "registers.geometry": None,
    "registers.lds_rows": None,
    "vdd_volts": [],
    "workload.kernels": [],
    "workload.period_years": None,
    "life.spill_limit": None,
    "aging.vt0_volts": None,
    "aging.constants": None,
    "draws": None,
    "costs.tables": None,
    "faults.arrays": None,
    "faults.mu_volts": None,
    "faults.sigma_die_volts": None,
    "faults.sigma_systematic_volts": None,
    "faults.sigma_random_volts": None,
    "faults.phi": None,
    "faults.tolerance": None,
    "stopping.rel_ci": None,
}
"""Keys whose default the table tells in words."""


def default_of(key):
    section, dot, name = key.rpartition(".")
    fields = SweepSpec().model_dump(mode="json") | {"stopping": {"of": Stopping(rel_ci=0.1).of}}
    return (fields[section] if dot else fields).get(name)


def in_words(value):
    if isinstance(value, bool):
        return "--spread-blocks" if value else "--keep-blocks"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:.10g}" if isinstance(value, float) else str(value)


@each("row", SPEC_OPTIONS)
def test_the_default_of_a_row_is_that_of_the_spec(row):
    if row.key in OF_NONE:
        assert default_of(row.key) == OF_NONE[row.key]
    else:
        assert row.default == in_words(default_of(row.key))


def test_each_row_sets_a_key_of_its_own():
    for part in ("flag", "key", "name"):
        assert len({getattr(row, part) for row in SPEC_OPTIONS}) == len(SPEC_OPTIONS)


@each("row", SPEC_OPTIONS)
def test_a_help_text_is_a_sentence_or_a_noun_phrase(row):
    assert row.help[0].isupper()
    assert row.help.endswith(".")


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
        *("--technique", "--environment", "--scenario", "--vdd", "--kernel"),
        *("--nbti", "--horizon", "--instances", "--seed", "--set"),
    ]
    assert {"--out", "--engine", "--devices"} < set(panels[RUN])


@pytest.mark.parametrize("command", ["sweep", "rare", "sensitivity"])
def test_every_command_draws_every_row(command):
    given = {flag for flags in options_of(command).values() for flag in flags}
    for row in SPEC_OPTIONS:
        if command == "sweep" or not row.only_sweeps:
            assert row.flag in given


@pytest.mark.parametrize("command", ["sweep", "rare", "sensitivity"])
def test_help_at_eighty_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    lines = CliRunner().invoke(app, [command, "--help"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]
    helps = [line[35:].strip(" │") for line in lines if line.startswith("│ --")]
    assert sum(map(len, helps)) / len(helps) > 25  # columns of a word or two cannot be read
    assert sum(line.startswith("╭─ Options") for line in lines) == 0, "--help stands with the run"


def test_commands_of_one_case_are_of_the_same_case():
    for key in ("environments", "scenarios"):
        assert rare.DEFAULTS[key] == sensitivity.DEFAULTS[key]
    assert rare.DEFAULTS["environments"] == ["dvfs"]


@pytest.mark.parametrize("module", [rare, sensitivity])
def test_a_command_of_one_case_takes_each_axis_once_and_names_its_defaults(module):
    options = SpecOptions("any", module.DEFAULTS, single_case=True)
    parameters = {parameter.name: parameter for parameter in options.parameters()}
    assert all(parameter.default is None for parameter in parameters.values())
    assert all(
        parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values()
    )
    values = dict.fromkeys(parameters) | {"technique": "wc", "vdd": 0.5, "kernel": ["DCT"]}
    spec = options.gathered(values).spec()
    assert (spec.techniques, spec.vdd_volts, spec.workload.kernels) == (("wc",), (0.5,), ("DCT",))
    assert spec.environments == tuple(module.DEFAULTS["environments"])
    assert spec.instances == module.DEFAULTS["instances"]
