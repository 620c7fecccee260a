"""The table of both levels: of which GPUs it speaks where register files fail for faults."""

import numpy as np
import pytest
import xarray as xr

from mcage.report.tables.gpu.both import summarize, table_of

SHIFTS = np.array([[[80.0, 82.0, 90.0], [40.0, 40.0, 40.0]], [[60.0, 61.5, 70.0], [30.0] * 3]])
"""Largest shift of three GPUs under two policies and two techniques, mV."""


def results(failed=()):
    """Results of three GPUs; each of ``failed`` is a place of `SHIFTS` that has failed."""
    shifts = SHIFTS.copy()
    for place in failed:
        shifts[place] = np.nan
    both, sms = ("policy", "technique", "instance"), ("policy", "instance")
    years = np.full(SHIFTS.shape, 10.0)
    return xr.Dataset(
        {
            "max_dvth_mv": ((*both, "age"), shifts[..., None]),
            "cell_margin": ((*both, "age"), shifts[..., None] / 500.0),
            "logic_margin": ((*sms, "age"), np.full((2, 3, 1), 0.1)),
            "mean_share": (sms, np.ones((2, 3))),
            "logic_life_years": (sms, np.full((2, 3), 10.0)),
            **{name: (both, years) for name in ("cell_life_years", "fault_life_years")},
            "life_years": (both, years),
            "end_cause": (both, np.zeros(SHIFTS.shape, np.int8)),
        },
        {"policy": ["default", "turns"], "technique": ["none", "some"], "age": [10.0]},
    )


def column(table, key):
    (found,) = (each for each in table.columns if each.key == key)
    return found


def test_where_all_last_nothing_is_said_of_it():
    table = table_of(summarize(results()))
    assert [cell.value for cell in column(table, "lasting").cells] == [3, 3, 3, 3]
    assert not column(table, "lasting").heading
    assert "last" not in table.caption


def test_where_register_files_fail_the_table_says_of_how_many_it_speaks():
    table = table_of(summarize(results([(0, 0, 2), (1, 1, 0)])))
    assert column(table, "lasting").heading == "files last\n[GPUs]"
    assert [cell.value for cell in column(table, "lasting").cells] == [2, 3, 3, 2]
    assert "of the GPUs whose register files last" in table.caption
    shifts = [cell.value for cell in column(table, "max_dvth_mv").cells]
    assert shifts == pytest.approx([81.0, 40.0, SHIFTS[1, 0].mean(), 30.0])
    saved = [cell.value for cell in column(table, "saved").cells]
    assert saved[1] == pytest.approx(1 - (40 / 80 + 40 / 82) / 2)
    assert saved[3] == pytest.approx(1 - 30 / 82)
