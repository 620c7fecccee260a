"""From slices and SMs to GPUs: when cells are too slow, who dies first, and of what."""

import numpy as np
import pytest
from tables import each

from mcage.gpu.both.combination import BothEnd, Clock, GpuRules, combined, too_slow_years
from mcage.gpu.both.register_files import SliceFates
from mcage.gpu.gating.life import SmHistory
from mcage.lifetime.end_cause import EndCause

AGES = np.array([1.0, 4.0, 10.0])


def fates(fault_years, cause, dvth_at_one_year, root=4):
    """Slices [I, n, k] whose shift grows with a root of time."""
    fault_years = np.array(fault_years, dtype=float)
    ages = np.minimum(AGES, np.where(np.isinf(fault_years), 10.0, fault_years)[..., None])
    dvth = np.array(dvth_at_one_year)[..., None] * ages ** (1 / root)
    began = np.concatenate([[0.0], AGES[:-1]])
    dvth = np.where(began < fault_years[..., None], dvth, np.nan)
    return SliceFates(
        fault_years, np.array(cause, np.int8), ages, dvth, np.full(ages.shape[:3], 0.5)
    )


def history(too_slow_years):
    years = np.array(too_slow_years, dtype=float).T
    return SmHistory(np.ones(years.shape), np.full(years.shape, 350.0), years)


def clock(vt0=(0.3, 0.3), guardband=0.1):
    return Clock(1.0, 1.3, guardband, np.array([vt0]).T)


def rules(spares=0):
    return GpuRules(spares, 4, tuple(AGES))


NEVER = np.inf
CENSORED = EndCause.CENSORED


def test_a_root_of_time_is_met_exactly():
    slices = fates([[[NEVER], [NEVER]]], [[[CENSORED], [CENSORED]]], [[[0.02], [0.04]]])
    limit = np.full((1, 2, 1), 0.05)
    late = too_slow_years(slices, limit, 4)
    assert np.isinf(late[0, 0, 0])
    assert late[0, 1, 0] == pytest.approx((0.05 / 0.04) ** 4, rel=1e-12)


def test_a_slice_that_fails_first_is_never_too_slow():
    slices = fates([[[2.0]]], [[[EndCause.FAULTY_ENTRY]]], [[[0.04]]])
    limit = np.full((1, 1, 1), 0.04 * 3.0**0.25)
    assert np.isinf(too_slow_years(slices, limit, 4)).all()


def test_limit_and_margin_are_of_the_same_clock():
    ticking = clock(vt0=(0.28, 0.33))
    limit = ticking.dvth_limit()
    assert limit.shape == (1, 2, 1)
    assert limit[0, 0, 0] == pytest.approx(limit[0, 1, 0] + 0.05)  # a fast SM has the slack
    margins = ticking.margins(limit[..., None])
    assert margins == pytest.approx(np.full((1, 2, 1, 1), 0.1))
    assert ticking.margins(np.zeros((1, 2, 1, 1))).max() == 0.0


@each(
    ("logic", "faults", "cause", "spares", "life", "end"),
    [
        ([NEVER, NEVER], [[NEVER, NEVER], [NEVER, NEVER]], CENSORED, 0, NEVER, BothEnd.CENSORED),
        ([3.0, 5.0], [[NEVER, NEVER], [NEVER, NEVER]], CENSORED, 0, 3.0, BothEnd.LOGIC_DELAY),
        ([3.0, 5.0], [[NEVER, NEVER], [NEVER, NEVER]], CENSORED, 1, 5.0, BothEnd.LOGIC_DELAY),
        ([3.0, 5.0], [[NEVER, 2.0], [4.0, NEVER]], EndCause.NO_HOME, 0, 2.0, BothEnd.NO_HOME),
        ([3.0, 5.0], [[NEVER, 2.0], [4.0, NEVER]], EndCause.NO_HOME, 1, 4.0, BothEnd.NO_HOME),
        ([3.0, 5.0], [[0.0, 0.0], [6.0, 9.0]], EndCause.FAULTY_ENTRY, 0, 0.0, BothEnd.FAULTY_ENTRY),
    ],
)
def test_who_dies_first(logic, faults, cause, spares, life, end):
    causes = np.where(np.isinf([faults]), CENSORED, cause)
    slices = fates([faults], causes, np.full((1, 2, 2), 1e-3))
    gpu = combined(slices, history([logic]), clock(), rules(spares))
    assert (gpu.life_years[0], gpu.cause[0]) == (life, end)
    assert gpu.fault_years[0] == np.sort(np.min(faults, axis=1))[spares]
    assert np.isinf(gpu.cell_delay_years[0])


def test_cells_too_slow_end_a_life():
    slices = fates([[[NEVER], [NEVER]]], [[[CENSORED], [CENSORED]]], [[[0.04], [0.041]]])
    limit = float(clock().dvth_limit()[0, 0, 0])
    gpu = combined(slices, history([[NEVER, NEVER]]), clock(), rules(0))
    assert gpu.life_years[0] == pytest.approx((limit / 0.041) ** 4)
    assert gpu.cause[0] == BothEnd.CELL_DELAY
    assert gpu.max_dvth_volts[0] == pytest.approx(0.041 * AGES**0.25)


def test_margins_are_of_slices_that_live():
    faults = [[[2.0], [NEVER]]]
    causes = [[[EndCause.NO_HOME], [CENSORED]]]
    slices = fates(faults, causes, [[[0.05], [0.01]]])
    gpu = combined(slices, history([[NEVER, NEVER]]), clock(), rules(1))
    assert gpu.max_dvth_volts[0] == pytest.approx([0.05, 0.05 * 2.0**0.25, 0.01 * 10.0**0.25])
    gpu = combined(slices, history([[NEVER, NEVER]]), clock(), rules(0))
    assert gpu.max_dvth_volts[0] == pytest.approx([0.05, np.nan, np.nan], nan_ok=True)
    assert np.isnan(gpu.cell_margin[0]).tolist() == [False, True, True]
    gone = fates([[[0.0]]], [[[EndCause.NO_HOME]]], [[[0.05]]])
    gpu = combined(gone, history([[NEVER]]), clock(vt0=(0.3,)), rules(0))
    assert np.isnan(gpu.cell_margin).all()
