"""Margins of cells from curves: ideal inverters, whose squares are known."""

import numpy as np
import pytest
from half_cell import SHARES, HalfCell, Widths
from margins import margin
from weak_cells import sigmas


def step(at, vdd=1.0, low=0.0, high=None, width=1e-3):
    """Curve of an inverter that switches at an input."""
    high = vdd if high is None else high
    return low + (high - low) / (1 + np.exp(np.clip((SHARES * vdd - at) / width, -200, 200)))


@pytest.mark.parametrize("kind", ["read", "hold"])
@pytest.mark.parametrize("trip", [0.3, 0.5])
def test_the_square_of_ideal_inverters(kind, trip):
    # Stored '0': Q may rise to the trip point of QB's inverter, QB may fall to that of Q's.
    square = min(trip, 1 - 0.5)
    assert margin(kind, 1.0, step(trip), step(0.5)) == pytest.approx(square, abs=0.02)


def test_a_node_that_rises_when_it_is_read_takes_it_from_the_margin():
    at_rest = margin("read", 1.0, step(0.4), step(0.5))
    read = margin("read", 1.0, step(0.4), step(0.5, low=0.15))
    assert at_rest - read == pytest.approx(0.15, abs=0.02)
    assert not margin("read", 1.0, step(0.4), step(0.5, low=0.45)) > 0


def test_a_cell_is_written_if_the_other_value_cannot_stay():
    # The bit line holds Q below the trip point of QB's inverter, or it does not.
    assert margin("write", 1.0, step(0.5), step(0.5, high=0.3)) > 0.1
    assert margin("write", 1.0, step(0.5), step(0.5, high=0.8)) < -0.1


def test_a_shift_weakens_also_a_pmos():
    lines = HalfCell(0.5, 1.0, 1.0, 0.02, 0.03, -0.01).lines("7", Widths(70, 90, 150))
    assert "Mp7 o7 i7 d7 d7 pmos l=45n w=70n delvto=-0.02" in lines
    assert "Mn7 o7 i7 0 0 nmos l=45n w=150n delvto=0.03" in lines
    assert "Ma7 b7 w7 o7 0 nmos l=45n w=90n delvto=-0.01" in lines
    assert sigmas(Widths(), 2.0) == pytest.approx(
        [0.0356, 0.0356, 0.0243, 0.0243, 0.0314, 0.0314], abs=1e-4
    )
