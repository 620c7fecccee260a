"""Workload mixes: how often each kernel runs, and for whom."""

import numpy as np
import pytest
from sweep_cases import SMALL_KERNELS, small_spec, small_sweep
from tables import each

from mcage.errors import UserError
from mcage.random import stream
from mcage.spec import SweepSpec
from mcage.spec.workload_mix import canonical_mix, draw_kernels
from mcage.sweep.kernels import kernels_of_periods

KERNELS = ("a", "b", "c")
MANY = np.arange(3000)


def drawn(mix, periods=4, instances=MANY, seed=1):
    return draw_kernels(canonical_mix(mix), seed, instances, KERNELS, periods)


def shares(kernels):
    return np.bincount(kernels.ravel(), minlength=3) / kernels.size


def test_uniform_is_what_sweeps_have_always_drawn():
    plain = small_spec()
    assert plain.workload.mix == "uniform"
    drawn_before = [
        stream(5, "workload", instance).integers(3, size=3).tolist() for instance in range(9)
    ]
    assert kernels_of_periods(plain, np.arange(9)).tolist() == drawn_before
    assert shares(drawn("uniform")) == pytest.approx(1 / 3, abs=0.02)


def test_weights_are_chances_in_any_order_and_scale():
    kernels = drawn({"b": 1, "c": 7, "a": 2})
    assert shares(kernels) == pytest.approx([0.2, 0.1, 0.7], abs=0.02)
    assert np.array_equal(kernels, drawn("weights(a: 4, b: 2, c: 14)"))


def test_one_kernel_for_life():
    kernels = drawn("one")
    assert (kernels == kernels[:, :1]).all()
    assert shares(kernels) == pytest.approx(1 / 3, abs=0.04)
    assert np.array_equal(kernels[:, :1], drawn("uniform", periods=1))


def test_instances_with_a_taste_of_their_own():
    """Periods of an instance agree with chance (alpha + 1) / (3 alpha + 1), by Polya's urn."""
    for alpha in (0.1, 1.0, 50.0):
        kernels = drawn(f"dirichlet({alpha})")
        assert shares(kernels) == pytest.approx(1 / 3, abs=0.04)
        agree = np.mean(kernels[:, 0] == kernels[:, 1])
        assert agree == pytest.approx((alpha + 1) / (3 * alpha + 1), abs=0.04)


@pytest.mark.parametrize("mix", ["uniform", "one", "dirichlet(0.5)", {"a": 1, "b": 2, "c": 3}])
def test_an_instance_does_not_depend_on_the_others(mix):
    several = np.array([17, 4, 2999])
    assert np.array_equal(drawn(mix, instances=several), drawn(mix)[several])
    assert not np.array_equal(drawn(mix, seed=2), drawn(mix))


@each(
    ("mix", "words"),
    [
        ("", "must be uniform, one"),
        ("two", "must be uniform, one"),
        ("one(3)", "must be uniform, one"),
        ("dirichlet", "must be uniform, one"),
        ("weights", "must be uniform, one"),
        (3, "must be uniform, one"),
        ("dirichlet(0)", "alpha = 0 must be 0.01 ... 1000"),
        ("dirichlet(inf)", "alpha = inf"),
        ("dirichlet(nan)", "alpha = nan"),
        ("dirichlet(a)", "'a' is no number"),
        ("weights(a)", "each kernel once, with its weight"),
        ("weights(a: 1, a: 2)", "each kernel once"),
        ("weights(a: 0)", "weight 0.0 of a must be a number above 0"),
        ({"a": -1}, "weight -1 of a"),
        ({"a": True}, "weight True of a"),
        ({"a": "1"}, "weight '1' of a"),
        ({}, "needs a weight"),
    ],
)
def test_what_is_no_mix(mix, words):
    with pytest.raises(UserError, match=r"^my.toml: workload.mix = ") as refused:
        SweepSpec.from_mapping({"workload": {"mix": mix}}, "my.toml")
    assert words in str(refused.value)


def test_weights_and_kernels_name_each_other():
    first, second, third = SMALL_KERNELS
    kernels = {"kernels": [first, second], "periods": 1}
    for mix, words in [
        ({first: 1, second: 1, third: 1}, f"'{third}' is no kernel of this sweep"),
        ({first: 1}, f"no weight for '{second}'"),
    ]:
        with pytest.raises(UserError, match=words):
            small_sweep(workload={**kernels, "mix": mix})
    twice = {"kernels": [second, first, second]}
    for mix in ("uniform", {first: 1, second: 1}):
        with pytest.raises(UserError, match=f"workload.kernels: names '{second}' twice"):
            small_sweep(workload={**kernels, **twice, "mix": mix})
    weighted = small_spec(workload={**kernels, "mix": {first: 9, second: 1}})
    assert shares(kernels_of_periods(weighted, MANY))[0] == pytest.approx(0.9, abs=0.02)
    assert SweepSpec.from_mapping({}).workload.mix == "uniform"


def test_periods_of_some_years():
    def periods(**workload):
        life = {"epochs": 40, "horizon_years": 8}
        return SweepSpec.from_mapping({"workload": workload, "life": life}, "my.toml").workload

    assert periods(period_years=1).periods == 8
    assert periods(period_years=0.4) == periods(periods=20)
    assert SweepSpec.from_mapping({"workload": {"period_years": 5}}).workload.periods == 2
    for workload, words in [
        ({"period_years": 3}, "workload.period_years = 3 must divide life.horizon_years = 8"),
        ({"period_years": 16}, "must divide"),
        ({"period_years": 0}, "workload.period_years = 0 must be a number above 0"),
        ({"period_years": "1"}, "must be a number above 0"),
        ({"period_years": 1, "periods": 8}, "give one of them"),
    ]:
        with pytest.raises(UserError, match=r"^my.toml: ") as refused:
            periods(**workload)
        assert words in str(refused.value)
