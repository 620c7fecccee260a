"""The Vdd at which a fault model must know the faults of a case: the lowest of its points."""

import numpy as np
import pytest
from sweep_cases import small_sweep

from mcage.errors import UserError

POINTS = {"low": [{"vdd_volts": 0.8, "share": 0.5}, {"vdd_volts": 0.3}]}
HIGH_MU = {"mu_volts": 0.5}
"""Faults of scenario common: at its own 0.419 V all entries are faulty, at 1.0 V none."""


def refusal_of(**fields):
    with pytest.raises(UserError) as refused:
        small_sweep(techniques=["rrcd"], **fields)
    return str(refused.value)


def test_a_user_defined_point_lies_too_low_for_the_fault_model():
    error = refusal_of(environments=["low"], operating_points=POINTS)
    assert error.startswith("operating_points.low: vdd = 0.3 V: every entry of a slice would be")
    drawn = {"columns": {"faults.mu_volts": [0.14, 0.146]}}
    error = refusal_of(environments=["low"], operating_points=POINTS, draws=drawn)
    assert error.startswith("draws.columns: row 1: operating_points.low: vdd = 0.3 V")


@pytest.mark.parametrize(
    "fields", [{"faults": HIGH_MU}, {"draws": {"columns": {"faults.mu_volts": [0.5]}}}]
)
def test_a_voltage_that_no_point_has_refuses_nothing(fields):
    sweep = small_sweep(techniques=["rrcd"], environments=["nominal"], instances=2, **fields)
    assert np.nanmax(sweep.compute(0, 2)["epoch_faulty_entries"]) == 0
    assert "vdd = 0.419 V: every entry" in refusal_of(environments=["dvfs"], **fields)
