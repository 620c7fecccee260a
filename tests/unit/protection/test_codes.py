"""Do the codes do what SECDED promises, and what three and more wrong bits do as counted?"""

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from tables import each

from mcage.errors import UserError
from mcage.protection.codes import Code, Outcome, secded

ALIASES = {32: (0.596565, 0.0165712), 64: (0.562844, 0.00815716)}
"""Of (39,32) and (72,64): shares of three wrong bits that are miscorrected, of four that nobody
sees. Of (72,64), Hsiao's paper has 56.28 % and 0.8157 %."""


def patterns(bits, size):
    """All error patterns of so many wrong bits: bool[patterns, bits]."""
    chosen = np.array(list(combinations(range(bits), size)), dtype=np.int64)
    errors = np.zeros((len(chosen), bits), dtype=bool)
    np.put_along_axis(errors, chosen.reshape(len(chosen), size), True, axis=1)
    return errors


def check_bits_of(code, word):
    """Check bits of an integer, column by column."""
    check = 0
    for bit, column in enumerate(code.columns):
        check ^= column * (word >> bit & 1)
    return check


def row_weights(code):
    """Ones of each row of the parity-check matrix, check bits included."""
    return (code.all_columns[:, None] >> np.arange(code.check_bits) & 1).sum(axis=0)


@each("data_bits", [32, 64])
def test_the_codes_of_register_files(data_bits):
    code = secded(data_bits)
    assert code.name == {32: "(39,32)", 64: "(72,64)"}[data_bits]
    assert np.ptp(row_weights(code)) <= 1
    weights = [column.bit_count() for column in code.columns]
    assert weights == sorted(weights)
    assert weights.count(3) == {32: 32, 64: 56}[data_bits]
    assert secded(data_bits) == code


@each("data_bits", [4, 8, 16, 32, 64])
def test_any_wrong_bit_is_corrected_and_any_two_are_detected(data_bits):
    code = secded(data_bits)
    assert (code.decode(patterns(code.bits, 0)) == Outcome.RIGHT).all()
    assert (code.decode(patterns(code.bits, 1)) == Outcome.CORRECTED).all()
    assert (code.decode(patterns(code.bits, 2)) == Outcome.DETECTED).all()


@each("size", [3, 4])
@each("data_bits", [4, 8, 16, 32])
def test_alias_rates_are_those_of_all_patterns(data_bits, size):
    code = secded(data_bits)
    outcomes = code.decode(patterns(code.bits, size))
    counts = np.bincount(outcomes, minlength=len(Outcome))
    assert np.allclose(code.shares(size), counts / comb(code.bits, size), rtol=1e-14, atol=0)


@each("data_bits", [32, 64])
def test_published_alias_rates(data_bits):
    code = secded(data_bits)
    rates = [code.shares(wrong)[Outcome.MISCORRECTED :].sum() for wrong in (3, 4)]
    assert rates == pytest.approx(ALIASES[data_bits], rel=1e-5)
    assert code.shares(3)[Outcome.UNDETECTED] == 0
    assert code.shares(4)[Outcome.MISCORRECTED] == 0


@each("wrong", range(14))
def test_shares_of_outcomes_add_up(wrong):
    assert secded(8).shares(wrong).sum() == pytest.approx(1)


@each("data_bits", [32, 64])
def test_check_bits_are_those_of_the_columns(data_bits):
    code = secded(data_bits)
    words = np.random.default_rng(1).integers(0, 2**32, (3, 5, 8), dtype=np.uint32)
    check = code.check(words)
    size = data_bits // 32
    assert check.shape == (3, 5, 8 // size)
    for place in product(range(3), range(5), range(8 // size)):
        parts = words[place[:2]][place[2] * size :][:size]
        word = sum(int(part) << 32 * number for number, part in enumerate(parts))
        assert check[place] == check_bits_of(code, word)


def test_a_pair_has_its_lower_component_first():
    code = secded(64)
    assert code.check(np.array([1, 0], np.uint32)) == code.columns[0]
    assert code.check(np.array([0, 1], np.uint32)) == code.columns[32]


def nearest(code_words, read):
    """What a decoder that knows all code words makes of what it reads: the word, or detected.

    Distances of read words bool[..., bits] from code words bool[words, bits]; of two words of a
    SECDED code at most one is within a distance of 1.
    """
    distance = np.count_nonzero(read[..., None, :] ^ code_words, axis=-1)
    return np.where(distance.min(axis=-1) <= 1, distance.argmin(axis=-1), -1)


def test_hard_and_soft_faults_of_a_word_add_up():
    """The model of soft errors in words with hard faults, on all of them of a small code.

    All words, with up to three cells stuck at all values and up to two soft flips. What is wrong
    are the stuck cells that differ from the stored bit, and the flips of cells that are not stuck:
    of none the word is right, of one it is corrected, two are detected.
    """
    code = secded(4)
    words = np.array([word | check_bits_of(code, word) << 4 for word in range(16)])
    stored = words[:, None, None] >> np.arange(code.bits) & 1 == 1  # [words, flips, bits]
    flips = np.concatenate([patterns(code.bits, size) for size in range(3)])
    seen = set()
    for stuck in np.concatenate([patterns(code.bits, size) for size in range(4)]):
        for values in product((False, True), repeat=int(stuck.sum())):
            read = stored ^ flips
            read[..., stuck] = values
            differ = np.count_nonzero(stored[..., stuck] != values, axis=-1)
            wrong = differ + np.count_nonzero(flips & ~stuck, axis=-1)
            outcome = code.decode(read ^ stored)
            assert (outcome[wrong <= 2] == wrong[wrong <= 2]).all()
            assert (outcome[wrong > 2] >= Outcome.DETECTED).all()
            decoded = nearest(stored[:, 0], read)
            right = decoded == np.arange(16)[:, None]
            assert (right == (outcome <= Outcome.CORRECTED)).all()
            assert ((decoded < 0) == (outcome == Outcome.DETECTED)).all()
            seen |= {(len(values), number) for number in differ.ravel().tolist()}
    assert seen == {(hard, differ) for hard in range(4) for differ in range(hard + 1)}


def test_columns_of_a_code_are_odd_and_distinct():
    for columns in [(3, 7), (7, 7), (7,), (7, 16), (7, 4)]:
        with pytest.raises(UserError, match=r"code \(6,2\): columns must be 2 distinct"):
            Code(2, 4, columns)


def test_bad_numbers_are_refused():
    with pytest.raises(UserError, match=r"words of 121 bits; must be 1 \.\.\. 120"):
        secded(121)
    assert secded(120).check_bits == 8
    with pytest.raises(UserError, match="7 components of 32 bits cannot be divided"):
        secded(64).check(np.zeros((2, 7), np.uint32))
    with pytest.raises(UserError, match=r"40 wrong bits; must be 0 \.\.\. 39"):
        secded(32).shares(40)
