"""Lives of which everything is known in closed form, and what they count on the way."""

import numpy as np
import pytest
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
    seconds_to_delay,
    steady_trace,
    tail_of,
)
from scipy.integrate import quad
from trace_strategies import alloc, pattern, release, trace_of, write

from mcage.aging.environment import environment
from mcage.lifetime.end_cause import EndCause
from mcage.spec.epochs import growth_weights, middle_of_growth, middles_of_growth
from mcage.traces import bundled_trace, first_generations

ZERO = np.zeros(64, dtype=np.uint32)
STEADY = steady_trace([ZERO])
KERNEL = first_generations(bundled_trace("MatrixTranspose"), 4)


@pytest.mark.parametrize("guardband", [0.01, 0.05, 0.139, 0.17])
def test_a_cell_under_full_stress_lives_until_the_guardband_is_used_up(guardband):
    life = lived([STEADY], "baseline", delay_guardband=guardband)
    assert life.end.cause == [EndCause.DELAY]
    assert life.end.seconds[0] == pytest.approx(seconds_to_delay(guardband), rel=1e-6)
    assert life.degradation.delay_increase[0] == pytest.approx(guardband, rel=1e-6)
    assert life.degradation.longest_duty[0] == pytest.approx([1, 0])
    assert life.degradation.max_dvth_volts[0, 0] == pytest.approx(
        dvth(life.end.seconds[0]), rel=1e-6
    )
    assert life.degradation.max_dvth_volts[0, 1] == 0


def test_a_real_kernel_under_the_baseline_lives_three_years():
    for engine in (NUMPY, NUMBA):
        life = lived([KERNEL], "baseline", engine=engine, delay_guardband=0.139)
        assert life.end.seconds[0] / YEAR == pytest.approx(3.0, abs=1e-5)
        assert life.degradation.max_dvth_volts[0, 0] == pytest.approx(0.0666872, rel=1e-5)


@pytest.mark.parametrize("cycles_at_zero", [70, 30, 50])
def test_partial_duty_cycles(cycles_at_zero):
    """All cells at '0', then all at '1': T0 and T1 share the time."""
    trace = alternating_trace(ZERO, cycles_at_zero, ~ZERO)
    longest = max(cycles_at_zero, CYCLES - cycles_at_zero) / CYCLES
    life = lived([trace], "baseline", delay_guardband=0.05)
    assert life.end.seconds[0] == pytest.approx(seconds_to_delay(0.05, longest), rel=1e-6)
    zero = cycles_at_zero / CYCLES
    assert life.degradation.longest_duty[0] == pytest.approx([zero, 1 - zero])
    expected = [dvth(life.end.seconds[0], zero), dvth(life.end.seconds[0], 1 - zero)]
    assert life.degradation.max_dvth_volts[0] == pytest.approx(expected, rel=1e-6)


def test_operating_points():
    """Aging at all of them, each for its share of the time; delay at the highest."""
    point, high = MODEL.prefactor(0.419, 353.15), MODEL.prefactor(0.8, 353.15)
    both = (0.5 * point**4 + 0.5 * high**4) ** 0.25
    for name, vdd, prefactor, guardband in [
        ("undervolted", 0.419, point, 0.0035),
        ("dvfs", 0.8, both, 0.03),
    ]:
        life = lived(
            [STEADY],
            "baseline",
            environment=environment(name, 0.419),
            delay_guardband=guardband,
        )
        expected = seconds_to_delay(guardband, 1.0, vdd, prefactor)
        assert YEAR < expected < 10 * YEAR
        assert life.end.seconds[0] == pytest.approx(expected, rel=1e-6), name


def test_a_life_that_reaches_the_horizon_is_censored():
    life = lived([STEADY], "baseline", sample=[cell(0), cell(0, 2047), cell(1)])
    assert life.end.cause == [EndCause.CENSORED]
    assert life.end.seconds == [10 * YEAR]
    assert life.degradation.max_dvth_volts[0, 0] == pytest.approx(dvth(10 * YEAR), rel=1e-6)
    ends = YEAR * np.arange(1.0, 11.0)
    assert life.degradation.epoch_max_dvth_volts[0, :, 0] == pytest.approx(dvth(ends), rel=1e-6)
    assert life.degradation.epoch_max_dvth_volts[0, :, 1] == pytest.approx(0.0)
    full = dvth(10 * YEAR)
    expected = [[full, 0], [full, 0], [0, 0]]  # the third cell is never written
    assert life.degradation.sampled_dvth_volts[0] == pytest.approx(np.array(expected), rel=1e-6)
    exact = seconds_to_delay(0.139)
    just_before = lived([STEADY], "baseline", epoch_edges_years=(0.0, exact / YEAR * 0.999))
    assert just_before.end.cause == [EndCause.CENSORED]


def test_after_death_nothing_is_recorded():
    life = lived([STEADY], "baseline", delay_guardband=0.1)
    epochs = int(np.ceil(life.end.seconds[0] / YEAR))
    for history in (life.degradation.epoch_max_dvth_volts[0, :, 0], life.faulty_entries.epoch[0]):
        assert not np.isnan(history[:epochs]).any()
        assert np.isnan(history[epochs:]).all()


@pytest.mark.parametrize(
    ("technique", "guardband"),
    [("baseline", 0.139), ("rc+rar", 0.04), ("rrcd", 0.139), ("rrcd+rc+rar", 0.03)],
)
def test_the_number_of_epochs_does_not_matter_without_faults(technique, guardband):
    tens, twenties = (
        lived(
            [KERNEL],
            technique,
            engine=NUMBA,
            delay_guardband=guardband,
            epoch_edges_years=tuple(np.linspace(0, 10, epochs + 1)),
        )
        for epochs in (10, 20)
    )
    assert tens.end.seconds[0] > YEAR
    assert tens.end.cause[0] == twenties.end.cause[0] == EndCause.DELAY
    for name in (
        "end.seconds",
        "degradation.max_dvth_volts",
        "degradation.longest_duty",
        "writes.fractions",
        "writes.wakeups",
    ):
        expected = pytest.approx(arrays_of(twenties)[name], rel=1e-7)
        assert arrays_of(tens)[name] == expected, name
    assert tens.degradation.epoch_max_dvth_volts[0, 0] == pytest.approx(
        twenties.degradation.epoch_max_dvth_volts[0, 1], rel=1e-7
    )


def test_a_life_of_several_kernels():
    """Two years of '0' and eight of '1' are 0.2 and 0.8 of the life, in whatever order."""
    traces = [steady_trace([ZERO]), steady_trace([~ZERO])]
    orders = np.array([[0, 0] + 8 * [1], 5 * [1] + [0, 0] + 3 * [1]])
    life = lived(traces, "baseline", tail_of({}, {}), kernels=orders)
    for instance in (0, 1):
        assert life.degradation.longest_duty[instance] == pytest.approx([0.2, 0.8])
        expected = [dvth(10 * YEAR, 0.2), dvth(10 * YEAR, 0.8)]
        assert life.degradation.max_dvth_volts[instance] == pytest.approx(expected, rel=1e-6)


def test_events_are_counted_per_write():
    """Of four writes, two wake an entry, one of them as a divergent one that needs a MOV."""
    constant, random = pattern(7), random_values(1)[0]
    events = [
        alloc(0, 0, 1),
        write(10, 0, 0, constant),
        write(20, 0, 0, random),
        write(30, 0, 0, constant),
        write(40, 0, 0, random, lanes=1),
        release(99, 0),
    ]
    trace = trace_of(events, CYCLES)
    life = lived([trace], "rc")
    assert life.writes.fractions[0] == pytest.approx([1, 0, 0, 0])
    assert life.writes.mispredictions[0] == 0
    for technique in ("rc", "rrcd+rc+rar"):  # the latter counts over eight passes
        life = lived([trace], technique)
        assert life.writes.wakeups[0] == pytest.approx(2 / 4)
        assert life.writes.movs[0] == pytest.approx(1 / 4)
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
    weights = growth_weights(starts, ends)
    assert weights.sum(axis=0) == pytest.approx(ends - starts)
    middles = middles_of_growth(starts, ends)

    def rate(time):
        return 2 - 0.5 * time**0.25 + 3 * time**0.5

    for weight, start, middle, end in zip(weights.T, starts, middles, ends, strict=True):
        assert middle == pytest.approx(middle_of_growth(start, end))
        moments = (start, middle, end)
        total = sum(one * rate(moment) for one, moment in zip(weight, moments, strict=True))
        assert total == pytest.approx(quad(rate, start, end)[0])
