"""The table of what the lot and what the constants make uncertain."""

import io
import math

import numpy as np
import pytest
import xarray as xr

from mcage.errors import UserError
from mcage.report.console import PlainConsole
from mcage.report.tables.draws import summarize_draws, table_of
from mcage.report.tables.terminal import print_table

HORIZON = 10.0


def results_of(draws, slices):
    """A case whose lives follow from the constants, but for a tenth; the lives of few end late."""
    row = np.tile(np.arange(draws), slices)
    years = 2.0 + 8.5 * row / draws + 0.1 * np.random.default_rng(1).normal(size=row.size)
    died = years < HORIZON
    return xr.Dataset(
        {
            "draw": ("instance", row),
            "life_years": (("case", "instance"), [np.minimum(years, HORIZON)]),
            "end_cause": (("case", "instance"), [died.astype(np.int8)]),
            "max_dvth_mv": (
                ("case", "instance", "transistor"),
                [np.stack([10.0 * years, 5 * years], axis=1)],
            ),
        },
        {"case": ["rrcd"], "epoch_end_years": ("epoch", [1.0, HORIZON])},
    )


def shown(results):
    out = io.StringIO()
    print_table(table_of(summarize_draws(results)), PlainConsole(file=out, width=200))
    return out.getvalue()


def test_lot_and_constants_stand_side_by_side():
    (case,) = summarize_draws(results_of(50, 6))
    assert (case.instances, case.draws) == (300, 50)
    median = case.median_life_years
    assert 6 < median.lot.lower < median.lot.value < median.lot.upper < 6.5
    assert 2 < median.band.lower < 2.5
    assert median.band.upper == math.inf
    assert case.share_of_life.lower > 0.9
    assert case.max_dvth_mv.lot.value > 60
    text = shown(results_of(50, 6))
    assert "50 draws of constants, 6 slices of each" in text
    assert "to > 10 " in text
    assert "fewer than" not in text


def test_what_is_missing_is_said():
    few, single = shown(results_of(20, 5)), shown(results_of(50, 1))
    assert "fewer than 39 draws give no band" in few
    assert "cannot be told apart without two slices of a draw" in single
    assert " – " in few
    with pytest.raises(UserError, match="no joint draws of constants"):
        summarize_draws(results_of(5, 5).drop_vars("draw"))
