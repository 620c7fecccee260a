"""Constants of the NBTI models: stated, documented, and used."""

import dataclasses
import math
import re

import numpy as np
import pytest
from command_line import invoke
from nbti_cases import MODELS, constant_environment
from places import ROOT
from sweep_cases import small_sweep
from tables import each

from mcage.aging.environment import delay_increase
from mcage.aging.nbti import MODEL_NAMES, SECONDS_PER_YEAR, constants, facelift, nbti_model
from mcage.aging.nbti.model import RANGES
from mcage.aging.nbti.models import bhardwaj, finfet, planar
from mcage.errors import UserError

DOCUMENT = "".join((ROOT / folder / "aging.md").read_text() for folder in ("docs", "results"))


@each("name", MODEL_NAMES)
def test_every_constant_states_where_it_comes_from(name):
    """And lies within the range of what a spec may set."""
    model = MODELS[name]
    fields = dataclasses.fields(model)
    required = {field.name for field in fields if field.default is dataclasses.MISSING}
    assert required <= set(constants(name))
    assert {field.name for field in fields} <= set(RANGES)
    for constant, described in constants(name).items():
        assert getattr(model, constant) == described.value
        assert described.unit
        assert described.status in {"printed", "public", "reconstructed", "assumed"}, constant
        assert described.source, constant
        lowest, highest = RANGES[constant]
        assert lowest <= described.value <= highest, constant


@each(
    ("variant", "model", "change"),
    [
        ("bhardwaj-unscaled", bhardwaj, {"scale": 1.0}),
        ("finfet-thermal", finfet, {"effective_activation_energy_ev": 0.972}),
        ("planar-common", planar, {"amplitude": 8.34046e-5}),
        *((of.__name__, of, {}) for of in (facelift, bhardwaj, finfet, planar)),
    ],
)
def test_a_variant_is_like_its_model_but_for_what_it_states(variant, model, change):
    assert MODELS[variant] == dataclasses.replace(model(), **change)


def documented():
    """Value and status of the constants in the tables of the page, by model and name."""
    rows = [[cell.strip() for cell in line.split("|")] for line in DOCUMENT.splitlines()]
    return {
        (model.strip("` "), row[2].strip("`")): (row[4], row[5])
        for row in rows
        if len(row) == 7 and row[2].startswith("`")
        for model in row[1].split(",")
    }


def test_the_documentation_states_the_constants_that_are_used():
    used = {
        (name, constant): described
        for name in MODEL_NAMES
        for constant, described in constants(name).items()
        if constants(name.partition("-")[0]).get(constant) != described or "-" not in name
    }
    stated = documented()
    assert used.keys() == stated.keys()
    for which, described in used.items():
        value, status = stated[which]
        assert float(value.split()[0]) == described.value, which
        assert status == described.status, which


def test_the_documentation_compares_the_models():
    """The table of shifts after three years."""

    def row(name):
        model = MODELS[name]

        def shift(duty=1.0, vdd=1.0, kelvin=353.15):
            years = 3 * SECONDS_PER_YEAR
            return float(model.dvth_at(constant_environment(vdd, kelvin), duty, years))

        full = shift()
        duties = " / ".join(f"{100 * shift(duty) / full:.1f}" for duty in (0.99, 0.9, 0.5, 0.1))
        volts = " / ".join(f"{100 * shift(vdd=vdd) / full:.2g}" for vdd in (0.8, 0.419))
        heat = [shift(kelvin=373.15) / full, shift(0.5, kelvin=373.15) / shift(0.5)]
        return (
            f"| `{name}` | {1e3 * full:.4g} | {duties} | {volts} | {heat[0]:.3f} / {heat[1]:.3f} |"
        )

    for name in MODEL_NAMES:
        assert (row(name) in DOCUMENT.splitlines()) == (name != "bhardwaj-unscaled"), row(name)


# --- the constants meet what they were made for ---


def test_the_period_of_bhardwaj_matters():
    models = [dataclasses.replace(bhardwaj(), period_seconds=it) for it in (0.001, 0.01, 0.1)]
    given = constant_environment(1.0), 0.5, 3 * SECONDS_PER_YEAR
    shifts = [1e3 * model.dvth_at(*given) for model in models]
    assert shifts == pytest.approx([13.0, 18.9, 26.8], abs=0.05)


def test_unscaled_constants_are_too_large_for_lifetimes():
    model, surroundings = MODELS["bhardwaj-unscaled"], constant_environment(1.0)
    assert 1e3 * model.largest_dvth(surroundings, 3 * SECONDS_PER_YEAR) == pytest.approx(
        252, abs=0.5
    )
    rates = model.rates(surroundings)
    assert math.sqrt(rates.stress) == pytest.approx(1.64362e-6, rel=1e-5)
    assert rates.diffusion == pytest.approx(10.1682, rel=1e-5)


# Constants in place of a model's own: taken, refused, and with the amplitude fitted again.


@each("name", MODEL_NAMES)
def test_each_constant_is_set_by_its_name_and_alone(name):
    for constant in constants(name).keys() - {"time_exponent"}:  # of which there is only one
        changed = {constant: 1.01 * constants(name)[constant].value}
        assert nbti_model(name, changed) == dataclasses.replace(MODELS[name], **changed)


UNSTRESSED = {"vt0_volts": 1.0, "amplitude": "calibrated"}
STRONG = {"field_volts_per_nm": 0.05, "oxide_thickness_nm": 0.1}


@each(
    ("name", "given", "message"),
    [
        ("facelift", {"xi1": 0.9}, "aging.constants.xi1: NBTI model 'facelift' has no such"),
        ("finfet", {"eta": 0.3}, "'finfet' has no such constant; it has amplitude, oxide_thick"),
        ("facelift", {"eta": 1.2}, "aging.constants.eta = 1.2: must be 0 ... 1"),
        ("facelift", {"eta": math.nan}, "aging.constants.eta = nan"),
        ("facelift", {"amplitude": "fitted"}, "aging.constants.amplitude = 'fitted': must be"),
        ("bhardwaj", {"amplitude": "calibrated"}, "'bhardwaj' is fitted by its scale"),
        ("bhardwaj", {"time_exponent": 0.25}, "time_exponent = 0.25, where 1/6 is needed"),
        ("facelift", UNSTRESSED, "with vt0_volts = 1 nothing is stressed at the 1 V of the calib"),
        ("facelift", STRONG, "together they shift transistors by more than can be computed at 2 V"),
        ("my:MODEL", {"eta": 0.3}, "aging.constants.eta: NBTI model 'my:MODEL' is user-defined"),
        ("bhardwai", {"xi1": 0.9}, "NBTI model 'bhardwai' is unknown; choose from facelift"),
    ],
)
def test_refused(name, given, message):
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        nbti_model(name, given)
    assert "\n" not in str(caught.value)


def delay_after(model, duty, years, vdd):
    shift = model.dvth_at(constant_environment(vdd), duty, years * SECONDS_PER_YEAR)
    return float(delay_increase(shift, vdd, model.vt0_volts, model.alpha))


@each(
    ("given", "same_elsewhere"),
    [
        ({}, True),
        ({"activation_energy_ev": 0.08}, True),
        ({"field_volts_per_nm": 0.4}, False),
        ({"vt0_volts": 0.4}, False),
        ({"alpha": 1.6, "oxide_thickness_nm": 0.8}, False),
    ],
)
def test_a_calibrated_amplitude_leaves_the_published_delay_as_it_is(given, same_elsewhere):
    """Valero's 13.9 % in three years at 1.0 V, and elsewhere something else."""
    calibrated = nbti_model("facelift", given | {"amplitude": "calibrated"})
    assert delay_after(calibrated, 1.0, 3, 1.0) == pytest.approx(0.139, rel=1e-6)
    at_low_vdd = pytest.approx(delay_after(facelift(), 1.0, 3, 0.8))
    assert (delay_after(calibrated, 1.0, 3, 0.8) == at_low_vdd) == same_elsewhere


@each("name", ["finfet", "planar", "finfet-common", "finfet-thermal"])
def test_zhangs_models_are_calibrated_at_his_point(name):
    own, change = MODELS[name], {"xi2": 0.3, "vt0_volts": 0.25}
    calibrated = nbti_model(name, change | {"amplitude": "calibrated"})
    assert calibrated.amplitude != pytest.approx(own.amplitude, rel=0.01)
    assert delay_after(calibrated, 0.4, 7, 0.9) == pytest.approx(delay_after(own, 0.4, 7, 0.9))
    assert calibrated == dataclasses.replace(own, amplitude=calibrated.amplitude, **change)


def test_a_sweep_lives_by_them_and_its_digest_covers_them():
    """Half the shift, by the amplitude: the same lives as with a shift factor of a half."""
    workload = {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1}
    halved, plain = (
        small_sweep(aging=aging, techniques=["rrcd"], workload=workload).compute(0, 5)
        for aging in ({"constants": {"amplitude": facelift().amplitude / 2}}, {"shift_factor": 0.5})
    )
    for name in ("life_years", "max_dvth_mv"):
        np.testing.assert_allclose(halved[name], plain[name], rtol=1e-9)
    none, other, another, empty = (
        small_sweep(aging={"constants": given}).header.spec_digest
        for given in (None, {"eta": 0.3}, {"eta": 0.31}, {})
    )
    assert len({none, other, another}) == 3
    assert none == empty


def test_two_threshold_voltages_are_refused():
    with pytest.raises(UserError, match=r"vt0_volts and constants\.vt0_volts: give one of them"):
        small_sweep(aging={"vt0_volts": 0.3, "constants": {"vt0_volts": 0.31}})
    with pytest.raises(UserError, match=r"aging\.constants\.vt0_volts = 0\.85: 0\.85 V must stay"):
        small_sweep(aging={"constants": {"vt0_volts": 0.85}}, environments=["dvfs"])
    rules = small_sweep(aging={"constants": {"vt0_volts": 0.35}}).plan.cases[0].conditions
    assert rules.distributions.vt0_volts.bounds == (0.35, 0.35)


@each(
    ("arguments", "message"),
    [
        (["--constant", "eta=0.3"], "--constant: name the one --model that it is for"),
        (["--list", "--model", "facelift", "--constant", "eta=0.3"], "without --list"),
        (["--model", "facelift", "--constant", "=1"], "NAME=VALUE is needed"),
        (["--model", "facelift", *2 * ["--constant", "eta=1"]], "eta is given twice"),
    ],
)
def test_bad_options_of_mcage_nbti(arguments, message):
    with pytest.raises(UserError, match=message):
        raise invoke("nbti", *arguments).exception


def test_mcage_nbti_takes_them():
    """The figures of docs/aging.md."""
    command = ["nbti", "--model", "facelift", "--vdd", "0.8"]
    command += ["--constant", "field_volts_per_nm=0.4"]
    assert "0.55788" in invoke(*command).output
    command += ["--constant", "amplitude=calibrated"]
    assert "26.1" in invoke(*command).output
