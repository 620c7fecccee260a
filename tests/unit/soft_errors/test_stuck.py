"""Reads of stuck cells: by hand, by brute force over bits, and as cells are more."""

import random
from pathlib import Path

import numpy as np
import pytest
from oracle import bits_of, block_record, inline_record
from tables import each
from trace_strategies import alloc, lane_mask, random_trace, read, release, trace_of, write

from mcage.geometry import GCN
from mcage.replays.prepare import prepare
from mcage.replays.schedule import writes_of
from mcage.soft_errors.ace import needs_of, placed
from mcage.soft_errors.stuck import StuckCells, drawn_values, stuck_cells_of, wrong_reads
from mcage.techniques import TECHNIQUES
from mcage.traces import bundled_trace
from mcage.traces.model import WRITE


def stuck_cells(cell, at_one):
    cell = np.atleast_1d(np.asarray(cell, dtype=np.int64))
    at_one = np.broadcast_to(np.asarray(at_one, dtype=bool), cell.shape)
    return StuckCells(cell, at_one)


def shares(trace, name, stuck):
    where = placed(prepare(trace, TECHNIQUES[name]))
    return wrong_reads(where, needs_of(where.schedule.trace), stuck)


def test_a_value_that_agrees_with_the_cell_is_right():
    """Register 0 holds 1, then 0, for ten and for thirty cycles; three reads and one."""
    reads = [read(cycle, 0, 0) for cycle in (3, 8, 12, 42)]
    events = [alloc(0, 0, 1), write(2, 0, 0, 1), write(12, 0, 0, 0), *reads, release(50, 0)]
    trace = trace_of(events)
    at_zero, at_one = (shares(trace, "baseline", stuck_cells(32 * 7, way)) for way in (0, 1))
    assert at_zero.reads == 2 / 4
    assert at_one.reads == 2 / 4
    assert at_zero.values == at_one.values == 1 / 2
    assert at_zero.differing == pytest.approx(6 / 36)
    assert at_one.differing == pytest.approx(30 / 36)
    assert shares(trace, "baseline", stuck_cells(2048, 1)).reads == 0
    assert np.isnan(shares(trace, "baseline", stuck_cells(2048, 1)).differing)
    # Compressed, the cell of bit 0 of lane 7 holds nothing of either value.
    for name in ("rc", "wc", "rrcd"):
        assert shares(trace, name, stuck_cells(32 * 7, 0)).reads == 0


def test_records_of_an_entry_lie_in_blocks_of_their_own():
    """Registers 0 and 1 hold 6 and 10, in blocks 0 and 1 of one entry; each is read once."""
    values = [write(2, 0, 0, 6), write(3, 0, 1, 10)]
    trace = trace_of([alloc(0, 0, 2), *values, read(5, 0, 0), read(5, 0, 1), release(9, 0)])
    where = placed(prepare(trace, TECHNIQUES["rrcd"]))
    needs, bits = needs_of(where.schedule.trace), [*range(48), *range(500, 560), 1023]
    zero, one = (
        {bit: wrong_reads(where, needs, stuck_cells(bit, way)).reads for bit in bits}
        for way in (0, 1)
    )
    base = {bit for bit in range(32) if not 6 >> bit & 1}
    base |= {512 + bit for bit in range(32) if not 10 >> bit & 1}
    assert {bit for bit, share in one.items() if share} == base  # codes are 0b111111
    assert set(one.values()) == {0, 0.5}
    code = [*range(32, 38)]
    expected = [1, 2, *code, 513, 515, *(512 + bit for bit in code)]
    assert [bit for bit in bits if zero[bit]] == expected


def test_values_that_are_stored_inline_end_where_their_record_does():
    """Of WC, a base and differences of no, one or two bytes: no bit lies behind them."""
    lanes = np.arange(64, dtype=np.uint32)
    for value, size in ((0 * lanes + 5, 4), (1000 + lanes, 67), (7 * lanes, 130)):
        assert len(inline_record(value)) == size
        trace = trace_of([alloc(0, 0, 1), write(2, 0, 0, value), read(5, 0, 0), release(9, 0)])
        end = 8 * size
        wrong = {
            bit: sum(shares(trace, "wc", stuck_cells(bit, way)).reads for way in (0, 1))
            for bit in (0, end - 1, end, end + 7, end + 8)
        }
        assert wrong == {0: 1, end - 1: 1, end: 0, end + 7: 0, end + 8: 0}


def stored_bits(schedule, write, block):
    """Cells of an entry that a write uses, and their bits."""
    is_write = schedule.trace.kind == WRITE
    value = schedule.trace.values[schedule.trace.value[is_write][write]]
    lanes = int(writes_of(schedule.trace).lanes[write])
    used, bits, begin = np.repeat(lane_mask(lanes), 32), bits_of(value.astype("<u4").tobytes()), 0
    if schedule.compressed[write]:
        inline = schedule.technique.stores_inline
        begin = 0 if inline else 512 * block
        record = bits_of(inline_record(value) if inline else block_record(value, 64))
        used, bits = np.zeros(2048, dtype=bool), np.zeros(2048, dtype=bool)
        bits[begin : begin + len(record)] = record
        used[begin : begin + len(record) - (0 if inline else 2)] = True
    return used, bits


@each("name", ["baseline", "rar", "rc", "wc", "rrcd"])
def test_brute_force_over_bits(name):
    rng = random.Random(7)
    for _ in range(4):
        trace = random_trace(rng, slots=(1, 3), window_sizes=(1, 4), phases=(1, 1), events=60)
        where = placed(prepare(trace, TECHNIQUES[name]))
        entries = np.unique(where.entry[where.entry >= 0])
        if not len(entries):
            continue
        draw = np.random.default_rng(rng.getrandbits(32))
        bit = [512 * block + bit for block in range(4) for bit in range(64)]  # records, mostly
        cell = draw.choice(entries, 80) * 2048 + draw.choice([*bit, *range(2048)], 80)
        cell = np.unique(cell)
        stuck = StuckCells(cell, drawn_values(1, 0, cell))
        needs, schedule = needs_of(trace), where.schedule
        reads = values = 0
        for entry, block in zip(where.entry, where.block, strict=True):
            for number in range(schedule.writes):
                home = where.home[number]
                used, bits = stored_bits(schedule, number, block[home])
                here = stuck.cell // 2048 == entry[home]
                within = stuck.cell[here] % 2048
                if (used[within] & (bits[within] != stuck.at_one[here])).any():
                    reads += needs.reads[number]
                    values += needs.reads[number] > 0
        wrong = wrong_reads(where, needs, stuck)
        passes = len(where.entry)
        if not needs.reads.any():
            assert np.isnan([wrong.reads, wrong.values]).all()
            continue
        assert wrong.reads == pytest.approx(reads / passes / needs.reads.sum())
        assert wrong.values == pytest.approx(values / passes / (needs.reads > 0).sum())


def test_with_more_stuck_cells_more_reads_are_wrong():
    trace = bundled_trace("Reduction")
    cell = np.random.default_rng(1).choice(256 * 2048, 300, replace=False)
    ways, found = drawn_values(1, 0, cell), {}
    for name in ("baseline", "rc"):
        where = placed(prepare(trace, TECHNIQUES[name]))
        needs = needs_of(where.schedule.trace)
        stuck = [stuck_cells(cell[:n], ways[:n]) for n in (0, 100, 300)]
        found[name] = [wrong_reads(where, needs, of).reads for of in stuck]
        assert 0 == found[name][0] < found[name][1] < found[name][2] < 1
    assert found["rc"][-1] < found["baseline"][-1]


def test_cells_of_a_table_are_stuck_as_it_says():
    """Of two instances in any order; -1 stands for a value that is drawn."""
    table = np.array([[3, 7, 1], [0, 5, 1], [3, 9, 0], *([3, cell, -1] for cell in range(20, 90))])
    of = stuck_cells_of(table, Path("stuck"), GCN, 1)
    assert {number: stuck.cell.tolist() for number, stuck in of.items()} == {
        0: [5],
        3: [7, 9, *range(20, 90)],
    }
    assert of[0].at_one.tolist() == [True]
    assert of[3].at_one.tolist() == [True, False, *drawn_values(1, 3, np.arange(20, 90))]


def test_which_way_a_cell_is_stuck_is_its_own():
    cell = np.arange(0, 5000, 7)
    ways = drawn_values(1, 3, cell)
    assert np.array_equal(drawn_values(1, 3, cell[::-1]), ways[::-1])
    assert 0.4 < ways.mean() < 0.6
    assert not np.array_equal(drawn_values(1, 4, cell), ways)
    assert not np.array_equal(drawn_values(2, 3, cell), ways)
