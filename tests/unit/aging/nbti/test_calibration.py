"""Constants in place of a model's own: taken, refused, and with the amplitude fitted again."""

import dataclasses
import math

import numpy as np
import pytest
from nbti_cases import MODELS, constant_environment
from sweep_cases import small_sweep
from tables import each
from typer.testing import CliRunner

from mcage.aging.delay import delay_increase
from mcage.aging.nbti import MODEL_NAMES, SECONDS_PER_YEAR, constants, facelift, nbti_model
from mcage.aging.nbti.constants import RANGES
from mcage.cli.app import app
from mcage.errors import UserError


@each("name", MODEL_NAMES)
def test_each_constant_is_set_by_its_name_and_alone(name):
    for constant, described in constants(name).items():
        if constant == "time_exponent":  # there is only one
            continue
        value = 1.01 * described.value
        assert nbti_model(name, {constant: value}) == dataclasses.replace(
            MODELS[name], **{constant: value}
        )


def test_own_constants_lie_within_the_ranges():
    for name in MODEL_NAMES:
        for constant, described in constants(name).items():
            lowest, highest = RANGES[constant]
            assert lowest <= described.value <= highest, (name, constant)


@each(
    ("name", "given", "message"),
    [
        ("facelift", {"xi1": 0.9}, "aging.constants.xi1: NBTI model 'facelift' has no such"),
        ("finfet", {"eta": 0.3}, "'finfet' has no such constant; it has amplitude, oxide_thick"),
        ("facelift", {"eta": 1.2}, "aging.constants.eta = 1.2: must be 0 ... 1"),
        ("facelift", {"eta": -0.1}, "aging.constants.eta = -0.1"),
        ("facelift", {"eta": math.nan}, "aging.constants.eta = nan"),
        ("facelift", {"field_volts_per_nm": 0.0}, "must be 0.05 ... 10 V nm^-1"),
        ("facelift", {"amplitude": "fitted"}, "aging.constants.amplitude = 'fitted': must be"),
        ("bhardwaj", {"amplitude": "calibrated"}, "'bhardwaj' is fitted by its scale"),
        ("bhardwaj", {"time_exponent": 0.25}, "time_exponent = 0.25, where 1/6 is needed"),
        (
            "facelift",
            {"vt0_volts": 1.0, "amplitude": "calibrated"},
            "with vt0_volts = 1 nothing is stressed at the 1 V of the calibration",
        ),
        (
            "facelift",
            {"field_volts_per_nm": 0.05, "oxide_thickness_nm": 0.1},
            "together they shift transistors by more than can be computed at 2 V, 450 K",
        ),
        ("my:MODEL", {"eta": 0.3}, "aging.constants.eta: NBTI model 'my:MODEL' is user-defined"),
        ("bhardwai", {"xi1": 0.9}, "NBTI model 'bhardwai' is unknown; choose from facelift"),
    ],
)
def test_refused(name, given, message):
    with pytest.raises(UserError) as caught:
        nbti_model(name, given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def delay_after(model, duty, years, vdd):
    shift = model.dvth_at(constant_environment(vdd), duty, years * SECONDS_PER_YEAR)
    return float(delay_increase(shift, vdd, model.vt0_volts, model.alpha))


@each(
    "given",
    [
        {},
        {"field_volts_per_nm": 0.4},
        {"activation_energy_ev": 0.08},
        {"vt0_volts": 0.4},
        {"alpha": 1.6, "oxide_thickness_nm": 0.8},
    ],
)
def test_a_calibrated_amplitude_leaves_the_published_delay_as_it_is(given):
    """Valero's 13.9 % in three years at 1.0 V, and elsewhere something else."""
    calibrated = nbti_model("facelift", given | {"amplitude": "calibrated"})
    assert delay_after(calibrated, 1.0, 3, 1.0) == pytest.approx(0.139, rel=1e-6)
    elsewhere = delay_after(calibrated, 1.0, 3, 0.8)
    assert (elsewhere == pytest.approx(delay_after(facelift(), 1.0, 3, 0.8))) == (
        not given or list(given) == ["activation_energy_ev"]
    )


@pytest.mark.parametrize("name", ["finfet", "planar", "finfet-common", "finfet-thermal"])
def test_zhangs_models_are_calibrated_at_his_point(name):
    calibrated = nbti_model(name, {"xi2": 0.3, "vt0_volts": 0.25, "amplitude": "calibrated"})
    own = MODELS[name]
    assert calibrated.amplitude != pytest.approx(own.amplitude, rel=0.01)
    assert delay_after(calibrated, 0.4, 7, 0.9) == pytest.approx(delay_after(own, 0.4, 7, 0.9))
    assert calibrated == dataclasses.replace(
        own, xi2=0.3, vt0_volts=0.25, amplitude=calibrated.amplitude
    )


def test_a_sweep_lives_by_them_and_its_digest_covers_them():
    """Half the shift, by the amplitude: the same lives as with a shift factor of a half."""
    halved = {"constants": {"amplitude": facelift().amplitude / 2}}
    workload = {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1}
    few = {"techniques": ["rrcd"], "workload": workload}
    sweep, plain = small_sweep(aging=halved, **few), small_sweep(aging={"shift_factor": 0.5}, **few)
    arrays, expected = sweep.compute(0, 5), plain.compute(0, 5)
    assert np.allclose(arrays["life_years"], expected["life_years"], rtol=1e-9)
    assert np.allclose(arrays["max_dvth_mv"], expected["max_dvth_mv"], rtol=1e-9, equal_nan=True)
    digests = {
        small_sweep(aging={"constants": given}).header.spec_digest
        for given in (None, {"eta": 0.3}, {"eta": 0.31})
    }
    assert len(digests) == 3
    assert small_sweep(aging={"constants": {}}).header.spec_digest in digests


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
        (["--model", "facelift", "--constant", "eta"], "--constant eta: NAME=VALUE is needed"),
        (["--model", "facelift", "--constant", "=1"], "NAME=VALUE is needed"),
        (
            ["--model", "facelift", "--constant", "eta=1", "--constant", "eta=0"],
            "eta is given twice",
        ),
        (["--model", "facelift", "--constant", "eta=much"], "aging.constants.eta = 'much'"),
    ],
)
def test_bad_options_of_mcage_nbti(arguments, message):
    result = CliRunner().invoke(app, ["nbti", *arguments])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_mcage_nbti_takes_them():
    """The figures of docs/aging.md."""
    command = ["nbti", "--model", "facelift", "--vdd", "0.8"]
    command += ["--constant", "field_volts_per_nm=0.4"]
    assert "0.55788" in CliRunner().invoke(app, command).output
    command += ["--constant", "amplitude=calibrated"]
    assert "26.1" in CliRunner().invoke(app, command).output


def test_every_constant_has_a_range():
    assert {field.name for model in MODELS.values() for field in dataclasses.fields(model)} == set(
        RANGES
    )
