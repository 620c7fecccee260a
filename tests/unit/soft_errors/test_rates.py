"""FIT of soft errors: brute force over words and bits, and what must rise or fall with what."""

import tomllib
from functools import cache
from importlib.resources import files
from itertools import combinations, product

import numpy as np
import pytest
from tables import each

from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.protection.codes import Outcome, secded
from mcage.soft_errors.rates import MBIT, Upsets, constants, ranges, runs, soft_errors, upsets

SINGLE = Upsets(100.0, (1.0,))
MIXED = Upsets(100.0, (0.6, 0.3, 0.1))
NAMES = ("corrected", "due", "sdc")


def numbers(errors):
    return np.stack([getattr(errors, name) for name in NAMES])


# Brute force: small codes, whose words are all tried with all stuck cells and all upsets.


@cache
def outcome_shares(code, flipped, hard):
    """Shares of corrected, detected, silent words, over stored words and stuck cells.

    Those that are wrong by their stuck cells alone are left out; their shares come last.
    """
    number = np.arange(1 << code.data_bits)
    words = (number[:, None] >> np.arange(code.data_bits) & 1).astype(bool)
    columns = np.array(code.columns)[:, None] >> np.arange(code.check_bits) & 1
    stored = np.concatenate([words, words @ columns % 2 == 1], axis=1)
    flips = np.isin(np.arange(code.bits), flipped)
    counts, total = np.zeros(5), 0
    for cells in combinations(range(code.bits), hard):
        for values in product((False, True), repeat=hard):
            alone, read = stored.copy(), stored ^ flips
            alone[:, cells] = read[:, cells] = values
            before, after = code.decode(alone ^ stored), code.decode(read ^ stored)
            total += len(stored)
            by_itself = before >= Outcome.DETECTED
            counts[3] += (before == Outcome.DETECTED).sum()
            counts[4] += (before > Outcome.DETECTED).sum()
            if not set(flipped) <= set(cells):
                now = np.minimum(after[~by_itself], Outcome.MISCORRECTED)
                counts[:3] += np.bincount(now, minlength=4)[1:]
    return counts / total


@each("hard, data_bits", [(0, 5), (1, 5), (2, 4)])
@each("interleave", [1, 2])
@each("size", [1, 2, 3, 4])
def test_brute_force_over_words_and_bits(hard, interleave, size, data_bits):
    """Also of parts of an upset at an end of a word, and of stuck cells within it and beside it."""
    code = secded(data_bits)
    expected = np.zeros(3)
    group = interleave * code.bits
    for start in range(group):
        cells = np.zeros((2, code.bits, interleave), dtype=bool)
        cells.reshape(-1)[start : start + size] = True
        for flips in cells.transpose(0, 2, 1).reshape(-1, code.bits):
            if flips.any():
                flipped = tuple(np.flatnonzero(flips).tolist())
                expected += outcome_shares(code, flipped, hard)[:3] / group
    words = [0, 0, 0]
    words[hard] = 1000
    sizes = (0.0,) * (size - 1) + (1.0,)
    errors = soft_errors(words, 0.25, Upsets(60.0, sizes), code, interleave)
    per_word = Upsets(60.0, sizes).events_per_cell * code.bits
    assert numbers(errors) == pytest.approx(250 * per_word * expected, rel=1e-12)
    alone = outcome_shares(code, (), hard)
    assert errors.wrong_due == pytest.approx(250 * alone[3])
    assert errors.wrong_sdc == pytest.approx(250 * alone[4])


@each("size", [1, 2, 3, 7])
@each("interleave", [1, 2, 4, 64])
def test_an_upset_changes_as_many_bits_as_it_has_cells(size, interleave):
    counts = runs(size, 39, interleave)
    assert sum(bits * words for (_, bits), words in counts.items()) == pytest.approx(size)


def test_by_hand_without_a_code():
    """All changes of needed words are silent: bits times rate times AVF."""
    errors = soft_errors([MBIT // 32, 0, 0], 0.5, SINGLE)
    assert numbers(errors).tolist() == pytest.approx([0, 0, 50])


@each(("differing", "detected"), [(0.0, 0), (0.5, 0.5), (1.0, 1)])
def test_a_word_with_a_stuck_cell_detects_what_others_correct(differing, detected):
    """While the stuck cell differs, a change of another cell is a second error."""
    errors = soft_errors([0, 10, 0], 1.0, SINGLE, secded(32), differing=differing)
    changes = 38 / 39 * 10 * (39 * 100 / MBIT)
    expected = [changes * (1 - detected), changes * detected, 0]
    assert numbers(errors) == pytest.approx(expected)
    assert numbers(soft_errors([0, 10, 0], 1.0, SINGLE, secded(32))).sum() == pytest.approx(changes)


def test_words_that_are_wrong_by_themselves():
    code = secded(32)
    errors, three = (soft_errors([*[0] * hard, 8], 0.5, SINGLE, code) for hard in (2, 3))
    assert (errors.wrong_due, errors.wrong_sdc) == (pytest.approx(8 * 0.5 / 4), 0)
    silent = code.shares(3)[Outcome.MISCORRECTED :].sum()
    assert three.wrong_sdc == pytest.approx(8 * 0.5 / 8 * silent)
    assert soft_errors([0, 8, 0], 0.5, SINGLE).wrong_sdc == pytest.approx(8 * 0.5 / 2)


def test_words_all_of_whose_bits_are_stuck():
    """A word of 8 bits; an upset changes nothing there, and so many wrong bits are a code word."""
    code = secded(4)
    errors = soft_errors([0.0] * 8 + [1.0], 1.0, SINGLE, code, differing=1.0)
    assert numbers(errors).tolist() == [0, 0, 0]
    assert errors.wrong_sdc + errors.wrong_due == 1
    assert errors.wrong_sdc == code.shares(8)[Outcome.MISCORRECTED :].sum()


def test_one_call_for_instances_and_epochs():
    rng = np.random.default_rng(3)
    words, avf = rng.integers(0, 1000, (3, 2, 3)), rng.random((3, 1))
    errors = soft_errors(words, avf, MIXED, secded(64), 2)
    assert errors.due.shape == (3, 2)
    for place in np.ndindex(3, 2):
        alone = soft_errors(words[place], avf[place[0], 0], MIXED, secded(64), 2)
        assert numbers(alone) == pytest.approx(numbers(errors)[(slice(None), *place)], rel=1e-12)


@each("node", ["28nm", "16nm"])
def test_rates_rise_as_vdd_falls(node):
    rates = [upsets(node, volts).fit_per_mbit for volts in (1.0, 0.8, 0.6, 0.4)]
    assert (np.diff(rates) > 0).all()
    reference = upsets(node)
    assert reference.fit_per_mbit == constants(node)["fit_per_mbit"]
    assert sum(reference.sizes) == pytest.approx(1)
    assert len(reference.sizes) == constants(node)["most_cells"]
    for name, distribution in ranges(node).items():
        low, high = distribution.bounds
        assert low < constants(node)[name] < high


def test_every_constant_states_where_it_comes_from():
    text = files("mcage").joinpath("data", "soft_errors.toml").read_text(encoding="utf-8")
    for node, table in tomllib.loads(text).items():
        for name, entry in table.items():
            assert {"value", "unit", "status", "source"} <= entry.keys(), (node, name)
            assert entry["status"] in ("printed", "reconstructed", "assumed"), (node, name)
            assert len(entry["source"]) > 5
            low, high = Distribution.of(entry.get("range", 1.0)).bounds
            assert low < high or "range" not in entry


def test_the_voltage_law_meets_the_measured_rise():
    rise = upsets(vdd_volts=0.79).fit_per_mbit / upsets(vdd_volts=0.98).fit_per_mbit
    assert rise == pytest.approx(1.404, abs=2e-3)


@each(
    ("words", "avf", "options", "message"),
    [
        ([1, 2], 0.5, {}, "words_by_hard_faults"),
        ([1, 2, -1], 0.5, {}, "words_by_hard_faults"),
        ([0.0] * 10, 0.5, {"code": secded(4)}, "has 10 counts; words of 8 bits have 0 ... 8 hard"),
        ([1, 2, 3], 1.5, {}, "avf: must be a share"),
        ([1, 2, 3], 0.5, {"differing": -0.1}, "differing: must be a share"),
        ([1, 2, 3], 0.5, {"interleave": 3}, "interleave = 3: must be one of 1, 2"),
    ],
)
def test_bad_numbers_are_refused(words, avf, options, message):
    with pytest.raises(UserError, match=message):
        soft_errors(words, avf, SINGLE, **options)


@each(
    ("made", "message"),
    [
        (lambda: upsets("7nm"), "node '7nm' is unknown; choose from 28nm, 16nm"),
        (lambda: upsets(slope=1.0), "constant 'slope' is unknown"),
        (lambda: upsets(vdd_volts=0.0), "vdd_volts = 0"),
        (lambda: Upsets(1.0, (0.5, 0.4)), "shares of 0 or more"),
        (lambda: Upsets(float("nan"), (1.0,)), "must be 0 or more, and finite"),
    ],
)
def test_upsets_that_cannot_be(made, message):
    with pytest.raises(UserError, match=message):
        made()
