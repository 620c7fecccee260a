"""Lives of which everything is known in closed form, and what they count on the way."""

from types import SimpleNamespace

import numpy as np
import pytest
from fault_cases import assert_ends_at
from life_cases import (
    CYCLES,
    MODEL,
    NUMBA,
    NUMPY,
    YEAR,
    alternating_trace,
    arrays_of,
    cell,
    dvth,
    lived,
    random_values,
    rules,
    seconds_to_delay,
    steady_trace,
    tail_of,
)
from nbti_cases import exceedance, prefactor_of
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import kstest, norm
from tables import each
from trace_strategies import alloc, pattern, release, trace_of, write

from mcage.aging.environment import environment
from mcage.aging.nbti import nbti_model
from mcage.aging.transistors import DelayPath, NbtiSpread, Pbti, TrapLaw
from mcage.aging.vmin import Margins, margins
from mcage.lifetime import EndCause
from mcage.lifetime.degradation import AdditiveDegradation
from mcage.lifetime.faults import UNLUCKIEST, DelayEndByLuck, SliceLuck
from mcage.spec.epochs import growth_weights, middle_of_growth, middles_of_growth
from mcage.traces import bundled_trace, first_generations
from mcage.variation.fault_models import NewSlices
from mcage.variation.vmin_tail import TailCells

ZERO = np.zeros(64, dtype=np.uint32)
STEADY = steady_trace([ZERO])
KERNEL = first_generations(bundled_trace("MatrixTranspose"), 4)


@each("guardband", [0.01, 0.05, 0.139, 0.17])
@each("cycles_at_zero", [100, 70, 50, 30])
def test_a_cell_lives_until_the_guardband_is_used_up(guardband, cycles_at_zero):
    """All cells at '0', then all at '1': T0 and T1 share the time."""
    zero = cycles_at_zero / CYCLES
    trace = STEADY if zero == 1 else alternating_trace(ZERO, cycles_at_zero, ~ZERO)
    expected = seconds_to_delay(guardband, max(zero, 1 - zero))
    horizon = (0.0, expected / YEAR * 0.6, expected / YEAR * 1.1)
    life = lived([trace], "baseline", delay_guardband=guardband, epoch_edges_years=horizon)
    assert life.end.cause == [EndCause.DELAY]
    assert life.end.seconds[0] == pytest.approx(expected, rel=1e-6)
    assert life.degradation.delay_increase[0] == pytest.approx(guardband, rel=1e-6)
    assert life.degradation.longest_duty[0] == pytest.approx([zero, 1 - zero])
    shifts = [dvth(expected, zero), dvth(expected, 1 - zero)]
    assert life.degradation.max_dvth_volts[0] == pytest.approx(shifts, rel=1e-6)


def test_operating_points():
    """Aging at all of them, each for its share of the time; delay at the highest."""
    point, high = prefactor_of(MODEL, 0.419, 353.15), prefactor_of(MODEL, 0.8, 353.15)
    both = (0.5 * point**4 + 0.5 * high**4) ** 0.25
    for name, vdd, prefactor, guardband in [
        ("undervolted", 0.419, point, 0.0035),
        ("dvfs", 0.8, both, 0.03),
    ]:
        given = {"environment": environment(name, 0.419), "delay_guardband": guardband}
        life = lived([STEADY], "baseline", **given)
        expected = seconds_to_delay(guardband, 1.0, vdd, prefactor)
        assert YEAR < expected < 10 * YEAR
        assert life.end.seconds[0] == pytest.approx(expected, rel=1e-6), name


def test_a_life_that_reaches_the_horizon_is_censored():
    life = lived([STEADY], "baseline", sample=[cell(0), cell(0, 2047), cell(1)])
    assert life.end.cause == [EndCause.CENSORED]
    assert life.end.seconds == [10 * YEAR]
    full = dvth(10 * YEAR)
    assert life.degradation.max_dvth_volts[0, 0] == pytest.approx(full, rel=1e-6)
    ends = YEAR * np.arange(1.0, 11.0)
    assert life.degradation.epoch_max_dvth_volts[0, :, 0] == pytest.approx(dvth(ends), rel=1e-6)
    assert life.degradation.epoch_max_dvth_volts[0, :, 1] == pytest.approx(0.0)
    expected = np.array([[full, 0], [full, 0], [0, 0]])  # the third cell is never written
    assert life.degradation.sampled.dvth_volts()[0] == pytest.approx(expected, rel=1e-6)
    edges = (0.0, seconds_to_delay(0.139) / YEAR * 0.999)
    just_before = lived([STEADY], "baseline", delay_guardband=0.139, epoch_edges_years=edges)
    assert just_before.end.cause == [EndCause.CENSORED]


@each(
    ("technique", "guardband"),
    [("baseline", 0.139), ("rc+rar", 0.04), ("rrcd", 0.139), ("rrcd+rc+rar", 0.03)],
)
def test_the_number_of_epochs_does_not_matter_without_faults(technique, guardband):
    given = {"engine": NUMBA, "delay_guardband": guardband}
    edges = [tuple(np.linspace(0, 10, epochs + 1)) for epochs in (10, 20)]
    lives = [lived([KERNEL], technique, epoch_edges_years=of, **given) for of in edges]
    tens, twenties = map(arrays_of, lives)
    assert tens["end.seconds"][0] > YEAR
    assert tens["end.cause"][0] == twenties["end.cause"][0] == EndCause.DELAY
    of_life = ("degradation.max_dvth_volts", "degradation.longest_duty")
    for name in ("end.seconds", *of_life, "writes.fractions", "writes.wakeups"):
        assert tens[name] == pytest.approx(twenties[name], rel=1e-7), name
    first, second = (of["degradation.epoch_max_dvth_volts"][0] for of in (tens, twenties))
    assert first[0] == pytest.approx(second[1], rel=1e-7)


def test_a_life_of_several_kernels():
    """Two years of '0' and eight of '1' are 0.2 and 0.8 of the life, in whatever order."""
    traces = [steady_trace([ZERO]), steady_trace([~ZERO])]
    orders = np.array([[0, 0] + 8 * [1], 5 * [1] + [0, 0] + 3 * [1]])
    life = lived(traces, "baseline", tail_of({}, {}), kernels=orders)
    for instance in (0, 1):
        assert life.degradation.longest_duty[instance] == pytest.approx([0.2, 0.8])
        expected = [dvth(10 * YEAR, 0.2), dvth(10 * YEAR, 0.8)]
        assert life.degradation.max_dvth_volts[instance] == pytest.approx(expected, rel=1e-6)


def test_worst_shifts_are_looked_for_once(monkeypatch):
    looked_for, look = [], AdditiveDegradation._look_for_worst

    def looking(self, instances, moment):
        looked_for.extend(zip(instances.tolist(), moment.tolist(), strict=True))
        return look(self, instances, moment)

    monkeypatch.setattr(AdditiveDegradation, "_look_for_worst", looking)
    lived([KERNEL], "rrcd", epoch_edges_years=(0.0, 1.0, 2.0), engine=NUMBA)
    assert looked_for == [(0, YEAR), (0, 2 * YEAR)]


def test_events_are_counted_per_write():
    """Of four writes, two wake an entry, one of them as a divergent one that needs a MOV."""
    constant, random = pattern(7), random_values(1)[0]
    values = {10: constant, 20: random, 30: constant}
    events = [alloc(0, 0, 1), *(write(at, 0, 0, value) for at, value in values.items())]
    trace = trace_of([*events, write(40, 0, 0, random, lanes=1), release(99, 0)], CYCLES)
    for technique in ("rc", "rrcd+rc+rar"):  # the latter counts over eight passes
        writes = lived([trace], technique).writes
        assert (writes.wakeups[0], writes.movs[0]) == pytest.approx((2 / 4, 1 / 4))
    writes = lived([trace], "rc").writes
    assert writes.fractions[0] == pytest.approx([1, 0, 0, 0])
    assert writes.mispredictions[0] == 0
    assert lived([trace], "baseline").writes.wakeups[0] == 0


def test_events_of_kernels_are_weighted_by_their_writes():
    """A year of one write a pass and a year of four: four of five writes are the second's."""
    random = random_values(4)
    awake = alternating_trace(pattern(1), 50, random[0])  # one wake-up, two writes a pass
    steady = steady_trace(random)  # none, four writes a pass
    life = lived([awake, steady], "rc", kernels=[[0, 1]], epoch_edges_years=(0.0, 1.0, 2.0))
    assert life.writes.wakeups[0] == pytest.approx(1 / 6)


def test_faults_grow_as_the_fourth_root_between_the_moments_looked_at():
    starts, ends = np.array([3.0, 3.0, 0.0]), np.array([3.0, 4.0, 50.0])
    weights, middles = growth_weights(starts, ends), middles_of_growth(starts, ends)
    assert weights.sum(axis=0) == pytest.approx(ends - starts)
    assert middles == pytest.approx(
        [middle_of_growth(*of) for of in zip(starts, ends, strict=True)]
    )

    def rate(time):
        return 2 - 0.5 * time**0.25 + 3 * time**0.5

    totals = (weights * rate(np.stack([starts, middles, ends]))).sum(axis=0)
    expected = [quad(rate, *of)[0] for of in zip(starts, ends, strict=True)]
    assert totals == pytest.approx(expected)


# Lives that end by a margin: at moments that can be computed by hand.


READ, WRITE, HOLD = (
    Margins(margins("margins").coefficients, tuple(float(kind == limit) for kind in range(3)))
    for limit in range(3)
)
HALF = Pbti.of(0.5, MODEL)
WEAK = [cell(0, bit) for bit in range(40)]


def ended_by(table, pbti, seconds, growth, engine=NUMPY, **changes):
    """Life of a slice with 40 weak cells, of which those of value '0' fail at a moment."""
    tail = tail_of(dict.fromkeys(WEAK, 1.0 - growth * dvth(seconds)))
    given = {"engine": engine, "margins": table, "pbti": pbti, **changes}
    return lived([STEADY], "baseline", tail, **given)


@each("engine", [NUMPY, NUMBA])
@each(
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


@each("epochwise", ["bhardwaj", "planar"])
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


# The luck of transistors in a life: who is the worst, and which cells it makes faulty.

SPREAD = NbtiSpread(TrapLaw(1e-3), DelayPath.of("worst", 65_536))


def all_scores(luck):
    """Scores of all transistors of each instance: float64[2, I, cells]."""
    count = len(luck.instances)
    owner = np.repeat(np.arange(count), luck.cells)
    return luck.scores(owner, np.tile(np.arange(luck.cells), count)).reshape(2, count, -1)


def test_scores_are_standard_normal_and_an_instance_has_its_own():
    luck = SliceLuck(3, np.array([5, 9]), 4000)
    scores = all_scores(luck)
    for instance in range(2):
        assert kstest(scores[:, instance].ravel(), norm.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(scores.reshape(4, -1)) - np.eye(4)).max() < 0.08
    alone = SliceLuck(3, np.array([9]), 4000)
    assert np.array_equal(all_scores(alone)[:, 0], scores[:, 1])
    # The unluckiest are those that are followed.
    beyond = (scores > luck.others_at_most[:, None]).sum(axis=(0, 2))
    assert beyond.tolist() == [UNLUCKIEST - 1] * 2
    unlucky = luck.scores(np.repeat([0, 1], UNLUCKIEST), luck.unlucky_cells.ravel())
    assert unlucky.max() == scores.max()
    # Also where these are most of the transistors.
    few = all_scores(SliceLuck(3, np.arange(200), UNLUCKIEST // 2 + 1))
    assert kstest(few.ravel(), norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("least", [0.9, 0.5])
def test_worst_transistor_of_a_slice_is_that_of_all(least):
    """Against all transistors of slices whose mean shifts lie between a share of 60 mV and all."""
    cells, count = 65_536, 6
    luck = SliceLuck(4, np.arange(count), cells)
    means = 60e-3 * np.random.default_rng(1).uniform(least, 1, (2, count, cells))
    brute = SPREAD.traps.shift(means, all_scores(luck)).max(axis=2)

    followed = luck.unlucky_cells
    degradation = SimpleNamespace(
        sampled_dvth=lambda instances, _: np.take_along_axis(
            means[:, instances], followed[None, instances], 2
        ),
        worst_dvth=lambda instances, _: means[:, instances].max(axis=2),
    )
    owner = np.repeat(np.arange(count), UNLUCKIEST)
    of_batch = SimpleNamespace(
        unlucky=luck.scores(owner, followed.ravel()).reshape(2, count, -1),
        others_at_most=luck.others_at_most,
    )
    delay_end = DelayEndByLuck(None, SPREAD, of_batch)
    chosen = np.array([0, 2, 3, 5])
    worst = delay_end.worst_dvth(degradation, chosen, np.ones(4))
    if least == 0.9:
        assert np.array_equal(worst, brute[:, chosen])
    else:  # an upper bound, which few slices need
        assert (worst >= brute[:, chosen]).all()
        assert (worst == brute[:, chosen]).mean() > 0.5


def test_cells_that_bad_luck_makes_faulty():
    """As many as the law says among all cells, also of those that the mean shift would spare."""
    slices, sigma, spread = 40, 0.03, NbtiSpread(TrapLaw(1e-3), DelayPath.of("word", 524_288))
    given = rules(spread=spread, environment=environment("dvfs", 0.419), vmin_coefficient=0.8)
    largest, vdd = given._largest_dvth_volts, 0.419
    mu = vdd - 0.8 * largest - 0.1
    floor = given.floor_volts
    rng, parts = np.random.default_rng(7), []
    for _ in range(slices):
        count = rng.binomial(524_288, ndtr((mu - floor) / sigma))
        ranks = rng.uniform(0, ndtr((mu - floor) / sigma), count)
        cells = rng.choice(524_288, count, replace=False).astype(np.int32)
        parts.append((cells, mu - sigma * norm.ppf(ranks)))
    new = NewSlices.at(vdd, TailCells.join(parts))
    luck = SliceLuck(1, np.arange(slices), 524_288)
    kept, of_batch = luck.of_batch(given, None, new, np.zeros((slices, 1), dtype=np.int64))
    fails = of_batch.vmin_volts + 0.8 * largest > vdd
    assert np.array_equal(fails.any(axis=0), np.ones(len(kept.tail.cell), dtype=bool))

    def density(vmin):
        above = exceedance(spread.traps, (vdd - vmin) / 0.8, largest)
        return norm.pdf(vmin, mu, sigma) * (1 - (1 - above) ** 2)

    expected = slices * 524_288 * quad(density, floor, vdd, points=[vdd - 0.8 * largest])[0]
    spared = norm.sf(vdd - 0.8 * largest, mu, sigma) - norm.sf(vdd, mu, sigma)
    assert expected > 1.3 * slices * 524_288 * spared
    assert len(kept.tail.cell) == pytest.approx(expected, abs=4 * np.sqrt(expected))
