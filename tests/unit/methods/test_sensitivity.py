"""What a study varies: the shipped ranges, a user's own, and what is refused."""

import math
import re

import numpy as np
import pytest
from places import ROOT
from tables import each

from mcage.aging.nbti import constants
from mcage.errors import UserError
from mcage.methods.sensitivity import (
    Entry,
    Parameter,
    changed,
    check_samples,
    chosen,
    evaluated,
    indices,
    shipped,
    user_range,
    value_of,
)
from mcage.spec import SweepSpec
from mcage.variation.scenarios import on_cell, scenario


def spec(environment="dvfs", **fields):
    return SweepSpec.from_mapping({"environments": [environment], "spread": False} | fields)


@pytest.mark.parametrize("scenario", ["common", "clustered", "dispersed"])
def test_the_shipped_ranges_hold_what_a_sweep_has(scenario):
    given = spec(scenarios=[scenario])
    entries = shipped()
    if scenario == "dispersed":  # without a systematic part, half of it is no range
        del entries["sigma_systematic"]
    for parameter in chosen(given, entries):
        assert parameter.status in {"printed", "reconstructed", "assumed", "numerical"}
        assert parameter.source
        assert parameter.nominal == value_of(given, parameter.key)
        if parameter.is_range:
            low, high = parameter.ends
            assert low <= parameter.nominal <= high
            assert parameter.unit
        else:
            assert parameter.nominal not in parameter.settings
            assert parameter.settings


def test_constants_have_the_status_that_their_model_states():
    for entry in shipped().values():
        if entry.model:
            described = constants(entry.model)[entry.key.rpartition(".")[2]]
            assert (entry.status, entry.unit) == (described.status, described.unit)


def test_the_page_lists_what_ships():
    page = (ROOT / "docs" / "sensitivity.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| (.*?) \| (\w+) \|$", page, re.M)
    entries = shipped()
    assert [(name, key, status) for name, key, _, status in rows] == [
        (entry.name, entry.key, entry.status) for entry in entries.values()
    ]
    for name, _, shown, _ in rows:
        if ends := entries[name].range or entries[name].factors:
            scale = 1000 if "mV" in shown else 1
            assert [float(x) for x in re.findall(r"[\d.]+", shown)] == pytest.approx(
                [scale * end for end in ends]
            )
        else:
            assert shown.lower() == ", ".join(map(str, entries[name].alternatives)).lower()


def names(given):
    return {parameter.name for parameter in chosen(given, shipped())}


def test_what_cannot_matter_is_left_out():
    everything = names(spec())
    # Slices that are never idle, that are alike.
    assert everything == set(shipped()) - {"idle", "vt0_of_slices"}
    faults = {"mu", "sigma_die", "sigma_systematic", "sigma_random", "phi", "arrays"}
    without_faults = faults | {"vmin_coefficient", "lds_rows", "overflow", "pbti", "vmin_model"}
    assert names(spec("turbo")) == everything - without_faults
    assert names(spec(faults={"mode": "table"})) >= everything - without_faults - {"model"}
    assert not names(spec(faults={"mode": "table"})) & faults
    of_facelift = {"vt0", "eta", "e0", "ea"}
    assert names(spec(aging={"model": "finfet"})) == everything - of_facelift


def test_what_8t_cells_vary():
    """Their tables of margins, and the law of Vmin that the bench has moved."""
    given = spec(faults={"cell": "8t"})
    assert names(given) == names(spec())
    by_name = {parameter.name: parameter for parameter in chosen(given, shipped())}
    assert by_name["vmin_model"].settings == ("margins-low", "margins-high")
    moved = on_cell(scenario("common"), "8t")
    assert by_name["mu"].nominal == moved.mu_volts
    assert by_name["sigma_random"].nominal == moved.sigma_random_volts
    both = Entry("cell", "faults.cell", alternatives=("6t", "8t"))
    (cell,) = chosen(spec(aging={"vmin_model": "margins"}), {"cell": both}, ["cell"])
    assert (cell.nominal, cell.settings) == ("6t", ("8t",))


def test_distributions_take_the_place_of_ranges_where_slices_differ():
    given = spec(spread=True)
    assert names(given) == names(spec()) - {"vt0"} | {"vt0_of_slices"}
    (activity,) = chosen(given, shipped(), ["activity"])
    assert activity.settings == ("uniform(0.4, 0.6)", 1.0)
    for value in activity.settings:
        assert changed(given, {activity.key: value}).life.activity == value


def test_what_follows_from_a_changed_key():
    """Defaults are those of a spec with that key; what the spec gives stays."""
    given = spec(spread=True)
    assert changed(given, {"spread": False}) == spec(spread=False)
    assert changed(spec(), {"spread": True}) == given
    finfet = changed(given, {"aging.model": "finfet"})
    assert finfet == spec(spread=True, aging={"model": "finfet"})
    in_turn = changed(given, {"workload.schedule": "sequential"})
    assert (in_turn.workload.periods, in_turn.life.epochs) == (5, 6)
    hot = spec(spread=True, life={"temperature_kelvin": 370.0, "epochs": 8})
    alike = changed(hot, {"spread": False})
    assert (alike.life.temperature_kelvin, alike.life.activity) == (370, 1)
    assert changed(hot, {"workload.schedule": "sequential"}).life.epochs == 8


# Which keys of a sweep a study must know: those of which the table says that they are a choice.

NOT_VARIED = {
    "faults.cell": "margins and the law of Vmin come with it; two sweeps compare both cells",
}
"""Assumed or numerical keys that no study varies, and why."""


def test_every_assumed_key_is_varied_or_has_a_reason():
    page = (ROOT / "docs" / "keys.md").read_text()
    table = re.findall(r"^\| `([\w.]+)` \|[^|]*\| ?([\w ]*?) ?\| ", page, re.M)
    assert len(table) > 40
    chosen_freely = {key for key, status in table if status in {"assumed", "numerical"}}
    varied = {entry.key for entry in shipped().values()}
    assert not chosen_freely - varied - set(NOT_VARIED)
    assert set(NOT_VARIED) <= chosen_freely
    assert not varied & set(NOT_VARIED)


MIX = {"kernels": ["DCT", "Reduction"], "mix": {"DCT": 1.0, "Reduction": 2.0}}


@each(
    ("fields", "left_out", "added"),
    [
        ({"scenarios": ["measured"]}, {"phi"}, set()),  # there are arrays
        ({"scenarios": ["measured"], "faults": {"arrays": "none"}}, set(), set()),
        ({"life": {"activity": 0.9}}, set(), {"idle"}),
        ({"life": {"temperature_kelvin": "normal(353, 5)"}}, {"temperature"}, set()),
        ({"workload": MIX}, {"mix", "mix_size"}, set()),
        ({"draws": {"columns": {"aging.constants.eta": [0.3, 0.4]}}}, {"eta"}, set()),
        # The model's constant is the same thing under another key; a spec has one of both.
        ({"aging": {"vt0_volts": 0.31}}, {"vt0"}, {"vt0_of_slices"}),
    ],
)
def test_what_a_spec_decides_is_left_out(fields, left_out, added):
    assert names(spec(**fields)) == names(spec()) - left_out | added


@each(
    ("name", "message", "fields"),
    [
        (
            "temperature",
            r"temperature: .* = 'normal\(353",
            {"temperature_kelvin": "normal(353, 5)"},
        ),
        ("vmin_coefficient", "is drawn from a table", {}),
        ("vt0", r"the spec gives aging\.vt0_volts in its place", {}),
    ],
)
def test_what_a_spec_decides_is_refused(name, message, fields):
    drawn = {"columns": {"life.vmin_coefficient": [0.5, 1.0]}}
    given = spec(life=fields, draws=drawn, aging={"vt0_volts": 0.31})
    with pytest.raises(UserError, match=message):
        chosen(given, shipped(), [name])


@each(
    ("text", "expected"),
    [
        ("temperature=340..360", ("life.temperature_kelvin", 340.0, 360.0)),
        ("e0 = 0.15 .. 0.3", ("aging.constants.field_volts_per_nm", 0.15, 0.3)),
        ("sigma_random=0.07..0.09", ("faults.sigma_random_volts", 0.07, 0.09)),
        ("aging.constants.alpha=1.2..1.6", ("aging.constants.alpha", 1.2, 1.6)),
    ],
)
def test_own_ranges(text, expected):
    parameter = user_range(text, shipped()).of(spec())
    assert parameter.is_range
    assert (parameter.key, *parameter.ends) == expected


def test_own_choices():
    parameter = user_range("aging.model=facelift,finfet,planar", shipped()).of(spec())
    assert parameter == Parameter(
        "aging.model", "aging.model", "facelift", ("finfet", "planar"), False, status="user-defined"
    )
    assert user_range("spread=true,false", shipped()).of(spec()).settings == (True,)
    assert user_range("lds_rows=0,16", shipped()).of(spec()).settings == (0, 16)
    assert user_range("temperature=340,353.15", shipped()).of(spec()).settings == (340,)


@each(
    ("text", "message"),
    [
        ("temperature", "--range temperature: NAME=LOW..HIGH is needed"),
        ("temperature=360..340", "must be two numbers, the lower one first"),
        ("temperature=340..nan", "must be two numbers"),
        ("lds_rows=1,1", "must be different numbers or texts"),
        # What no spec allows.
        ("life.spill_limit=0.5..1", "'life.spill_limit' is no key of a sweep that holds"),
        ("temperature=360..370", "temperature: life.temperature_kelvin = 353.15 lies outside"),
        ("warmth=1..2", "'warmth' is no key of a sweep"),
        ("faults.spread_blocks=0..1", "holds a number or a word"),
        ("aging.constants.xi1=0..1", "NBTI model 'facelift' has no such constant; it has amplit"),
        ("aging.model=1..2", "aging.model = 'facelift' is no number, and has no range"),
    ],
)
def test_own_ranges_that_are_refused(text, message):
    with pytest.raises(UserError) as caught:
        user_range(text, shipped()).of(spec())
    assert message in str(caught.value)


def test_names():
    assert [parameter.name for parameter in chosen(spec(), shipped(), ["eta", "e0"])] == [
        "eta",
        "e0",
    ]
    with pytest.raises(UserError, match="parameter 'eto' is unknown; choose from spread, temp"):
        chosen(spec(), shipped(), ["eto"])
    with pytest.raises(UserError, match="one is named twice"):
        chosen(spec(), shipped(), ["eta", "eta"])


# Sobol' indices of functions whose indices are known, through the code that studies use.


def ranges(count, low=-math.pi, high=math.pi):
    return [Parameter(f"x{i}", f"x{i}", low, (high,), True) for i in range(count)]


def indices_of(function, count, samples, seed=1, **bounds):
    return indices(samples, evaluated(function, ranges(count, **bounds), samples, seed), seed)


def values(estimates):
    return [estimate.value for estimate in estimates]


def ishigami(x):
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def test_indices_of_ishigami():
    """Closed form: Ishigami and Homma (1990). The third matters only together with the first."""
    variance = 49 / 8 + 0.1 * math.pi**4 / 5 + 0.01 * math.pi**8 / 18 + 1 / 2
    alone = [(1 + 0.1 * math.pi**4 / 5) ** 2 / 2 / variance, 49 / 8 / variance, 0.0]
    together = 0.01 * math.pi**8 * (1 / 18 - 1 / 50) / variance
    first, total = indices_of(ishigami, 3, 4096)
    assert values(first) == pytest.approx(alone, abs=0.02)
    assert values(total) == pytest.approx([alone[0] + together, alone[1], together], abs=0.02)


def test_estimators_are_those_of_scipy():
    from scipy.stats import sobol_indices

    values_of = np.random.default_rng(5).normal(3.0, 1.0, 5 * 64)
    of_a, of_b, *of_mixed = values_of.reshape(-1, 64)
    theirs = sobol_indices(
        func={"f_A": of_a[None], "f_B": of_b[None], "f_AB": np.array(of_mixed)[:, None]}, n=64
    )
    first, total = indices(64, values_of, 1)
    assert values(first) == pytest.approx(np.ravel(theirs.first_order), rel=1e-12)
    assert values(total) == pytest.approx(np.ravel(theirs.total_order), rel=1e-12)


def test_the_design_stays_in_its_ranges_and_mixes_columns():
    seen = []

    def keep(points):
        seen.append(points)
        return points[:, 0]

    ranges = [Parameter("a", "a", 3.0, (2.0, 4.0), True), Parameter("b", "b", 0.0, (-1.0,), True)]
    evaluated(keep, ranges, 8, 3)
    (points,) = seen
    a, b, first, second = points.reshape(4, 8, 2)
    assert (points >= [2, -1]).all()
    assert (points <= [4, 0]).all()
    assert np.array_equal(first, np.stack([b[:, 0], a[:, 1]], axis=1))
    assert np.array_equal(second, np.stack([a[:, 0], b[:, 1]], axis=1))
    assert len(np.unique(points[:16], axis=0)) == 16


def test_the_seed_decides():
    once, again, other = (indices_of(ishigami, 3, 64, seed) for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_what_does_not_vary_has_no_indices():
    with pytest.raises(UserError, match="the quantity is 4 whatever the parameters"):
        indices_of(lambda x: np.full(len(x), 4.0), 2, 8)


@each("samples", [0, 1, 3, 100, -2, 2**17])
def test_samples_must_be_a_power_of_two(samples):
    with pytest.raises(UserError, match=f"samples = {samples}: a power of two is needed"):
        check_samples(samples)
