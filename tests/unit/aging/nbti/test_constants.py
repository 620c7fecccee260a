"""Constants of the NBTI models: stated, documented, and used."""

import dataclasses
import math
import tomllib
from importlib.resources import files

import pytest
from nbti_cases import MODELS, constant_environment
from places import ROOT
from tables import each

from mcage.aging.nbti import (
    MODEL_NAMES,
    SECONDS_PER_YEAR,
    Bhardwaj,
    bhardwaj,
    constants,
    facelift,
    finfet,
    planar,
)
from mcage.errors import UserError

DOCUMENT = "".join((ROOT / folder / "aging.md").read_text() for folder in ("docs", "results"))


@each("name", MODEL_NAMES)
def test_every_constant_states_where_it_comes_from(name):
    model = MODELS[name]
    required = {
        field.name for field in dataclasses.fields(model) if field.default is dataclasses.MISSING
    }
    assert required <= set(constants(name))
    for constant, described in constants(name).items():
        assert getattr(model, constant) == described.value
        assert described.unit
        assert described.status in {"printed", "public", "reconstructed", "assumed"}, constant
        assert described.source, constant


def test_the_file_holds_the_models_that_there_are():
    text = files("mcage").joinpath("data", "nbti.toml").read_text(encoding="utf-8")
    assert set(tomllib.loads(text)) == set(MODEL_NAMES)


def test_a_variant_is_like_its_model_but_for_what_it_states():
    assert constants("bhardwaj-unscaled")["amplitude"] == constants("bhardwaj")["amplitude"]
    assert MODELS["bhardwaj-unscaled"] == dataclasses.replace(bhardwaj(), scale=1.0)
    assert MODELS["finfet-thermal"] == dataclasses.replace(
        finfet(), effective_activation_energy_ev=0.972
    )
    assert MODELS["planar-common"] == dataclasses.replace(planar(), amplitude=8.34046e-5)


def test_models_have_functions_of_their_names():
    assert [MODELS[name] for name in ("facelift", "bhardwaj", "finfet", "planar")] == [
        facelift(),
        bhardwaj(),
        finfet(),
        planar(),
    ]


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
    shifts = [
        1e3
        * dataclasses.replace(bhardwaj(), period_seconds=period).dvth_at(
            constant_environment(1.0), 0.5, 3 * SECONDS_PER_YEAR
        )
        for period in (0.001, 0.01, 0.1)
    ]
    assert shifts == pytest.approx([13.0, 18.9, 26.8], abs=0.05)


def test_unscaled_constants_are_too_large_for_lifetimes():
    unscaled = MODELS["bhardwaj-unscaled"]
    shift = unscaled.largest_dvth(constant_environment(1.0), 3 * SECONDS_PER_YEAR)
    assert 1e3 * shift == pytest.approx(252, abs=0.5)


def test_prefactor_of_bhardwaj():
    rates = MODELS["bhardwaj-unscaled"].rates(constant_environment(1.0))
    assert math.sqrt(rates.stress) == pytest.approx(1.64362e-6, rel=1e-5)
    assert rates.diffusion == pytest.approx(10.1682, rel=1e-5)


def test_another_time_exponent_is_refused():
    values = {name: constant.value for name, constant in constants("bhardwaj").items()}
    with pytest.raises(UserError, match=r"time_exponent = 0\.25, where 1/6 is needed"):
        Bhardwaj(**(values | {"time_exponent": 0.25}))
