"""Check cells: what writes store in them, how they age, and that they end lives, on all engines."""

import dataclasses
import random
from itertools import cycle, product

import numpy as np
import pytest
from engine_cases import (
    NUMBA,
    NUMPY,
    assert_same,
    cuda_engine,
    daily,
    seeded_fault_maps,
    with_full_masks,
)
from fault_cases import assert_ends_at, becomes_faulty_at
from life_cases import (
    YEAR,
    alternating_trace,
    arrays_of,
    cell,
    lived,
    random_values,
    steady_trace,
    tail_of,
)
from sweep_cases import small_sweep
from trace_strategies import SPILLING, pattern, random_trace

from mcage.geometry import GCN
from mcage.lifetime import EndCause
from mcage.protection.codes import secded
from mcage.replays.prepare import prepare
from mcage.replays.stored_values import check_bits_of, stored_values_of
from mcage.techniques import TECHNIQUES, Storage

CHECK = GCN.cells
PLAIN = [name for name, it in TECHNIQUES.items() if it.storage is Storage.PLAIN]


def check_bits(word, code):
    """Check bits of a word by the definition: the sum of the columns of its ones."""
    result = 0
    for bit, column in enumerate(code.columns):
        if word >> bit & 1:
            result ^= column
    return result


def in_all_bytes(values, code):
    """Contents of check cells, word by word: every byte holds the check bits, and fills up."""
    size, result = code.data_bits // 32, np.empty_like(values)
    for row, value in enumerate(values.tolist()):
        for first in range(0, len(value), size):
            word = sum(value[first + k] << 32 * k for k in range(size))
            byte = check_bits(word, code)
            byte |= (byte & 1) << 7 if code.check_bits == 7 else 0
            result[row, first : first + size] = byte * 0x01010101
    return result


@pytest.mark.parametrize("technique", PLAIN)
@pytest.mark.parametrize("bits", [32, 64])
def test_times_are_those_of_a_trace_of_check_bits(technique, bits):
    """Where nothing is compressed: replay a trace that has check bits in place of its values."""
    code = secded(bits)
    trace = with_full_masks(random_trace(random.Random(3), **SPILLING))
    of_check = dataclasses.replace(trace, values=in_all_bytes(trace.values, code))
    maps = seeded_fault_maps(4)[:2]
    maps[0] = 0
    replays = (
        prepare(trace, TECHNIQUES[technique], code=code),
        prepare(of_check, TECHNIQUES[technique]),
    )
    actual, expected = (NUMPY.cell_times(replay, maps) for replay in replays)
    np.testing.assert_array_equal(actual.ones, expected.ones)
    np.testing.assert_array_equal(actual.powered, expected.powered)
    assert actual.ones.any()


@pytest.mark.parametrize("bits", [32, 64])
def test_what_compressed_values_store(bits):
    """Of a record: check bits of its base, and of its fifth byte; both in one word of 64 bits."""
    code = secded(bits)
    values = np.stack([random_values(1)[0], pattern(0x1234567, 4, 32)])
    value, lanes = np.array([0, 1, 1]), np.array([GCN.all_lanes, GCN.all_lanes, np.uint64(0b101)])
    compressed = np.array([False, True, False])
    stored = stored_values_of(values, GCN, value, lanes, compressed, Storage.BLOCK)
    check = check_bits_of(stored, code)
    whole = in_all_bytes(values, code)
    np.testing.assert_array_equal(check.contents[check.image[[0, 2]]], whole[[0, 1]])
    record = np.zeros((1, 64), dtype=np.uint32)
    record[0, :2] = values[1, 0], stored.record_code[1]
    of_record = in_all_bytes(record, code)[0]
    assert check.contents[check.image[1], 0] == of_record[0]
    assert check.record_code[1] == of_record[1] & 0xFF
    # Lanes 0 and 2 are written: words 0 and 2, or the pairs 0 and 1, 2 and 3.
    written = np.flatnonzero(check.masks[check.mask[2]])
    assert written.tolist() == ([0, 2] if bits == 32 else [0, 1, 2, 3])
    inline = stored_values_of(values, GCN, value, lanes, compressed, Storage.INLINE)
    regions = check_bits_of(inline, code).region_masks
    # Each word is powered with the first region that touches it, and with no other.
    assert ((regions != 0).sum(axis=0) == 1).all()
    assert set(np.unique(regions)) == {0, 0xFFFF_FFFF}


@pytest.mark.parametrize(
    ("name", "bits"),
    daily(product(TECHNIQUES, (32, 64)), [*zip(TECHNIQUES, cycle((32, 64)), strict=False)]),
)
def test_engines_agree_on_check_cells(name, bits):
    technique = TECHNIQUES[name]
    trace = random_trace(random.Random(8), **SPILLING)
    replay = prepare(trace, technique, code=secded(bits))
    engines = [NUMBA] if technique.packs else [NUMBA, cuda_engine()]
    assert_same(engines, replay, seeded_fault_maps(2))


# ---- lives -------------------------------------------------------------------------------------

ROWS = random_values(3)


@pytest.mark.parametrize(
    ("faulty", "dies"),
    [
        ([cell(0, 3), cell(0, 40)], False),  # a bit in each of two words
        ([cell(0, 3), cell(0, 30)], True),
        ([cell(0, 3), CHECK + cell(0, 6)], True),  # a check bit of the same word
        ([cell(0, 3), CHECK + cell(0, 32)], False),
        ([CHECK + cell(1, 64), CHECK + cell(1, 66)], True),
        ([cell(200, 3), cell(200, 4)], False),  # nobody uses that entry
    ],
)
@pytest.mark.parametrize("engine", [NUMPY, NUMBA], ids=["numpy", "numba"])
def test_a_word_with_two_faults_ends_a_life(faulty, dies, engine):
    tail = tail_of(dict.fromkeys(faulty, np.inf))
    life = lived([steady_trace(ROWS)], "baseline", tail, engine=engine, protection="secded32")
    assert life.end.cause.tolist() == [EndCause.FAULTY_ENTRY if dies else EndCause.CENSORED]
    for name in ("secded32+ecp1", "secded32+spare1"):
        life = lived([steady_trace(ROWS)], "baseline", tail, engine=engine, protection=name)
        assert life.end.cause == [EndCause.CENSORED], name


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("bit", [0, 5, 6])
def test_a_check_cell_ages_by_the_check_bits(bits, bit):
    """Whether it holds '0' or '1' does not matter for Vmin: it is stressed for the whole time."""
    vmin = becomes_faulty_at(4.4 * YEAR)
    tail = tail_of({cell(0, 1): np.inf, CHECK + cell(0, bit): vmin})
    life = lived([steady_trace(ROWS)], "baseline", tail, protection=f"secded{bits}")
    assert_ends_at(life, 4.4 * YEAR, EndCause.FAULTY_ENTRY)


def test_ages_of_uncorrectable_words_by_hand():
    """Two words of entry 0 and one of entry 2 become uncorrectable; the life goes on."""
    later = {year: becomes_faulty_at(year * YEAR) for year in (2.2, 4.4, 7.7)}
    tail = tail_of(
        {
            **dict.fromkeys([cell(0, 1), cell(0, 33), cell(2, 65), cell(1, 1), cell(1, 2)], np.inf),
            cell(0, 2): later[4.4],
            cell(0, 40): later[7.7],
            CHECK + cell(2, 64): later[2.2],
        }
    )
    given = {"protection": "secded32", "uncorrectable_blocks": 3}
    life = lived([steady_trace(ROWS)], "baseline", tail, **given)
    years = life.uncorrectable.uncorrectable_years[0]
    assert np.isnan(years[4:]).all()
    np.testing.assert_allclose(years[:4], [0, 2.2, 4.4, 7.7], atol=1 / 4000)
    assert life.uncorrectable.uncorrectable_entry[0].tolist() == [1, 2, 0, 0, -1, -1, -1, -1]
    assert life.end.cause.tolist() == [EndCause.CENSORED]  # two of the words lie in one block
    life = lived([steady_trace(ROWS)], "baseline", tail, **given | {"uncorrectable_blocks": 2})
    assert_ends_at(life, 4.4 * YEAR, EndCause.FAULTY_ENTRY)


def test_check_cells_of_half_the_time():
    """A word that changes between a value of zero and one with a single check bit at '1'."""
    code = secded(32)
    zero, other = np.zeros(64, dtype=np.uint32), np.full(64, 1 << 3, dtype=np.uint32)
    (bit, *_) = [b for b in range(7) if check_bits(1 << 3, code) >> b & 1]
    vmin = becomes_faulty_at(3.3 * YEAR, 0.7)
    for trace in (alternating_trace(zero, 70, other), alternating_trace(other, 70, zero)):
        tail = tail_of({cell(0, 1): np.inf, CHECK + cell(0, bit): vmin})
        life = lived([trace], "baseline", tail, protection="secded32")
        assert_ends_at(life, 3.3 * YEAR, EndCause.FAULTY_ENTRY)


@pytest.mark.parametrize(
    "technique",
    daily(["baseline", "rc+rar", "wc", "disable", "gr-guard", "rrcd+pg"], ["disable", "rrcd+pg"]),
)
def test_lives_are_the_same_on_all_engines(technique):
    rng = np.random.default_rng(4)
    traces = [random_trace(random.Random(seed), **SPILLING) for seed in (11, 12)]
    tails = []
    for _ in range(3):
        words = rng.integers(256 * 64, size=300) * 32
        data = words + rng.integers(32, size=300)
        check = CHECK + words + rng.integers(7, size=300)
        cells = np.unique(np.concatenate([data, check]))
        vmin = np.where(rng.random(len(cells)) < 0.1, np.inf, 1 - rng.random(len(cells)) * 0.02)
        tails.append(dict(zip(cells.tolist(), vmin, strict=True)))
    kernels = rng.integers(2, size=(3, 10))
    given = {"tail": tail_of(*tails), "kernels": kernels, "sample": [cell(3, 4)]}
    given["protection"] = "secded32+ecp1"
    meant = arrays_of(lived(traces, technique, engine=NUMPY, **given))
    engines = [NUMBA] if technique == "disable" else [NUMBA, cuda_engine()]
    for engine in engines:
        actual = arrays_of(lived(traces, technique, engine=engine, **given))
        for name, array in meant.items():
            np.testing.assert_allclose(actual[name], array, rtol=1e-6, err_msg=name)
    assert (meant["uncovered.epoch_words_at_risk"][:, 0] > 0).any()


def test_a_sweep_of_protections_has_the_same_dies():
    """A code brings entries back; what others say does not depend on it."""
    names = ("ecp1", "secded32", "secded32x4+ecp1+spare2")
    given = {"techniques": ["baseline", "rrcd"], "environments": ["undervolted"]}
    given |= {"vdd_volts": [0.41], "instances": 6}
    alone = small_sweep(**given).compute(0, 6)
    together = small_sweep(**given, protections=list(names)).compute(0, 6)
    for name in ("life_years", "faulty_entries_start", "max_dvth_mv"):
        np.testing.assert_array_equal(alone[name], together[name][:2])
    faulty = together["faulty_entries_start"].reshape(3, 2, 6)
    assert (faulty[1] <= faulty[0]).all()
    assert (faulty[2] <= faulty[1]).all()
    assert faulty[1].sum() < 0.5 * faulty[0].sum()
