"""When a GPU is exchanged, against a program that counts word by word."""

import io
import json
import random
import tomllib
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_campaign import HORIZON_YEARS, opened, write
from scipy.stats import binom, poisson
from tables import each

from mcage.errors import UserError
from mcage.gpu.exchange import (
    DetectedSoftErrors,
    ExchangeRule,
    UncorrectableWords,
    gpu_years,
    per_year_of_fit,
    sm_years,
    soft_errors,
    words_allowed,
)
from mcage.lifetime import EndCause
from mcage.stats.estimates import proportion

NEVER = np.inf


def rule(words=2, **fields):
    return ExchangeRule(words, **({"sms": 2, "slices_per_sm": 2} | fields))


# The rule, on cases by hand.


def test_numbers_are_those_of_the_vendor():
    assert (words_allowed("secded"), words_allowed("parity"), words_allowed(7)) == (2, 4, 7)
    given = ExchangeRule()
    assert (given.words, given.sms, given.slices_per_sm, given.banks) == (2, 132, 4, 4)
    constants = tomllib.loads(files("mcage").joinpath("data", "exchange.toml").read_text())
    for table in constants.values():
        for constant in table.values():
            assert set(constant) == {"value", "unit", "status", "source"}


@each(
    ("fields", "words"),
    [
        ({"rule": "ecc"}, "rule = 'ecc'"),
        ({"rule": "1001"}, "0 ... 1000"),
        ({"slices_per_sm": 65}, "slices_per_sm = 65"),
        ({"banks_per_sm": 3}, "banks_per_sm = 3"),
        ({"banks_per_sm": 10**9}, "banks_per_sm = 1000000000: .* up to 6,144"),
        ({"slices_per_sm": 1, "banks_per_sm": 1537}, "banks_per_sm = 1537"),
        ({"spare_sms": 132}, "spare_sms = 132"),
    ],
)
def test_bad_rules_are_refused(fields, words):
    with pytest.raises(UserError, match=words):
        ExchangeRule(**fields)


def test_too_few_words_are_refused():
    """The last of the known words may be followed by another one, which decides."""
    years = np.array([[1.0, 2.0], [NEVER, NEVER]])
    with pytest.raises(UserError, match="first 2 uncorrectable words of a slice are not enough"):
        sm_years(UncorrectableWords(years), rule(2))
    assert sm_years(UncorrectableWords(years), rule(1)).tolist() == [2.0]
    assert sm_years(UncorrectableWords(years[:, :1]), rule(0)).tolist() == [1.0]
    by_then = np.array([[1.0, 2.0], [0.5, 0.7]])  # another slice decides before that
    assert sm_years(UncorrectableWords(by_then), rule(1)).tolist() == [0.7]


@each("years", [[[2.0, 1.0]], [[-1.0, 1.0]], [[np.nan, 1.0]]])
def test_ages_that_fall_are_refused(years):
    with pytest.raises(UserError, match="must not fall"):
        UncorrectableWords(np.array(years))


# Against brute force: every word of random GPUs, one after the other.


def brute_force(words, soft, asked):
    """Age at which a GPU is exchanged; words by slice: (age, address, entry) in their order."""
    given_up = []
    for sm in range(asked.sms):
        counted, ends = Counter(), []
        events = []
        for place in range(asked.slices_per_sm):
            number = sm * asked.slices_per_sm + place
            events += [(age, place, *where) for age, *where in words[number] + soft[number]]
        met = set()
        for age, place, address, entry in sorted(events):
            if (place, address) in met:
                continue
            met.add((place, address))
            if asked.banks >= asked.slices_per_sm:
                parts = asked.banks // asked.slices_per_sm
                bank = place, entry % parts
            else:
                bank = place * asked.banks // asked.slices_per_sm
            counted[bank] += 1
            if counted[bank] > asked.words:
                ends.append(age)
        given_up.append(min(ends, default=NEVER))
    return sorted(given_up)[asked.spare_sms]


def arrays(words, ranks):
    years, entries = np.full((len(words), ranks), np.nan), np.full((len(words), ranks), -1)
    for place, of_slice in enumerate(words):
        years[place, : len(of_slice)] = [age for age, _, _ in of_slice]
        entries[place, : len(of_slice)] = [entry for _, _, entry in of_slice]
    return years, entries


@each("number", range(200))
def test_random_gpus_are_exchanged_when_words_are_counted_one_by_one(number):
    draw = random.Random(number)
    slices = draw.choice([1, 2, 4])
    sms = draw.randint(1, 4)
    asked = ExchangeRule(
        draw.randint(0, 3),
        sms=sms,
        slices_per_sm=slices,
        banks_per_sm=draw.choice([None, 1, slices, 2 * slices, 7 * slices, 1536 * slices]),
        spare_sms=draw.randint(0, sms - 1),
    )
    ranks, words, soft = 8, [], []
    for _ in range(asked.slices):
        ages = sorted(draw.randint(0, 12) / 2 for _ in range(draw.randint(0, ranks - 1)))
        words.append([(age, rank, draw.randrange(5)) for rank, age in enumerate(ages)])
        addresses = draw.sample(range(16), 3)
        at = sorted(draw.randint(0, 12) / 2 for _ in addresses)
        soft.append([(age, where, where % 5) for age, where in zip(at, addresses, strict=True)])
    years, entries = arrays(words, ranks)
    shape = asked.slices, -1, 3
    times, addresses, places = np.moveaxis(np.array(soft, float).reshape(shape), 2, 0)
    detected = DetectedSoftErrors(times, addresses.astype(int), places.astype(int))
    for of_slice, events in zip(words, soft, strict=True):  # a hard word has the entry that it has
        events[:] = [
            (age, where, of_slice[where][2] if where < len(of_slice) else place)
            for age, where, place in events
        ]
    given_up = sm_years(UncorrectableWords(years, entries), asked, detected)
    assert gpu_years(given_up, asked.spare_sms) == brute_force(words, soft, asked)


# Soft errors: a Poisson process, whose errors count once an address.


def test_soft_errors_are_a_poisson_process():
    """Mean and variance of counts; each within 4.4 standard errors: 1 false alarm in 50,000."""
    count, rate, years = 20_000, 0.3, 5.0
    rates = np.full(count, rate)
    soft = soft_errors(3, np.arange(count), rates, years, (256, 64), 40)
    numbers = np.isfinite(soft.years).sum(axis=1)
    mean = rate * years
    assert abs(numbers.mean() - mean) < 4.4 * np.sqrt(mean / count)
    error = np.sqrt((mean + 2 * mean**2) / count)
    assert abs(numbers.var() - mean) < 4.4 * error
    at = soft.years[np.isfinite(soft.years)]
    assert abs(at.mean() - years / 2) < 4.4 * years / np.sqrt(12 * at.size)
    entries = soft.entries[np.isfinite(soft.years)]
    assert entries.min() == 0
    assert abs(entries.mean() - 127.5) < 4.4 * 256 / np.sqrt(12 * entries.size)


def test_soft_errors_are_functions_of_seed_and_slice():
    ids, rates = np.arange(50), np.full(50, 1.0)
    soft = soft_errors(3, ids, rates, 5.0, (256, 64), 5)
    part = soft_errors(3, ids[20:], rates[20:], 5.0, (256, 64), 5)
    np.testing.assert_array_equal(soft.years[20:], part.years)
    np.testing.assert_array_equal(soft.addresses[20:], part.addresses)
    slower = soft_errors(3, ids, rates / 2, 10.0, (256, 64), 5)
    np.testing.assert_allclose(slower.years, 2 * soft.years)
    assert not np.array_equal(soft_errors(4, ids, rates, 5.0, (256, 64), 5).years, soft.years)


def test_an_address_counts_once():
    """A slice of four words can have no fifth, however many errors there are."""
    soft = soft_errors(1, np.arange(30), np.full(30, 100.0), 10.0, (2, 2), 9)
    assert soft.years.shape == (30, 4)
    assert all(sorted(addresses) == [0, 1, 2, 3] for addresses in soft.addresses.tolist())
    assert (np.diff(soft.years) > 0).all()
    assert soft.entries.tolist() == (soft.addresses // 2).tolist()


def test_no_error_without_a_rate():
    soft = soft_errors(1, np.arange(2), np.zeros(2), 10.0, (256, 64), 3)
    assert np.isinf(soft.years).all()
    years = np.array([[1.0, 2.0, NEVER]] * 2)
    assert sm_years(UncorrectableWords(years), rule(1), soft).tolist() == [2.0]


@each(("words", "banks"), [(2, 4), (4, 4), (2, 1), (1, 8)])
def test_soft_errors_exceed_banks_as_often_as_in_closed_form(words, banks):
    """The formula of docs/exchange.md; 1 false alarm in 90,000 for each case."""
    slices, per_slice = 12_000, 0.9
    soft = soft_errors(8, np.arange(slices), np.full(slices, 0.3), 3.0, (256, 64), 2 * words + 1)
    asked = ExchangeRule(words, slices_per_sm=4, banks_per_sm=banks)
    nothing = np.empty((slices, 0))
    words_of_slices = UncorrectableWords(nothing, nothing.astype(int), np.full(slices, NEVER))
    given_up = sm_years(words_of_slices, asked, soft)
    share = -np.expm1(banks * np.log1p(-poisson.sf(words, 4 * per_slice / banks)))
    error = np.sqrt(share * (1 - share) / given_up.size)
    assert abs(np.isfinite(given_up).mean() - share) < 4.4 * error


def test_rates_are_events_in_a_billion_hours():
    assert per_year_of_fit(1e9 / 8760) == pytest.approx(1.0)


# Shares of GPUs of a results file.

AGES = [0.0, 2.0, HORIZON_YEARS]
RANKS = 4


def ages_of_words(instances, seed=5):
    """Ages of words that follow a Poisson process of each slice: [case, instance, rank]."""
    draw = np.random.default_rng(seed)
    ages = np.cumsum(draw.exponential(12.0, (3, instances, RANKS)), axis=2)
    return np.where(ages < HORIZON_YEARS, ages, np.nan)


results = opened(240)


def of_sms(years, dead, words):
    """Ages of SMs of two slices, each a bank: by words, and by dead slices."""
    beyond = np.where(np.isnan(years), NEVER, years)[:, words]
    return beyond.reshape(-1, 2).min(axis=1), dead.reshape(-1, 2).min(axis=1)


def test_shares_follow_from_independent_sms(results):
    years = ages_of_words(240)
    frame = results.mcage.exchanged(
        AGES, years=years, rule="secded", sms=6, slices_per_sm=2, spare_sms=1
    )
    assert frame["dies"].eq(0).all()
    assert frame["simulated_sms"].eq(120).all()
    lives, ends = results["life_years"].values, results["end_cause"].values
    lines = frame.itertuples()
    for case in range(3):
        dead = np.where(ends[case] != EndCause.CENSORED, lives[case], NEVER)
        by_words, by_death = of_sms(years[case], dead, 2)
        for age in AGES:
            line = next(lines)
            assert line.age_years == age
            for name, of in {
                "exchanged": by_words,
                "with_dead_slices": by_death,
                "either": np.minimum(by_words, by_death),
            }.items():
                expected = binom.sf(1, 6, np.mean(of <= age))
                assert getattr(line, name) == pytest.approx(expected, abs=1e-12)
                assert getattr(line, f"{name}_lower") <= getattr(line, name)
                assert getattr(line, name) <= getattr(line, f"{name}_upper")


of_dies = opened(100, spec_toml="[faults]\nsigma_die_volts = 0.01\nslices_per_chip = 8\n")


def test_where_dies_differ_a_gpu_is_a_die(of_dies):
    """Dies of eight slices; the last four slices make no whole one."""
    years = ages_of_words(100)
    asked = {"rule": 1, "sms": 4, "slices_per_sm": 2, "spare_sms": 1}
    with pytest.warns(UserWarning, match="8 slices share each die"):
        of_dies.mcage.survival()
    frame = of_dies.mcage.exchanged(AGES, years=years, **asked)
    assert set(zip(frame["dies"], frame["slices_left_out"], strict=True)) == {(12, 4)}
    lines = frame.itertuples()
    for case in range(3):
        beyond = np.where(np.isnan(years[case]), NEVER, years[case])[:96, 1]
        gpus = np.sort(beyond.reshape(12, 4, 2).min(axis=2), axis=1)[:, 1]
        for age in AGES:
            assert next(lines).exchanged == np.mean(gpus <= age)
    # Of a part of the slices only whole dies count: here the second one has been cut.
    part = of_dies.isel(instance=[*range(8), *range(9, 24)])
    frame = part.mcage.exchanged(AGES, years=years[:, [*range(8), *range(9, 24)]], **asked)
    assert set(zip(frame["dies"], frame["slices_left_out"], strict=True)) == {(2, 7)}


@each(
    ("fields", "words"),
    [
        ({"sms": 6, "slices_per_sm": 2}, "dies differ and 8 slices shared each"),
        ({"sms": 4, "slices_per_sm": 2, "due_fit": -1.0}, "due_fit = -1"),
        ({"sms": 4, "slices_per_sm": 2, "confidence": 1.0}, "confidence = 1"),
        ({"sms": 4, "slices_per_sm": 2, "ages_years": [11.0]}, "age 11 years"),
        ({"sms": 4, "slices_per_sm": 2, "banks_per_sm": 4}, "no variable uncorrectable_entry"),
    ],
)
def test_what_cannot_be_answered_is_refused(of_dies, fields, words):
    with pytest.raises(UserError, match=words):
        of_dies.mcage.exchanged(**({"years": ages_of_words(100)} | fields))


def test_ages_of_words_must_be_there(results, tmp_path, refusal):
    results = results.drop_vars(["uncorrectable_years", "uncorrectable_entry"])
    with pytest.raises(UserError, match="there is no variable uncorrectable_years"):
        results.mcage.exchanged()
    with pytest.raises(UserError, match=r"has the shape \(3, 5, 4\), expected \(3, 240,"):
        results.mcage.exchanged(years=ages_of_words(5))
    few = results.isel(instance=slice(0, 30))
    with pytest.raises(UserError, match="30 slices make no whole SM of 64"):
        few.mcage.exchanged(years=ages_of_words(30), slices_per_sm=64)
    back = results.isel(instance=[1, 0])
    with pytest.raises(UserError, match="rising order"):
        back.mcage.exchanged(years=ages_of_words(2), slices_per_sm=1)
    draws = results.assign_attrs(spec="[draws]\nfile = 'x'\n")
    with pytest.raises(UserError, match="same draw of the constants"):
        draws.mcage.exchanged(years=ages_of_words(240))
    write(tmp_path / "r.h5", (8,))
    assert "rule = 'x'" in refusal("gpu", "exchange", "r.h5", "--rule", "x")


def protected(results, guards):
    """Results whose cases have other protections."""
    parts = [name for name in results.xindexes if results[name].dims == ("case",)]
    parts.remove("case")
    return results.drop_indexes(parts).assign_coords(protection=("case", guards))


def recorded(results):
    """Results with ages and entries of words, as a sweep will record them."""
    years = ages_of_words(240, 6)
    entries = np.random.default_rng(6).integers(0, 6, years.shape)
    dims = ("case", "instance", "uncorrectable_rank")
    fields = {"uncorrectable_years": years, "uncorrectable_entry": entries}
    results = results.drop_vars([*fields, "uncorrectable_rank"])
    results = protected(results, ["secded32"] * results.sizes["case"])
    return results.assign({name: (dims, values) for name, values in fields.items()})


def test_words_that_nothing_counts_are_unknown(results, tmp_path):
    with pytest.raises(UserError, match="no case of these results has a code"):
        results.mcage.exchanged(AGES)
    of_file = recorded(results)
    guards = of_file["protection"].values.tolist()
    guards[1] = "ecp1"
    mixed = protected(of_file, guards)
    frames = [of.mcage.exchanged(AGES, rule=1, sms=6, slices_per_sm=2) for of in (of_file, mixed)]
    unknown = frames[1]["case"] == of_file["case"].values[1]
    assert frames[1][~unknown].equals(frames[0][~unknown])
    assert frames[1].loc[unknown, ["exchanged", "either", "either_upper"]].isna().all(axis=None)
    assert frames[1]["with_dead_slices"].equals(frames[0]["with_dead_slices"])


def test_words_of_the_file_are_those_of_the_argument(results):
    of_file = recorded(results)
    years = of_file["uncorrectable_years"].values
    asked = {"rule": 1, "sms": 6, "slices_per_sm": 2}
    expected = results.mcage.exchanged(AGES, years=years, **asked)
    assert of_file.mcage.exchanged(AGES, **asked).equals(expected)
    for banks, sooner in ((4, -1), (1, 1)):  # the smaller a bank, the later it is full
        shares = of_file.mcage.exchanged(AGES, **asked, banks_per_sm=banks)["exchanged"]
        assert (sooner * (shares - expected["exchanged"]) >= 0).all()
        assert 0 < shares.iloc[-1] < 1
    turned = of_file.transpose("uncorrectable_rank", ...)
    assert turned.mcage.exchanged(AGES, **asked).equals(expected)
    part = of_file.isel(case=[2], instance=slice(0, 60)).mcage.exchanged(AGES, **asked)
    given = results.isel(case=[2], instance=slice(0, 60))
    assert part.equals(given.mcage.exchanged(AGES, years=years[2:, :60], **asked))


def test_soft_errors_bring_exchanges_forward(results):
    nothing = np.full((3, 240, 1), np.nan)
    asked = {"rule": 0, "sms": 1, "slices_per_sm": 2, "due_fit": 2000.0}
    frame = results.mcage.exchanged([HORIZON_YEARS], years=nothing, **asked)
    assert frame["exchanged"].nunique() == 1  # the same errors in all cases
    share = -np.expm1(-2 * per_year_of_fit(2000.0) * HORIZON_YEARS)
    error = np.sqrt(share * (1 - share) / 120)
    assert abs(frame["exchanged"].iloc[0] - share) < 4.4 * error  # 1 false alarm in 90,000


def test_the_command_prints_what_the_accessor_computes(results, command, monkeypatch):
    of_file = recorded(results)
    monkeypatch.setattr("mcage.report.cases.open_results", lambda path: of_file)
    write(Path("r.h5"), (240,))
    options = ("--sms", 6, "--slices-per-sm", 2, "--at", 2, "--at", 10, "--spare-sms", 1)
    code, out, _ = command("gpu", "exchange", "r.h5", *options, "--csv")
    assert code == 0
    frame = of_file.mcage.exchanged([2.0, 10.0], sms=6, slices_per_sm=2, spare_sms=1)
    printed = pd.read_csv(io.StringIO(out))
    pd.testing.assert_frame_equal(printed[frame.columns], frame)
    _, out, _ = command("gpu", "exchange", "r.h5", *options, "--json")
    assert json.loads(out)[0]["shares"][1]["either"]["value"] == frame["either"].iloc[1]
    _, out, _ = command("gpu", "exchange", "r.h5", *options)
    assert "GPUs of 6 SMs with 2 slices, 1 SMs to spare" in out
    assert "made of independent SMs, of which 120 were simulated" in " ".join(out.split())


# Intervals cover a simulated truth as often as Wilson's do for a binomial share.


def exceeded(rate, years):
    """Share of the banks with more than a word by an age; words come at a rate."""
    return -np.expm1(-rate * years) - rate * years * np.exp(-rate * years)


def coverage(count, share):
    """How often Wilson's interval covers a share of so many."""
    hits = np.arange(count + 1)
    bounds = [proportion(int(n), count) for n in hits]
    covers = np.array([b.lower <= share <= b.upper for b in bounds])
    return float(binom.pmf(hits, count, share)[covers].sum())


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
def test_intervals_cover(results, of_dies, dies):
    """False alarm once in 10,000 for either population; the truth is exact in both.

    Where dies differ, half of them have words at ten times the rate of the others: intervals that
    took slices for independent would miss the truth in a quarter of the samples.
    """
    age, rate, repeats, hits = 4.0, 0.05, 20, 0
    of, sms = (of_dies, 4) if dies else (results, 6)
    slices = of.sizes["instance"]
    rates = np.array([0.02, 0.2]) if dies else np.array([rate])
    of_sms = 1 - (1 - exceeded(rates, age)) ** 2
    truth = float(binom.sf(1 if not dies else 0, sms, of_sms).mean())
    draw = np.random.default_rng(11)
    for _ in range(repeats):
        ages = draw.exponential(1.0, (3, slices, RANKS)).cumsum(axis=2)
        if dies:
            of_each = draw.choice(rates, (3, slices // 8 + 1)).repeat(8, axis=1)[:, :slices]
            ages = ages / of_each[..., None]
        else:
            ages = ages / rate
        years = np.where(ages <= HORIZON_YEARS, ages, np.nan)
        frame = of.mcage.exchanged(
            [age], years=years, rule=1, sms=sms, slices_per_sm=2, spare_sms=0 if dies else 1
        )
        hits += int(
            frame["exchanged_lower"].le(truth).mul(frame["exchanged_upper"].ge(truth)).sum()
        )
    expected = coverage(12, truth) if dies else coverage(120, float(of_sms[0]))
    assert expected > 0.9
    assert binom.cdf(hits, 3 * repeats, expected) > 5e-5
    assert binom.sf(hits - 1, 3 * repeats, expected) > 5e-5
