"""Soft errors of lives: by hand from words at risk, kernels, voltages and idle time."""

from unittest import mock

import numpy as np
import pytest
from fault_cases import becomes_faulty_at
from life_cases import YEAR, cell, lived, random_values, steady_trace, tail_of
from sweep_cases import small_sweep
from tables import each

from mcage.aging.environment import environment
from mcage.engines.stress import Turns
from mcage.geometry import GCN
from mcage.protection.policy import protection
from mcage.soft_errors.ace import ace_under
from mcage.soft_errors.rates import soft_errors, upsets
from mcage.studies.sweep.soft_errors import SoftErrorMeter, over_life
from mcage.techniques import TECHNIQUES

ROWS = random_values(3)
WORDS = 256 * 64


def meter(name, avf, **fields):
    given = {"geometry": GCN, "environment": environment("turbo", 0.419)} | fields
    return SoftErrorMeter(np.array(avf), protection=protection(name), **given)


def single(lives):
    """The only kernel, in ten epochs."""
    return Turns(np.zeros((lives, 10, 1), dtype=np.int64), np.ones((lives, 10, 1)))


def test_rates_by_hand():
    """One word at risk when new, two from the fourth year on; two kernels, a quarter idle."""
    tail = tail_of({cell(0, 3): np.inf, cell(1, 40): becomes_faulty_at(3.5 * YEAR)})
    life = lived([steady_trace(ROWS)], "baseline", tail, protection="secded32")
    turns = Turns(np.tile([0, 1], (1, 10, 1)), np.tile([0.25, 0.75], (1, 10, 1)))
    avf = 0.25 * 0.4 + 0.75 * 0.2
    rates = meter("secded32", [0.4, 0.2]).read(life, turns, np.array(0.75))
    assert rates.shape == (3, 1, 10)
    given = protection("secded32")
    for epoch, spent in ((0, 1), (2, 1), (4, 2), (9, 2)):
        counts = [WORDS - spent, spent, 0]
        of = soft_errors(counts, 0.75 * avf, upsets("28nm", 1.0), given.code, 1)
        np.testing.assert_allclose(rates[:, 0, epoch], [of.corrected, of.due, of.sdc])
    assert (rates[1, 0, 4] - rates[1, 0, 0]) > 0
    mean = over_life(rates, life)
    np.testing.assert_allclose(mean, rates.mean(axis=2))


def test_without_a_code_every_error_is_silent_and_follows_the_rate():
    life = lived([steady_trace(ROWS)], "baseline", tail_of({}), protection="ecp1")
    high, low = (
        meter("ecp1", [0.5], fit_per_mbit=100.0, environment=environment(name, 0.419)).read(
            life, single(lives=1), np.array(1.0)
        )
        for name in ("turbo", "undervolted")
    )
    assert not high[:2].any()
    # 0.5 Mbit, half of it needed, 100 FIT/Mbit; upsets of several cells count once a word.
    assert 0.5 * 0.5 * 100 * 0.6 < high[2, 0, 0] < 0.5 * 0.5 * 100
    assert low[2, 0, 0] > 2 * high[2, 0, 0]


def test_nothing_is_said_of_the_dead_and_of_programs():
    tail = tail_of(dict.fromkeys([cell(0, 3), cell(0, 4)], np.inf), {})
    life = lived([steady_trace(ROWS)], "baseline", tail, protection="secded32")
    turns = single(lives=2)
    rates = meter("secded32", [0.5]).read(life, turns, np.array(1.0))
    assert np.isnan(rates[:, 0]).all()
    assert not np.isnan(rates[:, 1]).any()
    assert np.isnan(over_life(rates, life)[:, 0]).all()
    unknown = meter("secded32", [np.nan]).read(life, turns, np.array(1.0))
    assert np.isnan(unknown).all()
    assert np.isnan(over_life(unknown, life)).all()


def test_a_sweep_takes_the_avf_of_its_kernels():
    sweep = small_sweep(techniques=["baseline", "rrcd"], environments=["turbo"], instances=4)
    arrays, plan = sweep.compute(0, 4), sweep.plan
    for place, name in enumerate(("baseline", "rrcd")):
        avf = [ace_under(trace.whole, TECHNIQUES[name]).avf for trace in plan.traces]
        np.testing.assert_allclose(plan._avf[name], avf)
        sdc = arrays["epoch_sdc_fit"][place]
        assert np.nanmax(sdc) == pytest.approx(np.nanmax(arrays["sdc_fit"][place]), rel=0.5)
    alive = ~np.isnan(arrays["sdc_fit"]).any(axis=0)
    assert (
        arrays["sdc_fit"][1, alive] < arrays["sdc_fit"][0, alive]
    ).all()  # fewer bits are needed
    assert not np.nan_to_num(arrays["due_fit"]).any()


@each(
    ("name", "points"),
    [("ecp1", "dvfs"), ("secded32", "turbo"), ("secded64x4+ecp1+spare8", "dvfs")],
)
def test_the_loop_is_the_array_formula(name, points):
    """`soft_errors`, point by point and added up: equal to the last bit."""
    rng, (lives, epochs, kernels) = np.random.default_rng(0), (9, 12, 3)
    faulty = np.floor(rng.random((lives, epochs)) * 257)
    faulty[0, 4:] = np.nan
    spent = np.floor(rng.random((lives, epochs)) ** 4 * 40_000)
    record = {"faulty_entries.epoch": faulty, "uncovered.epoch_words_at_risk": spent}
    outcomes = mock.Mock(**record)
    kernel = rng.integers(0, kernels, (lives, epochs, 9))
    weight = rng.random(kernel.shape) / 2  # so that slices need more than all in places
    activity, avf = rng.random(lives), [0.9, 0.3, 0.7]
    given = meter(name, avf, environment=environment(points, 0.419))
    among = given.environment.points
    fractions = rng.random((len(among), lives)) if len(among) > 1 else None
    computed = given.read(outcomes, Turns(kernel, weight), activity, fractions)

    known, words = ~np.isnan(faulty), GCN.cells // (given.protection.word_bits or 32)
    usable = 1 - np.where(known, faulty, 0) / GCN.entries
    at_risk = np.minimum(spent / np.maximum(usable, 1e-9), words)
    counts = np.stack([words - at_risk, at_risk, 0 * at_risk], axis=-1)
    needed = (weight * np.array(avf)[kernel]).sum(axis=2) * activity[:, None]
    assert (needed > 1).any()
    total = np.zeros((3, lives, epochs))
    for number, point in enumerate(among):
        cells, code = upsets("28nm", point.vdd_volts), given.protection.code
        of = soft_errors(counts, np.minimum(needed, 1), cells, code, given.protection.interleave)
        share = point.time_fraction if fractions is None else fractions[number, :, None]
        total += share * np.stack([of.corrected, of.due, of.sdc])
    np.testing.assert_array_equal(computed, np.where(known, total, np.nan))
