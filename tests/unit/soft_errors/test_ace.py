"""ACE times: do they agree with published figures, and with brute force on a file of bytes?"""

import csv
import io
import random
from pathlib import Path

import numpy as np
import pytest
from engine_cases import daily
from oracle import bits_of, block_record, inline_record
from tables import each
from trace_strategies import (
    ALL_LANES,
    alloc,
    lane_mask,
    pattern,
    random_fault_map,
    random_trace,
    read,
    release,
    trace_of,
    write,
)

from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.replays.prepare import prepare
from mcage.replays.schedule import writes_of
from mcage.soft_errors.ace import (
    ace_under,
    byte_times,
    needs_of,
    placed,
    shares_of_places,
    vulnerability,
)
from mcage.soft_errors.stuck import StuckCells, drawn_values, stuck_cells_of, wrong_reads
from mcage.techniques import TECHNIQUES
from mcage.traces import bundled_trace
from mcage.traces.model import ALLOC, READ, RELEASE, WRITE
from mcage.traces.transforms import released_with_wavefronts

# ACE of the ten kernels of 2011, computed from the recorded traces by another program than mcage,
# which ends the values of all lanes with each write and releases windows as recorded. Figures are
# rounded to four decimals. Columns: for each order in a cycle, the fields of `Vulnerability`.
FIGURES = """\
trace,writes first,,,,,,reads first,,,,,
BlackScholes,0.3267,0.3373,0.9687,0.7754,23856,0.0,0.3527,0.3641,0.9687,0.7754,23856,0.036
DCT,0.3917,0.6073,0.6451,0.5419,17372,0.0349,0.4049,0.6276,0.6451,0.5419,17372,0.1226
Histogram,0.5027,0.6196,0.8114,0.6327,91200,0.0011,0.5136,0.633,0.8114,0.6327,91200,0.1054
MatrixMultiplication,0.3975,0.5133,0.7744,0.6389,54600,0.0005,0.4161,0.5373,0.7744,0.6389,54600,0.0754
MatrixTranspose,0.1595,0.6518,0.2447,0.2073,10322,0.0,0.1693,0.6918,0.2447,0.2073,10322,0.0796
QuasiRandomSequence,0.2323,0.4018,0.5781,0.5343,17460,0.0023,0.2327,0.4025,0.5781,0.5343,17460,0.0095
RadixSort,0.2324,0.5161,0.4502,0.3318,197504,0.0,0.2405,0.5343,0.4502,0.3318,197504,0.2049
Reduction,0.2068,0.2566,0.8058,0.6888,9400,0.0,0.2068,0.2566,0.8058,0.6888,9400,0.0491
ScanLargeArrays,0.3295,0.6386,0.5159,0.4906,8546,0.0,0.3427,0.6643,0.5159,0.4906,8546,0.0686
SimpleConvolution,0.453,0.5102,0.888,0.6782,14060,0.0555,0.4552,0.5126,0.888,0.6782,14060,0.0691
"""
ROUNDING = 0.5001e-4


ROWS = list(csv.reader(io.StringIO(FIGURES)))[1:]


@pytest.mark.parametrize("row", daily(ROWS, [ROWS[7], ROWS[8]]), ids=lambda row: row[0])
def test_figures_of_the_bundled_kernels(row):
    trace = bundled_trace(row[0])
    expected = np.reshape([float(number) for number in row[1:]], (2, 6))
    for reads_first, of_order in zip((False, True), expected, strict=True):
        needs = needs_of(trace, reads_first=reads_first, by_lane=False)
        computed = [*vars(vulnerability(trace, needs)).values()]
        assert computed == pytest.approx(of_order, abs=ROUNDING)
    earlier = needs_of(released_with_wavefronts(trace), reads_first=True, by_lane=False)
    assert np.array_equal(needs.lane_cycles, earlier.lane_cycles), "released earlier"


def test_means_of_the_bundled_kernels():
    means = np.array([row[1:] for row in ROWS], dtype=float).reshape(10, 2, 6).mean(axis=0)
    assert np.round(100 * means[:, :2], 1).tolist() == [[32.3, 50.5], [33.3, 52.2]]


def test_lanes_that_survive_a_divergent_write_are_needed():
    """As by hand: half of the lanes are replaced, and the others read afterwards."""
    half = ALL_LANES >> 32
    events = [alloc(0, 0, 1), write(2, 0, 0, 1), write(10, 0, 0, 2, half), read(15, 0, 0)]
    trace = trace_of([*events, release(20, 0)], cycles=21)
    needs = needs_of(trace)
    assert needs.lane_cycles.tolist() == [32 * 8, 64 * 5]
    assert not needs.dead.any()
    whole = needs_of(trace, by_lane=False)
    assert whole.lane_cycles.tolist() == [0, 64 * 5]
    assert vulnerability(trace, needs).avf == pytest.approx((32 * 8 + 64 * 5) / (256 * 64 * 21))


@each(
    ("reads_first", "cycles", "dead"),
    [(False, [0, 0], [True, False]), (True, [64 * 8, 0], [False, True])],
)
def test_order_in_a_cycle(reads_first, cycles, dead):
    events = [alloc(0, 0, 1), write(2, 0, 0, 1), write(10, 0, 0, 2), read(10, 0, 0), release(20, 0)]
    needs = needs_of(trace_of(events), reads_first=reads_first)
    assert needs.lane_cycles.tolist() == cycles
    assert needs.dead.tolist() == dead


# Brute force: every byte of the file is changed after every cycle, each time by itself, and what
# is wrong is followed through moves, decompression and reads, event after event.


class _File:
    """A file of bytes, each with the changes that would have made it wrong."""

    def __init__(self, replay, where, turn, reads_first):
        self.schedule, self.trace, self.order = where.schedule, where.schedule.trace, reads_first
        self.entry = where.entry[turn][where.home].tolist()
        self.block = where.block[turn][where.home].tolist()
        self.bytes, self.needed = {}, set()
        self.registers = {}  # (window, reg): where its bytes are

    def run(self):
        trace = self.trace
        ranks = (0, 2, 1, 3) if self.order else (0, 1, 2, 3)
        rank = dict(zip((ALLOC, WRITE, READ, RELEASE), ranks, strict=True))
        window = trace.window_of_event()
        kinds = trace.kind.tolist()
        numbers = (np.cumsum(trace.kind == WRITE) - 1).tolist()
        events = sorted(range(len(kinds)), key=lambda e: (trace.cycle[e], rank[kinds[e]], e))
        now = 0
        for event in events:
            for cycle in range(now, int(trace.cycle[event])):
                for place, wrong in self.bytes.items():
                    wrong.add((*place, cycle))
            now = int(trace.cycle[event])
            register = (int(window[event]), int(trace.reg[event]))
            if kinds[event] == WRITE:
                self.write(register, numbers[event], int(trace.exec_mask[event]))
            elif kinds[event] == READ and register in self.registers:
                self.needed |= set().union(*self.lanes(register).values())
        return self.needed

    def lanes(self, register):
        """Changes that make each written lane of a register wrong."""
        write, written, places = self.registers[register]
        wrong = [place if isinstance(place, set) else self.bytes[place] for place in places]
        if not self.schedule.compressed[write]:
            return {lane: set().union(*wrong[4 * i :][:4]) for i, lane in enumerate(written)}
        base, rest = set().union(*wrong[:4]), wrong[4:]
        if self.schedule.technique.stores_inline:
            width = len(rest) // 63
            deltas = {lane: rest[width * (lane - 1) :][:width] for lane in range(1, 64)}
        else:
            deltas = dict.fromkeys(range(1, 64), rest)
        return {lane: base.union(*deltas.get(lane, ())) for lane in written}

    def write(self, register, write, executed):
        """Merge what is written with the lanes that survive, and store it anew."""
        surviving = self.lanes(register) if register in self.registers else {}
        written = lane_mask(executed)
        wrong = {lane: set() for lane in np.flatnonzero(written).tolist()}
        wrong |= {lane: set(held) for lane, held in surviving.items() if not written[lane]}
        lanes = sorted(wrong)
        value = self.trace.values[self.trace.value[self.trace.kind == WRITE][write]]
        entry = self.entry[write]
        if not self.schedule.compressed[write]:
            offsets = [4 * lane + byte for lane in lanes for byte in range(4)]
            contents = [set(wrong[lane]) for lane in lanes for _ in range(4)]
        else:
            assert lanes == list(range(64))
            inline = self.schedule.technique.stores_inline
            record = inline_record(value) if inline else block_record(value, 64)
            offsets = [64 * self.block[write] + byte for byte in range(len(record))]
            contents = [set() for _ in offsets]
        places = []
        for offset, content in zip(offsets, contents, strict=True):
            if entry < 0:
                places.append(content)  # outside of the file, where nothing is changed
            else:
                self.bytes[entry, offset] = content
                places.append((entry, offset))
        self.registers[register] = (write, lanes, places)


def brute_force(replay, where, reads_first):
    times = np.zeros((256, 256), dtype=np.int64)
    for turn in range(len(where.entry)):
        for entry, byte, _ in _File(replay, where, turn, reads_first).run():
            times[entry, byte] += 1
    return times


NAMES = ("baseline", "rar", "rc", "wc", "argo", "disable", "gr-guard", "rrcd", "rrcd+rc+rar")


@pytest.mark.parametrize("name", NAMES)
def test_brute_force_over_all_bytes(name):
    """Of random traces, with and without faults: the ACE time of each byte, to the cycle."""
    rng = random.Random(NAMES.index(name))
    technique, compared = TECHNIQUES[name], 0
    sizes = (60, 80) if name == "argo" else (1, 4)  # three or four passes
    while compared < (2 if name == "argo" else 4):
        trace = random_trace(rng, slots=(1, 2), window_sizes=sizes, phases=(1, 1), events=80)
        if trace.cycles > (40 if name == "argo" else 80):
            continue
        fault_map = random_fault_map(rng) if technique.heeds_faults and compared % 2 else None
        replay = prepare(trace, technique, lds_rows=32)
        try:
            where = placed(replay, fault_map)
        except UserError:  # no window fits
            assert name == "disable"
            continue
        for reads_first in (False, True):
            needs = needs_of(where.schedule.trace, reads_first=reads_first)
            times = byte_times(where, needs)
            assert np.array_equal(times, brute_force(replay, where, reads_first))
            assert times.max() <= where.cycles
        compared += 1


@each(("name", "expected"), [("baseline", 256 * 10), ("wc", 67 * 10), ("rrcd", 5 * 10), ("rc", 0)])
def test_what_is_compressed_takes_five_bytes_or_none(name, expected):
    """A value of constant delta is written once and read once, ten cycles later."""
    events = [alloc(0, 0, 1), write(2, 0, 0, pattern(5, 1, 8)), read(12, 0, 0), release(20, 0)]
    ace = ace_under(trace_of(events, cycles=25), TECHNIQUES[name])
    assert ace.times.sum() == expected
    avf = pytest.approx(expected / (256 * 256 * 25))
    assert ace.avf == avf
    assert ace.by_entry.mean() == avf
    assert ace.by_bit.mean() == avf
    assert ace.by_bit.shape == (GCN.entry_bits,)
    shares = shares_of_places(ace.placed, ace.needs)
    assert shares == {"file": name != "rc", "table": name == "rc", "lds": 0, "memory": 0}


def test_shares_of_nothing_are_unknown():
    """Of a value that nobody reads."""
    trace = trace_of([alloc(0, 0, 1), write(2, 0, 0, 5), release(20, 0)])
    ace = ace_under(trace, TECHNIQUES["rc"])
    assert ace.avf == vulnerability(trace, ace.needs).avf_of_allocated == 0
    assert np.isnan([*shares_of_places(ace.placed, ace.needs).values()]).all()
    cells = StuckCells(np.array([0]), np.array([True]))
    wrong = wrong_reads(ace.placed, ace.needs, cells)
    assert np.isnan([wrong.reads, wrong.values, wrong.differing]).all()


# Reads of stuck cells: by hand, by brute force over bits, and as cells are more.


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
