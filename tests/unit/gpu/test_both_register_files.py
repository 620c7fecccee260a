"""What an SM gives to its slices, and which slices share a die."""

from dataclasses import replace

import numpy as np
import pytest

from mcage.engines.select import select_engine
from mcage.gpu.both.register_files import SmLevel
from mcage.gpu.both.spec import BothSpec
from mcage.gpu.both.study import Both
from mcage.gpu.gating.life import SmHistory
from mcage.report.notes import caveats_of


@pytest.fixture(scope="module")
def study():
    fields = {
        "instances": 3,
        "gating": {"sensors": {"interval_days": 30.0}, "policies": ["default", "least-shift"]},
        "sweep": {"workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1}},
    }
    return Both(BothSpec.from_mapping(fields), *select_engine("numba"))


def test_files_say_where_coolest_first_cannot_rank(study):
    assert caveats_of(study.header) == []
    gating = {"policies": ["coolest-first"], "temperature": {"model": "fixed"}}
    spec_toml = BothSpec.from_mapping({"gating": gating}).to_toml()
    (caveat,) = caveats_of(replace(study.header, spec_toml=spec_toml))
    assert caveat.startswith("CAVEAT: coolest-first: at a fixed temperature all SMs are equally")


def test_slices_take_after_their_sm(study):
    files = study.register_files
    shares = np.linspace(0.1, 0.9, 16 * 2).reshape(16, 2)
    kelvin, vt0 = 300.0 + 10 * shares, 0.3 + 0.01 * shares
    history = SmHistory(shares, kelvin, np.full(shares.shape, np.inf))
    given = files.constants(study.plan.cases[0], np.arange(64), vt0, history)
    of_sms = {"activity": shares, "temperature_kelvin": kelvin, "vt0_volts": vt0}
    for name, values in of_sms.items():
        of_slices = getattr(given, name).reshape(2, 16, 2)
        np.testing.assert_array_equal(of_slices, np.repeat(values.T[..., None], 2, axis=2))


def test_a_slice_of_a_busier_and_hotter_sm_shifts_further(study):
    shares, kelvin = np.full((16, 1), 0.5), np.full((16, 1), 330.0)
    shares[3], kelvin[7] = 0.9, 340.0
    level = SmLevel(SmHistory(shares, kelvin, np.full(shares.shape, np.inf)), 0.0)
    gpus = np.arange(1)
    fates = study.register_files.fates(gpus, np.full((16, 1), 0.3), {"p": level})
    for name, technique, slices in fates:
        assert (name, slices.dvth_volts.shape) == ("p", (1, 16, 2, 6)), technique
        shift = slices.dvth_volts[0, :, :, -1]
        ordinary = np.delete(shift, [3, 7], axis=0)
        assert np.ptp(ordinary) == 0
        assert (shift[3] > ordinary[0]).all()
        assert (shift[7] > ordinary[0]).all()
        duty = slices.longest_duty[0]
        assert duty[3] == pytest.approx(duty[0] * 0.9 / 0.5)


def test_a_die_is_a_gpu(study):
    """Two slices of 16 SMs: 32 successive ids share the die part of Vmin."""
    faults = study.plan.cases[0].faults
    assert faults.dies(np.array([0, 31, 32, 95])).tolist() == [0, 0, 1, 2]
    assert study.plan.spec.instances == 3 * 32


@pytest.mark.parametrize(("policy", "days"), [("default", 0.0), ("least-shift", 30.0)])
def test_the_period_of_a_policy(study, policy, days):
    assert study.period_seconds(policy) == days * 86_400
