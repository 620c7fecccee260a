"""What protects entries, against brute force over the words of small slices and every cell."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mcage.costs.energy import gates, protected_slice, protection_area
from mcage.errors import UserError
from mcage.geometry import GCN, NVIDIA, SliceGeometry
from mcage.protection.codes import secded
from mcage.protection.policy import ECP, Protection, check_cells, logical_bits, protection
from mcage.spec.cost_constants import load_costs
from mcage.studies.sweep.header import VARIABLES
from mcage.variation.fault_models import EntryFaults, FaultModel, fault_map
from mcage.variation.scenarios import scenario
from mcage.variation.vmin_tail import TailCells, in_words, sample_tail

NAMES = (
    *("none", "ecp1", "secded32", "secded64", "secded32x4", "secded64x16", "secded32+ecp1"),
    *("secded64x2+ecp1", "none+spare2", "ecp1+spare1", "secded32x64+ecp1+spare3"),
)
SMALL = SliceGeometry(64, 16, 8, 4, 4, 8)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_read_as_they_are_written(name):
    assert Protection.of(name).name == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "ecp", "ecp2", "secded", "secded16", "secded32x3", "secded32x1", "secded32x128"),
        *("ecp1+secded32", "secded32ecp1", "none+ecp1", "ecp1+spare0", "spare4", "secded32+spare"),
        *("ecp1+spare100", "ecp1x4", "SECDED32", "secded32 "),
    ],
)
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(UserError, match=r"protection .* is unknown; give none, ecp1"):
        Protection.of(name)


def test_words_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="32 words of 32, which 64 do not divide"):
        protection("secded32x64").check(NVIDIA, 64)
    with pytest.raises(UserError, match="nodes of 16 bits hold no whole number of check bits"):
        protection("secded32").check(GCN, 16)
    with pytest.raises(UserError, match="mode table takes faulty bits from a table"):
        FaultModel(scenario("common"), "table").sample(
            1, np.arange(2), 0.419, protection("secded64")
        )


# ---- where the bits of words lie ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["secded32", "secded64", "secded32x8", "secded64x4"])
@pytest.mark.parametrize("geometry", [GCN, NVIDIA], ids=["gcn", "nvidia"])
def test_each_column_of_an_entry_holds_a_bit(name, geometry):
    """Neighbouring columns belong to different words, check columns too; no bit is left out."""
    given = protection(name)
    code, many = given.code, given.interleave
    bits, check = logical_bits(given, geometry), check_cells(given, geometry)
    assert sorted(bits) == list(range(geometry.entry_bits))
    words = geometry.entry_bits // code.data_bits
    expected = [w * code.data_bits + c for w in range(words) for c in range(code.check_bits)]
    assert sorted(check) == expected
    for columns in (bits, check):
        word = columns // code.data_bits
        for first in range(0, len(columns) - many, many):
            assert len(set(word[first : first + many])) == many
        # A word lies within the columns of its group.
        per_group = len(columns) * many // words
        assert (word // many == np.arange(len(columns)) // per_group).all()


# ---- fault maps --------------------------------------------------------------------------------


def by_brute_force(given, geometry, cells):
    """Fault map of an entry from its faulty cells, by trying every use of the pointer."""
    code = given.code
    word_bits = code.data_bits if code else 1
    faulty = [((cell % geometry.cells) % geometry.entry_bits) // word_bits for cell in cells]
    allowed = 1 if code else 0

    def bad_words(repaired):
        left = [word for place, word in enumerate(faulty) if place not in repaired]
        return {word for word in left if left.count(word) > allowed}

    choices = itertools.combinations(range(len(faulty)), min(given.pointers, len(faulty)))
    if any(not bad_words(set(choice)) for choice in choices):
        return 0
    blocks = {word * word_bits // geometry.block_bits for word in bad_words(set())}
    return sum(1 << block for block in blocks)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("geometry", [GCN, SMALL], ids=["gcn", "small"])
def test_fault_maps_equal_brute_force(name, geometry):
    given = protection(name)
    if given.code and (geometry.entry_bits // given.code.data_bits) % given.interleave:
        pytest.skip("does not fit")
    draw = np.random.default_rng(NAMES.index(name))
    instances, parts, expected = 5, [], []
    for _ in range(instances):
        cells, of_entries = [], np.zeros(geometry.entries, dtype=np.uint8)
        for entry in range(0, geometry.entries, 3):
            # Few words, so that faults meet in one of them.
            words = draw.integers(geometry.entry_bits // 64, size=2) * 64
            numbers = {int(draw.choice(words) + draw.integers(64)) for _ in range(draw.integers(5))}
            own = [entry * geometry.entry_bits + number for number in numbers]
            if given.code:
                bits = given.code.check_bits
                first = [
                    number // given.code.data_bits * given.code.data_bits for number in numbers
                ]
                check = {number + int(draw.integers(bits)) for number in first[:2]}
                own += [geometry.cells + entry * geometry.entry_bits + cell for cell in check]
            of_entries[entry] = by_brute_force(given, geometry, own)
            cells += own
        faulty_entries = np.flatnonzero(of_entries)
        of_entries[faulty_entries[: given.spares]] = 0
        expected.append(of_entries)
        parts.append((np.array(cells, dtype=np.int32), np.ones(len(cells))))
    tail = TailCells.join(parts, geometry)
    everything = np.ones(len(tail.cell), dtype=bool)
    np.testing.assert_array_equal(fault_map(tail, everything, given), expected)
    assert np.any(expected)
    # Cells that become faulty one part after the other come to the same.
    first = draw.random(len(tail.cell)) < 0.5
    steps = EntryFaults.none(instances, given, geometry).more(tail, first)
    np.testing.assert_array_equal(steps.maps_with(tail, ~first), expected)
    steps = steps.more(tail, ~first)
    np.testing.assert_array_equal(steps.maps, expected)
    some = np.array([3, 1])
    np.testing.assert_array_equal(steps.of(some).maps, np.array(expected)[some])


def test_what_is_left_without_cover_by_hand():
    """In 32-bit words: two bits in word 0 of entry 0, one in word 9 of it, one in entry 1."""
    cells = np.array([3, 7, 9 * 32, 2048 + 5, GCN.cells + 2 * 2048 + 1], dtype=np.int32)
    tail = TailCells.join([(cells, np.ones(5))])
    found = {}
    for name in ("none", "ecp1", "secded32", "secded32+ecp1", "secded32+spare1"):
        seen = tail if protection(name).code else tail.of_data()
        everything = np.ones(len(seen.cell), dtype=bool)
        faults = EntryFaults.none(1, protection(name)).more(seen, everything)
        uncovered = faults.uncovered()
        found[name] = (int(uncovered.bits[0]), int(uncovered.words[0]))
    assert found["secded32"] == (2, 2)  # word 0 is lost; entries 1 and 2 have spent a code each
    assert found["secded32+ecp1"] == (0, 2)  # the pointer takes a bit of word 0; words 0 and 9
    assert found["secded32+spare1"] == (0, 2)
    assert found["ecp1"] == (3, 0)
    assert found["none"] == (4, 0)
    said = {of.name: f"{of.long_name} {of.comment}" for of in VARIABLES}
    assert "under a code, those of their words with two or more" in said["epoch_uncovered_bits"]
    assert "Words of faulty entries do not count" in said["epoch_words_at_risk"]


# ---- check cells -------------------------------------------------------------------------------


def test_check_cells_are_as_many_and_as_weak_as_they_should_be():
    """Their mean number is that of data by the share of check bits; false alarms: 1e-4."""
    common, instances = scenario("common"), np.arange(200)
    for name in ("secded32", "secded64"):
        given = protection(name)
        tail = FaultModel(common).sample(1, instances, 0.40, given)
        is_check = tail.cell >= GCN.cells
        data, check = np.count_nonzero(~is_check), np.count_nonzero(is_check)
        share = given.check_share / (1 + given.check_share)
        assert stats.binomtest(check, check + data, share).pvalue > 1e-4
        assert stats.ks_2samp(tail.vmin_volts[is_check], tail.vmin_volts[~is_check]).pvalue > 1e-4
        within = (tail.cell[is_check] - GCN.cells) % given.code.data_bits
        assert within.max() < given.code.check_bits
        assert np.all(np.diff(tail.instance * 2 * GCN.cells + tail.cell) > 0)


def test_data_cells_are_those_without_a_code():
    """Interleaving moves bits of words, and no weak cell."""
    common, instances = scenario("clustered"), np.arange(20)
    without = sample_tail(common, 3, instances, 0.48)
    for name in ("secded32", "secded32x16"):
        given = protection(name)
        tail = FaultModel(common).sample(3, instances, 0.48, given).of_data()
        column = np.argsort(logical_bits(given, GCN))[tail.cell % GCN.entry_bits]
        placed = tail.instance * GCN.cells + tail.cell // GCN.entry_bits * GCN.entry_bits + column
        order = np.argsort(placed)
        np.testing.assert_array_equal(placed[order], without.instance * GCN.cells + without.cell)
        np.testing.assert_array_equal(tail.vmin_volts[order], without.vmin_volts)


def test_a_check_cell_lies_beside_its_data():
    """In scenario measured, whole arrays are weak: check cells are weak where data are."""
    measured, instances = scenario("measured"), np.arange(50)
    given = protection("secded32")
    data = sample_tail(measured, 1, instances, 0.50)
    raw = sample_tail(measured, 1, instances, 0.50, code=given.code)
    tail = in_words(data, raw, given)
    is_check = tail.cell >= GCN.cells
    counts = [
        np.bincount(
            tail.instance[which] * 32
            + tail.entry[which] // 128 * 16
            + tail.block[which] * 4
            + tail.cell[which] % 512 // 128,
            minlength=50 * 32,
        )
        for which in (is_check, ~is_check)
    ]
    assert np.corrcoef(*counts)[0, 1] > 0.5


# ---- what it costs -----------------------------------------------------------------------------


def test_costs_by_hand():
    technology = load_costs().technology("28nm")
    given = protection("secded32")
    cells = protected_slice(technology.slice, given, GCN)
    encoder, decoder = gates(given.code)
    ones = sum(column.bit_count() for column in given.code.columns)  # of 7 rows, without check bits
    assert encoder == ones - 7
    assert decoder == ones + 32 * 7
    assert cells.read_pj == pytest.approx(technology.slice.read_pj * 39 / 32 + 16e-3 * decoder)
    assert cells.write_pj == pytest.approx(technology.slice.write_pj * 39 / 32 + 16e-3 * encoder)
    assert cells.leakage_mw == pytest.approx(technology.slice.leakage_mw * 39 / 32)
    added = protection_area(protection("secded64+ecp1+spare8"), technology, GCN)
    assert added["check bits"] == pytest.approx(0.68 / 8)
    assert added["pointers"] == pytest.approx(0.68 * 13 / 2048)
    assert added["spare entries"] == pytest.approx(0.68 * (1.125 + 13 / 2048) * 8 / 256)
    assert protected_slice(technology.slice, ECP, GCN) is technology.slice
    assert secded(64).overhead < secded(32).overhead
