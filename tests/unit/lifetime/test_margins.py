"""Lives that end by a margin: at moments that can be computed by hand."""

import numpy as np
import pytest
from fault_cases import assert_ends_at
from life_cases import (
    MODEL,
    NUMBA,
    NUMPY,
    YEAR,
    arrays_of,
    cell,
    dvth,
    lived,
    rules,
    shared_replays,
    steady_trace,
    tail_of,
)

from mcage.aging.delay_path import DelayPath, NbtiSpread
from mcage.aging.margins import Margins, margins
from mcage.aging.nbti import nbti_model
from mcage.aging.pbti import Pbti
from mcage.aging.traps import TrapLaw
from mcage.lifetime.end_cause import EndCause
from mcage.lifetime.limits import CellLimits
from mcage.lifetime.luck import SliceLuck
from mcage.lifetime.simulator import SliceBatch, simulate_lifetimes
from mcage.techniques import TECHNIQUES
from mcage.variation.fault_maps import NewSlices

STEADY = steady_trace([np.zeros(64, dtype=np.uint32)])
"""Entry 0 at '0' throughout: T0 and N0 of its cells are under full stress, T1 and N1 never."""

READ, WRITE, HOLD = (
    Margins(margins("margins").coefficients, tuple(float(kind == limit) for kind in range(3)))
    for limit in range(3)
)
HALF = Pbti.of(0.5, MODEL)
WEAK = [cell(0, bit) for bit in range(40)]


def ended_by(table, pbti, seconds, growth, engine=NUMPY, **changes):
    """Life of a slice with 40 weak cells, of which those of value '0' fail at a moment."""
    vmin = 1.0 - growth * dvth(seconds)
    tail = tail_of(dict.fromkeys(WEAK, vmin))
    return lived([STEADY], "baseline", tail, engine=engine, margins=table, pbti=pbti, **changes)


@pytest.mark.parametrize("engine", [NUMPY, NUMBA], ids=lambda engine: engine.name)
@pytest.mark.parametrize(
    ("table", "pbti", "growth"),
    [
        (READ, None, 1.61),
        (READ, HALF, 1.61 + 0.5 * 2.15),
        (HOLD, HALF, 1.09 + 0.5 * 0.18),
        (None, Pbti.of(1.5, MODEL), 1.5),
        (None, HALF, 1.0),
    ],
)
def test_a_cell_fails_when_its_four_shifts_have_used_up_its_margin(table, pbti, growth, engine):
    life = ended_by(table, pbti, 3.3 * YEAR, growth, engine)
    assert_ends_at(life, 3.3 * YEAR, EndCause.FAULTY_ENTRY)
    expected = np.zeros(3)
    if table is not None:
        # About half of the cells are limited by their '0', and that by one margin.
        expected[np.argmax(table.shares)] = (by_zero := life.faulty_entries.new_by_margin.max())
        assert 8 < by_zero < 32
    assert life.faulty_entries.new_by_margin.tolist() == [expected.tolist()]


def test_a_cell_that_is_hard_to_write_does_not_fail_by_aging():
    life = ended_by(WRITE, HALF, 3.3 * YEAR, 0.01)
    assert life.end.cause == [EndCause.CENSORED]


@pytest.mark.parametrize("epochwise", ["bhardwaj", "planar"])
def test_other_models_of_pull_downs(epochwise):
    """Epoch by epoch or by sums, N0 follows the equations of its own model."""
    model = nbti_model(epochwise)
    seconds, pbti = 3.3 * YEAR, Pbti.of(epochwise, MODEL)
    given = rules(pbti=pbti, margins=READ)
    pull_down = float(model.dvth_at(given.environment, 1.0, seconds))
    growth = 1.61 + 2.15 * pull_down / dvth(seconds)
    assert given.sums_suffice == model.additive
    life = ended_by(READ, pbti, seconds, growth, NUMBA)
    assert_ends_at(life, seconds, EndCause.FAULTY_ENTRY)


@pytest.mark.parametrize(("engine", "model"), [(NUMBA, "facelift"), (NUMPY, "bhardwaj")])
def test_without_pbti_coefficients_1_and_0_give_the_same_lives_to_the_bit(engine, model):
    rng = np.random.default_rng(1)
    nbti, kernels = nbti_model(model), np.zeros((3, 10), dtype=np.int64)
    tail = tail_of(*[dict(zip(WEAK, rng.uniform(0.9, 0.97, 40), strict=True)) for _ in range(3)])
    traces = (steady_trace(rng.integers(0, 2**32, (3, 64), dtype=np.uint32)),)
    shared, sampled = shared_replays(engine, traces, TECHNIQUES["disable"]), np.zeros((3, 2), int)
    lives = []
    for table in (None, Margins(((1.0, 0.0, 0.0, 0.0),) * 3, (1.0, 0.0, 0.0))):
        given = rules(nbti=nbti, margins=table)
        new = NewSlices.at(given.environment.lowest_vdd_volts, tail)
        vmin = np.full((6, len(new.tail.cell)), -np.inf)
        vmin[:2] = new.tail.vmin_volts
        limits = table and CellLimits(np.zeros(len(vmin[0]), np.int8), vmin, None)
        batch = SliceBatch(kernels, new, sampled, limits=limits)
        lives.append(arrays_of(simulate_lifetimes(given, engine, shared, batch)))
    plain, with_margins = lives
    for name in plain.keys() - {"faulty_entries.new_by_margin"}:
        np.testing.assert_array_equal(plain[name], with_margins[name], err_msg=name)
    assert with_margins["faulty_entries.new_by_margin"].sum() > 10


def test_cells_below_the_floor_never_fail():
    """The floor grows with the growth of Vmin: a cell just above may fail, one below cannot."""
    floors = [
        1.0 - rules(margins=table, pbti=pbti).floor_volts
        for table, pbti in ((None, None), (None, HALF), (READ, None), (READ, HALF), (WRITE, HALF))
    ]
    largest = dvth(10 * YEAR)
    growths = np.array([1, 1, 1.61, 1.61 + 0.5 * 2.15, 1.61 + 0.5 * 2.15])
    np.testing.assert_allclose(floors, growths * largest, rtol=1e-6)
    spread = NbtiSpread(TrapLaw(1e-3), DelayPath.of("word", 524_288))
    deeper = rules(margins=READ, pbti=HALF, spread=spread).floor_volts
    assert deeper < 1.0 - growths[3] * largest
    # As far as all four are as unlucky as one transistor in 10,000, none is below the floor.
    shifts = spread.traps.shift(np.array([1, 1, 0.5, 0.5])[:, None] * largest, 3.7)
    assert 1.0 - READ.largest_growth(shifts).max() > deeper


def test_traps_of_pull_downs_are_their_own():
    spread = NbtiSpread(TrapLaw(2e-3), DelayPath.of("word", 524_288))
    alike = ended_by(READ, HALF, 3.3 * YEAR, 1.61 + 0.5 * 2.15)
    lucky = ended_by(READ, HALF, 3.3 * YEAR, 1.61 + 0.5 * 2.15, spread=spread)
    again = ended_by(READ, HALF, 3.3 * YEAR, 1.61 + 0.5 * 2.15, NUMBA, spread=spread)
    # With forty weak cells, two are unlucky enough to fail sooner than all of them do alike.
    assert lucky.end.seconds[0] < 0.8 * alike.end.seconds[0]
    assert lucky.end.seconds.tolist() == again.end.seconds.tolist()
    scores = SliceLuck(1, np.array([4]), 3000).scores_of_cells(
        np.zeros(3000, np.int64), np.arange(3000), True
    )
    assert abs(np.corrcoef(scores) - np.eye(4)).max() < 0.08
    assert abs(scores.std(axis=1) - 1).max() < 0.05
