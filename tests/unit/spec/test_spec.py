"""The spec of a sweep: every field of it, from TOML, from the command line, and refused."""

import math
import tomllib
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import get_type_hints
from unittest import mock

import numpy as np
import pytest
from command_line import invoke
from key_values import OF_SWEEPS, nested
from tables import each

from mcage.errors import UserError
from mcage.spec import Point, SweepFields, SweepSpec
from mcage.spec.cost_constants import load_costs
from mcage.spec.presets import PRESET_KEYS
from mcage.spec.sections import PAPER_GUARDBAND, Faults, Life, Workload
from mcage.variation.scenarios import scenario

SHIPPED = files("mcage").joinpath("data", "costs.toml").read_text(encoding="utf-8")
NAN, INFINITE = math.nan, math.inf

PARTS = ("workload", "life", "aging", "faults", "registers", "costs")


def leaves(fields, prefix=""):
    for key, value in fields.items():
        if key in PARTS and not prefix:
            yield from leaves(value, f"{key}.")
        else:
            yield prefix + key, value


DEFAULTS = dict(leaves(SweepSpec().model_dump(mode="json")))
FIELDS = {
    key: next(value for value in reversed(OF_SWEEPS[key].taken) if value != default)
    for key, default in DEFAULTS.items()
    if key in OF_SWEEPS
} | {
    "workload.kernels": ["DCT", "a/file.h5"],
    "workload.periods": 2,
    "workload.mix": "dirichlet(0.5)",
    "life.temperature_kelvin": 300.0,
    "life.temperature_swing_kelvin": -2.5,
    "life.activity": 0.25,
    "aging.model": "finfet",
    "aging.vt0_volts": "normal(0.3, 0.01, 0.25, 0.35)",
    "aging.shift_factor": "discrete(0.9: 0.25, 1.1: 0.75)",
    "aging.constants": {"eta": 0.3, "amplitude": "calibrated"},
    "registers.geometry": {
        "preset": "nvidia",
        "entries": 256,
        "components": 32,
        "block_components": 8,
    },
    "costs.tables": tomllib.loads(SHIPPED.replace("295.86", "300.0")),
    "operating_points": {
        "phone": [
            {"vdd_volts": 0.9, "share": 0.25, "temperature_offset_kelvin": 12.5},
            {"vdd_volts": "scenario", "share": 0.75, "temperature_offset_kelvin": 0.0},
        ]
    },
    "draws": {"columns": {"aging.constants.alpha": [1.2, 1.3]}},
    "stopping": {"rel_ci": None, "margin": 0.01, "level": 0.99, "of": "spill_rate"},
    "programs": {"workload.kernels: k.h5": "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"},
}
"""Every field, with a value that is not its default: at a bound, where that is no other rule's."""

CONSTANTS = {
    "life.delay_guardband": 0.139,
    "life.temperature_kelvin": 353.15,
    "life.activity": 1.0,
    "aging.shift_factor": 1.0,
    "aging.vt0_volts": None,
}
"""What a spec without spread has."""

OTHER_DEFAULTS = {
    "aging.model": {"aging.vt0_volts": "normal(0.179, 0.00358, 0.16468, 0.19332)"},
    "life.idle": {"life.activity": 1.0},
    "faults.cell": {"aging.vmin_model": "margins"},
    "spread": CONSTANTS,
    "draws": CONSTANTS,
    "workload.schedule": {"workload.periods": 5, "workload.mix": "uniform", "life.epochs": 6},
}
"""Other values that a value brings along."""


def every_field_changed():
    fields = {}
    for key, value in FIELDS.items():
        part, _, name = key.rpartition(".")
        (fields.setdefault(part, {}) if part else fields)[name] = value
    return fields


def said(spec):
    """Every field that has a value."""
    fields = leaves(spec.model_dump(mode="json"))
    set_ = {key: value for key, value in fields if value is not None}
    if stopping := set_.get("stopping"):  # a table of its own
        set_["stopping"] = {key: of for key, of in stopping.items() if of is not None}
    return set_


def refusal(fields):
    with pytest.raises(UserError) as caught:
        SweepSpec.from_mapping(fields, "my.toml")
    message = str(caught.value)
    assert message.startswith("my.toml: ")
    assert "\n" not in message
    return message


# ---- fields ------------------------------------------------------------------------------------


def test_the_table_of_this_test_knows_every_field():
    assert DEFAULTS.keys() == FIELDS.keys()


def test_the_guardband_is_that_of_the_paper_where_slices_are_alike():
    assert SweepSpec().life.delay_guardband == 0.108
    assert SweepSpec(spread=False).life.delay_guardband == PAPER_GUARDBAND == 0.139


@each("key", FIELDS)
def test_a_good_value(key):
    value = FIELDS[key]
    changed = dict(leaves(SweepSpec.from_mapping(nested(key, value)).model_dump(mode="json")))
    assert changed[key] == value
    assert value != DEFAULTS[key]
    assert changed == DEFAULTS | OTHER_DEFAULTS.get(key, {}) | {key: value}


@each("part", ["", *PARTS])
@each("name", ["instance", "Seed", "", "kernel s", "int"])
def test_an_unknown_key_is_refused_at_every_level(part, name):
    key = f"{part}.{name}" if part else name
    assert refusal(nested(key, 1)).startswith(f"my.toml: unknown key {key!r}; there are ")


def test_fewer_epochs_than_periods():
    message = refusal({"workload": {"periods": 7}, "life": {"epochs": 6}})
    assert "life.epochs = 6" in message
    assert "workload.periods = 7" in message


def test_held_idle_time_is_the_same_for_all():
    life = {"idle": "held", "activity": "uniform(0.5, 1)"}
    message = refusal({"life": life})
    assert message.startswith("my.toml: life.activity = 'uniform(0.5, 1.0)' must be one number")
    assert (
        SweepSpec.from_mapping({"life": life | {"activity": "constant(0.5)"}}).life.activity == 0.5
    )


def test_contents_of_a_file_of_costs_count_and_not_its_name(tmp_path):
    """With one technology in it, none need be chosen; with two, the default must be there."""
    old, _, new = SHIPPED.partition("[28nm]")
    mine = {"costs": {"tables": str(tmp_path / "mine.toml")}}
    texts = {
        "mine.toml": old + new[new.index("[smoothing]") :],
        "same.toml": "# mine\n" + old + new[new.index("[smoothing]") :],
        "edited.toml": old.replace("295.86", "295.87") + new[new.index("[smoothing]") :],
        "two.toml": SHIPPED.replace("[28nm", "[14nm"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    spec = SweepSpec.from_mapping(mine)
    assert spec.costs.technology == "32nm"
    assert spec.costs.user_defined == (
        "user-defined constants of 32nm (34 printed, 2 reconstructed, 28 assumed)"
    )
    status = SHIPPED.replace("[28nm.low_vdd.common]", "[28nm.low_vdd.status]")
    named = SweepSpec(costs={"tables": tomllib.loads(status)}).costs
    assert (
        named.user_defined == SweepSpec(costs={"tables": tomllib.loads(SHIPPED)}).costs.user_defined
    )
    assert spec.costs.of_technology == load_costs().technology("32nm")
    digests = [
        SweepSpec(costs={"tables": tmp_path / name}).digest()
        for name in ("same.toml", "edited.toml")
    ]
    assert digests[0] == spec.digest() != digests[1]
    (tmp_path / "mine.toml").unlink()
    again = SweepSpec.from_mapping(tomllib.loads(spec.to_toml()))
    assert (again, again.digest()) == (spec, spec.digest())
    assert "mine.toml" not in spec.to_toml()
    assert refusal({"costs": {"tables": str(tmp_path / "two.toml")}}) == (
        "my.toml: costs.technology = '28nm': must be one of 32nm, 14nm"
    )


# ---- TOML --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, every_field_changed()])
def test_toml_there_and_back(fields, tmp_path):
    spec = SweepSpec.from_mapping(fields)
    path = tmp_path / "sweep.toml"
    path.write_text(spec.to_toml(), encoding="utf-8")
    again = SweepSpec.from_toml(path)
    assert again == spec
    assert again.digest() == spec.digest()
    assert dict(leaves(tomllib.loads(spec.to_toml()))) == said(spec)


def test_toml_as_editors_on_windows_save_it(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_bytes(b"\xef\xbb\xbfinstances = 7\r\n[life]\r\nepochs = 9\r\n")
    assert SweepSpec.from_toml(path) == SweepSpec(instances=7, life={"epochs": 9})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instances = ", "not TOML"),
        ("seed = " + "9" * 5000, "not TOML"),
        ("[life]\nhorizon_years = nan\n", "life.horizon_years = nan must be a finite number"),
        ("vdd_volts = [[nan]]\n", "vdd_volts.0.0 = nan must be a finite number"),
        ("vdd_volts = [0.4, 12:30:00]\n", "vdd_volts.1 = 12:30:00 must be no date or time"),
        ("engine = 2026-01-02T03:04:05Z\n", "engine = 2026-01-02 03:04:05+00:00 must be no date"),
    ],
)
def test_bad_toml(text, message, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        SweepSpec.from_toml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


# ---- digest ------------------------------------------------------------------------------------


def test_the_digest_changes_with_every_field_that_decides_what_an_instance_is():
    digests = {
        key: SweepSpec.from_mapping(nested(key, other)).digest() for key, other in FIELDS.items()
    }
    default = SweepSpec().digest()
    not_in_it = {key for key in FIELDS if digests[key] == default}
    assert not_in_it == {"instances", "stopping", "programs"}
    assert len(set(digests.values())) == len(FIELDS) - 2


def test_the_digest_does_not_depend_on_the_order_of_keys():
    fields = every_field_changed()
    backwards = {
        key: dict(reversed(value.items())) if isinstance(value, dict) else value
        for key, value in reversed(fields.items())
    }
    assert list(backwards) != list(fields)
    assert SweepSpec.from_mapping(backwards).digest() == SweepSpec.from_mapping(fields).digest()


# ---- grid and epochs ---------------------------------------------------------------------------


def test_the_grid_is_every_combination():
    spec = SweepSpec.from_mapping(
        {"techniques": ["wc", "rar"], "scenarios": ["common", "clustered"], "vdd_volts": [0.5, 0.6]}
    )
    known = {name: scenario(name) for name in ("common", "clustered")}
    volts = {name: each.vdd_volts for name, each in known.items()}
    cases = spec.cases(known)
    low = [case for case in cases if case.environment == "dvfs"]
    assert len(set(low)) == len(low) == 2 * 2 * 2
    fixed = [case for case in cases if case.environment == "turbo"]
    assert len(set(fixed)) == len(fixed) == 2 * 2, "no use for a low Vdd: each once"
    assert {(case.scenario, case.scenario_vdd_volts) for case in fixed} == set(volts.items())
    assert len(low) + len(fixed) == len(cases)
    printed = SweepSpec.from_mapping(
        {"scenarios": ["common", "clustered"], "techniques": ["wc"], "low_vdd": "printed"}
    )
    assert {(c.scenario, c.scenario_vdd_volts) for c in printed.cases(known)} == set(volts.items())


@each(
    ("fields", "words"),
    [
        ({"aging": {"constants": 3}}, "aging.constants = 3: must be a table of numbers by name"),
        ({"costs": {"tables": {"32nm": {}}}}, "costs.tables"),
        ({"draws": {"columns": {"aging.constants.alpha": []}}}, "draws.columns"),
    ],
)
def test_tables_that_say_nothing_are_refused(fields, words):
    with pytest.raises(UserError) as refused:
        SweepSpec.from_mapping(fields, "my.toml")
    assert str(refused.value).startswith(f"my.toml: {words}")


@each(
    "techniques, others, meant",
    [
        (["baseline", "rc+rar"], {}, {"baseline": [0.5], "rc+rar": [0.5]}),
        (["rrcd", "gr-guard"], {}, {"rrcd": [0.4], "gr-guard": [0.4]}),
        (["rrcd", "disable"], {}, {"rrcd": [0.5, 0.4], "disable": [0.5]}),
        (["rrcd", "disable"], {"vdd_volts": [0.3]}, {"rrcd": [0.3], "disable": [0.3]}),
        (["rrcd"], {"low_vdd": "printed"}, {"rrcd": [0.419]}),
        (["rrcd"], {"faults": {"mode": "table"}}, {"rrcd": [0.419]}),
    ],
)
def test_a_technique_has_the_low_vdd_at_which_it_works(techniques, others, meant):
    """Where some redirect and some do not, all are compared at that of the latter, too."""
    common = replace(scenario("common"), working_vdd_volts=(0.4, 0.5))
    spec = SweepSpec(techniques=techniques, environments=["dvfs"], **others)
    actual = {name: [] for name in techniques}
    for case in spec.cases({"common": common}):
        actual[case.technique].append(case.scenario_vdd_volts)
    assert actual == meant


@each(("periods", "epochs"), [(1, 1), (1, 9), (3, 3), (5, 6), (7, 40), (4, 1000)])
def test_every_epoch_lies_in_one_period(periods, epochs):
    spec = SweepSpec.from_mapping(
        {
            "workload": {"periods": periods},
            "life": {"epochs": epochs, "horizon_years": 7.3},
        }
    )
    edges, period = spec.epoch_edges_years, spec.period_of_epoch
    assert (edges[0], edges[-1], len(edges)) == (0, 7.3, epochs + 1)
    assert set(period) == set(range(periods))
    for (start, end), number in zip(pairwise(edges), period, strict=True):
        assert 7.3 * number / periods <= start < end <= 7.3 * (number + 1) / periods


def test_epochs_are_short_while_faults_grow_fast():
    """None of 64 epochs has much more than a 64th of the growth, the first one included."""
    edges = SweepSpec.from_mapping({"life": {"epochs": 64}}).epoch_edges_years
    growth = [end**0.25 - start**0.25 for start, end in pairwise(edges)]
    assert max(growth) < 2 / 64 * sum(growth)
    assert growth[0] == pytest.approx(max(growth), rel=0.6)


# ---- command line ------------------------------------------------------------------------------


UNSAID = {
    "workload.kernels": ["Reduction"],
    "aging.vt0_volts": 0.31,
    "aging.constants": {"xi1": 0.8},
    "registers.geometry": {"preset": "gcn"},
}
"""Values of keys whose default no option can give, and which have no two values at bounds."""

OPTIONS = {key.name: key for key in SweepSpec.options() if key.name in FIELDS}


def words_of(key, value):
    """Options of the command line that give a key its value."""
    option = OPTIONS[key]
    if isinstance(value, bool):
        on, _, off = option.flags.partition("/")
        return [on if value else off]
    if isinstance(value, dict):
        value = [value["preset"]] if "preset" in value else [f"{k}={v}" for k, v in value.items()]
    return [word for each in np.atleast_1d(value) for word in (option.flag, str(each))]


def test_every_field_has_a_flag():
    without = {"stopping", "operating_points", "programs"}  # the first has two, for its fields
    assert FIELDS.keys() - OPTIONS.keys() == without


def shown(*arguments):
    """The spec of a command line, whether or not a sweep could make sense of it as a whole."""
    command = ["sweep", *arguments, "--show-spec"]
    with mock.patch("mcage.cli.studies.study_of"):
        result = invoke(*command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return dict(leaves(tomllib.loads(result.stdout)))


@pytest.fixture(scope="module")
def changed_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("specs") / "sweep.toml"
    path.write_text(SweepSpec.from_mapping(every_field_changed()).to_toml())
    return str(path), shown(str(path))


@pytest.mark.parametrize("key", [key for key in OPTIONS if key not in ("costs.tables", "draws")])
def test_a_flag_overrides_the_file_and_nothing_else(key, changed_file):
    path, in_file = changed_file
    value = UNSAID.get(key, DEFAULTS[key])
    if value in (None, []) or key == "life.activity":  # one number, beside cells that are held
        value = next(value for value in OF_SWEEPS[key].taken if value != FIELDS[key])
    assert in_file[key] == FIELDS[key] != value
    assert shown(path, *words_of(key, value)) == in_file | {key: value}
    assert shown(*words_of(key, value), path) == in_file | {key: value}


# Specs as one types them in Python.


@each(
    "typed, plain",
    [
        ({"techniques": "rrcd"}, {"techniques": ["rrcd"]}),
        ({"techniques": ("rrcd", "baseline")}, {"techniques": ["rrcd", "baseline"]}),
        ({"vdd_volts": 0.42}, {"vdd_volts": [0.42]}),
        ({"vdd_volts": np.array([0.42, 0.45])}, {"vdd_volts": [0.42, 0.45]}),
        ({"instances": np.int64(30)}, {"instances": 30}),
        ({"life": Life(horizon_years=5.0)}, {"life": {"horizon_years": 5.0}}),
        ({"workload": Workload(kernels=("DCT",))}, {"workload": {"kernels": ["DCT"]}}),
        ({"workload": {"kernels": "DCT"}}, {"workload": {"kernels": ["DCT"]}}),
        ({"workload": {"kernels": Path("a.h5")}}, {"workload": {"kernels": ["a.h5"]}}),
        (
            {"environments": "boost", "operating_points": {"boost": [Point(vdd_volts=1.1)]}},
            {"environments": ["boost"], "operating_points": {"boost": [{"vdd_volts": 1.1}]}},
        ),
        (
            {"draws": {"columns": {"aging.shift_factor": np.array([0.9, 1.1])}}},
            {"draws": {"columns": {"aging.shift_factor": [0.9, 1.1]}}},
        ),
    ],
)
def test_what_is_typed_is_the_spec_of_the_plain_values(typed, plain):
    spec = SweepSpec(**typed)
    assert spec == SweepSpec.from_mapping(plain)
    assert spec.digest() == SweepSpec.from_mapping(plain).digest()


@each("preset", ["papers", "valero-2019", "toca-diaz"])
def test_a_preset_is_the_keys_that_it_sets(preset):
    fields = {"techniques": ["rrcd"], "aging": {"shift_factor": 0.9}}
    keys = PRESET_KEYS[preset]
    spec = SweepSpec(preset=preset, **fields)
    assert spec == SweepSpec.from_mapping(fields | keys)
    assert "preset" not in spec.to_toml()
    assert spec.workload.schedule == "sequential"
    assert spec.workload.periods == 5
    # The same value again is no contradiction.
    assert spec == SweepSpec(preset=preset, **fields, workload={"periods": 5})


def test_presets_of_papers_are_at_their_voltages_and_nodes():
    valero, toca_diaz = SweepSpec(preset="valero-2019"), SweepSpec(preset="toca-diaz")
    assert (valero.environments, valero.costs.technology) == (("turbo",), "32nm")
    assert (toca_diaz.environments, toca_diaz.costs.technology) == (("undervolted",), "28nm")
    for spec in (valero, toca_diaz, SweepSpec(preset="papers")):
        assert spec.costs.vdd_scaling == "rows"
    assert SweepSpec().costs.vdd_scaling == "curve"


@each(
    "fields, message",
    [
        (
            {"preset": "papers", "workload": {"periods": 20}},
            "preset = 'papers' sets workload.periods = 5, and the spec has 20: give one of them",
        ),
        (
            {"preset": "toca-diaz", "environments": ["dvfs"]},
            "preset = 'toca-diaz' sets environments = ['undervolted'], and the spec has ['dvfs']",
        ),
        ({"preset": "papers", "workload": 3}, "sets workload = "),
    ],
)
def test_a_preset_beside_other_values_of_its_keys_is_refused(fields, message):
    assert message in refusal(fields)


@each(
    "typed, message",
    [
        ({"techniques": {"rrcd"}}, "SweepSpec: techniques = "),
        ({"techniques": ["rrcd", "rrcd"]}, "techniques = ['rrcd', 'rrcd']: names 'rrcd' twice"),
        ({"technique": ["rrcd"]}, "is techniques meant?"),
        ({"geometry": "nvidia"}, "is registers.geometry meant?"),
        ({"temprature_kelvin": 353}, "is life.temperature_kelvin meant?"),
        ({"workload": {"kernles": "DCT"}}, "is workload.kernels meant?"),
        ({"life": {"horizon": 3}}, "unknown key 'life.horizon'; there are horizon_years"),
        ({"nothing_like_it": 3}, "operating_points, draws"),
    ],
)
def test_mistakes_are_named_by_key_and_value(typed, message):
    with pytest.raises(UserError) as refused:
        SweepSpec(**typed)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_type_checkers_know_each_key():
    assert list(get_type_hints(SweepFields)) == list(SweepSpec.model_fields)


def test_dies_differ_as_the_spec_says_or_any_scenario(monkeypatch):
    shipped = scenario("common")
    scenarios = {"alike": shipped, "different": replace(shipped, sigma_die_volts=0.01)}
    monkeypatch.setattr("mcage.spec.sections.scenario", scenarios.__getitem__)
    assert Faults().dies_differ(["alike", "different"])
    assert not Faults().dies_differ(["alike"])
    assert not Faults(sigma_die_volts=0.0).dies_differ(["different"])
    assert Faults(sigma_die_volts=0.01).dies_differ(["alike"])
