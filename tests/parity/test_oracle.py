"""The oracle against traces small enough to work out by hand."""

import numpy as np
from oracle import ALL_LANES, inline_record, replay
from trace_strategies import alloc, pattern, read, release, trace_of, write

UNEVEN = np.arange(64, dtype=np.uint32) ** 2 * 0x10001  # fits no rule, nor does its first block
ONES = 0xFFFFFFFF


def counted(outcome):
    """Counters that are not 0."""
    return {name: count for name, count in outcome.counters.items() if count}


def on_cycles(outcome, entry, component):
    """Powered cycles of bit 0 of a component."""
    return outcome.powered[entry, 32 * component]


def one_cycles(outcome, entry, component, bit=0):
    return outcome.ones[entry, 32 * component + bit]


# ---- records ---------------------------------------------------------------------------------


def test_inline_record_bytes():
    assert inline_record(pattern(0x01020304)) == bytes([4, 3, 2, 1])
    value = pattern(1000)
    value[1], value[63] = 1000 - 128, 1000 + 127
    assert inline_record(value) == bytes([0xE8, 3, 0, 0, 0x80, *[0] * 61, 0x7F])
    value[63] = 1000 + 128
    # -128 and 128 in two bytes each
    assert inline_record(value) == bytes([0xE8, 3, 0, 0, 0x80, 0xFF, *[0] * 122, 0x80, 0])
    value[63] = 1000 + 32768
    assert inline_record(value) == value.tobytes()
    value[0], value[1:] = 2**32 - 1, 1  # from the base one up through 2**32: +2
    assert inline_record(value) == bytes([255, 255, 255, 255, *[2] * 63])


# ---- direct placement, plain storage, unused gating ------------------------------------------


def test_baseline_holds_the_last_content_over_release_and_pass():
    trace = trace_of(
        [alloc(0, 1, 2), write(2, 1, 0, 1), read(3, 1, 0), write(5, 1, 0, 2), release(7, 1)],
        cycles=10,
    )
    outcome = replay(trace, "baseline")
    # Slot 1 of N = 2, register 0: entry 2. It holds 1 in [2, 5) and 2 in [5, 10) and [0, 2).
    assert (outcome.powered[2] == 10).all()
    assert one_cycles(outcome, 2, 0, bit=0) == one_cycles(outcome, 2, 63, bit=0) == 3
    assert one_cycles(outcome, 2, 0, bit=1) == one_cycles(outcome, 2, 63, bit=1) == 7
    assert outcome.ones.sum() == 64 * (3 + 7)
    assert outcome.powered.sum() == 2048 * 10  # nothing else was ever written
    assert counted(outcome) == {"regular": 2, "slice_reads": 1}


def test_lanes_that_this_window_has_not_written_keep_what_they_held():
    trace = trace_of(
        [
            alloc(0, 0, 1),
            write(0, 0, 0, 1, lanes=0b011),
            release(1, 0),
            alloc(2, 0, 1),
            write(4, 0, 0, 0, lanes=0b001),
            release(5, 0),
        ],
        cycles=10,
    )
    outcome = replay(trace, "baseline")
    assert one_cycles(outcome, 0, 0) == 4  # lane 0: 1 in [0, 4)
    assert one_cycles(outcome, 0, 1) == 10  # lane 1: only ever 1
    assert on_cycles(outcome, 0, 1) == 10
    assert on_cycles(outcome, 0, 2) == 0  # no window ever wrote lane 2


# ---- rotation --------------------------------------------------------------------------------


def rotating_trace():
    """Slot 1, N = 3: one window a pass; register 0 is 1 from cycle 2 on, register 1 all ones."""
    return trace_of(
        [alloc(0, 1, 3), write(2, 1, 0, 1), write(6, 1, 1, ONES), release(7, 1)], cycles=10
    )


def test_rar_moves_registers_by_one_each_window():
    # s = 2: register 0 in entry 3 + 2, register 1 in 3 + (2 + 1) mod 3 = 3. One pass earlier, at
    # s = 1: register 0 in 4, 1 in 5. Two earlier, s = 0: register 0 in 3, 1 in 4.
    outcome = replay(rotating_trace(), "rar", offset=2)
    # Entry 5: all ones of s = 1 until cycle 2, then 1.
    assert one_cycles(outcome, 5, 0, bit=0) == 10
    assert one_cycles(outcome, 5, 0, bit=1) == 2
    # Entry 3: 1 of s = 0 until cycle 6 (pass s = 1 left it alone), then all ones.
    assert one_cycles(outcome, 3, 0, bit=0) == 10
    assert one_cycles(outcome, 3, 0, bit=1) == 4
    # Entry 4: the 1 that pass s = 1 wrote.
    assert one_cycles(outcome, 4, 0, bit=0) == 10
    assert one_cycles(outcome, 4, 0, bit=1) == 0
    assert (outcome.powered[3:6] == 10).all()
    assert (outcome.offset, outcome.next_offset) == (((1, 2),), ((1, 0),))
    assert counted(outcome) == {"regular": 2}


def test_rc_rar_gates_the_entry_where_the_value_was():
    trace = trace_of(
        [alloc(0, 0, 2), write(1, 0, 0, UNEVEN), write(4, 0, 0, 0), release(8, 0)], cycles=10
    )
    for offset, entry in ((0, 0), (1, 1)):
        outcome = replay(trace, "rc+rar", offset=offset)
        assert (outcome.powered[entry] == 3).all()  # [1, 4)
        assert outcome.powered.sum() == 3 * 2048


# ---- round-robin, idle gating ----------------------------------------------------------------


def test_argo_takes_the_next_idle_window_and_gates_it_after():
    trace = trace_of(
        [
            alloc(0, 0, 100),  # two windows fit 256 entries: entries 0 ... 99 and 100 ... 199
            write(1, 0, 7, 1),
            alloc(2, 1, 100),
            write(3, 1, 7, 1),
            release(5, 1),
            alloc(6, 1, 100),  # pointer back at the first window, which is busy: the second again
            write(6, 1, 7, 1),
            write(7, 1, 8, 0),
            release(8, 1),
            release(9, 0),
        ],
        cycles=20,
    )
    outcome = replay(trace, "argo", offset=0)
    assert (outcome.powered[7] == 8).all()  # [1, 9)
    assert (outcome.powered[107] == 2 + 2).all()  # [3, 5) and [6, 8)
    assert (outcome.powered[108] == 1).all()
    assert outcome.powered.sum() == (8 + 4 + 1) * 2048
    assert one_cycles(outcome, 107, 0) == 4
    assert counted(outcome) == {"regular": 4}
    assert outcome.next_offset == 0
    shifted = replay(trace, "argo", offset=1)
    assert (shifted.powered[107] == 8).all()
    assert (shifted.powered[7] == 4).all()


# ---- table storage, empty gating -------------------------------------------------------------


def test_rc_switches_the_entry_off_while_the_table_has_the_value():
    trace = trace_of(
        [
            alloc(0, 0, 2),
            write(1, 0, 1, UNEVEN),  # on from 1
            write(3, 0, 1, pattern(4, 1, 8)),  # into the table: off from 3
            write(6, 0, 1, pattern(7)),  # still in the table
            write(8, 0, 1, 3, lanes=0b1),  # divergent: MOV first; on from 8, a wake-up
            write(9, 0, 1, pattern(3)),  # off from 9
            write(11, 0, 1, UNEVEN),  # on from 11, a wake-up
            release(14, 0),  # off from 14
        ],
        cycles=20,
    )
    outcome = replay(trace, "rc")
    assert (outcome.powered[1] == 2 + 1 + 3).all()
    assert outcome.powered.sum() == 6 * 2048
    # Component 1 of UNEVEN is 0x10001; from 8 it is the 7 that came out of the table.
    assert one_cycles(outcome, 1, 1, bit=16) == 2 + 3
    assert one_cycles(outcome, 1, 1, bit=1) == 1
    assert counted(outcome) == {"regular": 6, "mov_writes": 1, "wakeups": 2}


def test_rc_stores_a_regular_value_of_a_divergent_write_uncompressed():
    half = 0xFFFFFFFF
    trace = trace_of(
        [
            alloc(0, 0, 1),
            write(0, 0, 0, 1, lanes=half),
            write(2, 0, 0, 1, lanes=ALL_LANES ^ half),  # all lanes now 1, yet divergent
            write(5, 0, 0, 0, lanes=ALL_LANES ^ half),  # not compressed before: no MOV
            release(6, 0),
        ],
        cycles=6 + 1,
    )
    outcome = replay(trace, "rc")
    assert (outcome.powered[0] == 6).all()
    assert counted(outcome) == {"regular": 3}
    assert one_cycles(outcome, 0, 0) == 6
    # Lane 63 is on from 0, though first written at 2; till then it holds the end of the last pass.
    assert one_cycles(outcome, 0, 63) == 3


# ---- inline storage --------------------------------------------------------------------------


def test_wc_keeps_only_the_bytes_in_use_on():
    narrow, wide = pattern(0), pattern(0)
    narrow[1:], wide[1:] = 3, 0x101
    trace = trace_of(
        [
            alloc(0, 0, 1),
            write(0, 0, 0, UNEVEN),  # 256 bytes [0, 2)
            write(2, 0, 0, pattern(1)),  # 4 bytes [2, 5)
            write(5, 0, 0, narrow),  # 67 bytes [5, 9)
            write(9, 0, 0, wide),  # 130 bytes [9, 14)
            write(14, 0, 0, 0, lanes=1),  # 256 bytes [14, 20): MOV, wake-up
            release(20, 0),
        ],
        cycles=30,
    )
    outcome = replay(trace, "wc")
    by_byte = outcome.powered[0].reshape(256, 8)
    assert (by_byte[0:4] == 20).all()
    assert (by_byte[4:67] == 2 + 4 + 5 + 6).all()
    assert (by_byte[67:130] == 2 + 5 + 6).all()
    assert (by_byte[130:256] == 2 + 6).all()
    assert counted(outcome) == {"regular": 5, "mov_writes": 1, "wakeups": 1}
    ones = outcome.ones[0].reshape(256, 8)
    # Byte 0: UNEVEN's component 0 is 0; then base 1 for 3 cycles; then bases and lane 0 are 0.
    assert ones[0].tolist() == [3, 0, 0, 0, 0, 0, 0, 0]
    # Byte 4: 0x01 of UNEVEN's component 1 for 2, delta 0x03 for 4, low byte 0x01 of 0x0101 for 5,
    # then component 1 as decompressed for the divergent write, 0x101, for 6.
    assert ones[4].tolist() == [2 + 4 + 5 + 6, 4, 0, 0, 0, 0, 0, 0]
    # Byte 129: high byte of the last two-byte delta, and byte 1 of component 32 of UNEVEN:
    # 32**2 * 0x10001 = 0x04000400, so byte 129 is 0x04. Decompressed: 0x01.
    assert ones[129].tolist() == [5 + 6, 0, 2, 0, 0, 0, 0, 0]


# ---- redirection, block storage --------------------------------------------------------------


def fault_map_of(reliable, **faulty):
    """All entries useless but the reliable ones and entry_N=byte."""
    fault_map = np.full(256, 15, dtype=np.uint8)
    fault_map[reliable] = 0
    for name, byte in faulty.items():
        fault_map[int(name.removeprefix("entry_"))] = byte
    return fault_map


def test_rrcd_chooses_homes_lowest_first():
    trace = trace_of(
        [
            alloc(0, 3, 8),
            write(0, 3, 0, pattern(1)),  # faulty entry 5, block 1 (block 0 is unusable)
            write(1, 3, 1, UNEVEN),  # reliable entry 9
            write(2, 3, 2, pattern(2)),  # faulty entry 5, block 3
            write(3, 3, 3, pattern(3)),  # no faulty block left: reliable entry 10, block 0
            write(4, 3, 4, UNEVEN),  # entry 10 is in part use: 11
            write(5, 3, 5, pattern(5)),  # entry 10, block 1
            write(6, 3, 0, pattern(6)),  # still compressed: stays
            write(7, 3, 1, pattern(7)),  # 9 is freed; 10, block 2, is in part use: goes there
            write(8, 3, 6, UNEVEN),  # 9 again
            write(9, 3, 4, UNEVEN),  # stays
            read(9, 3, 4),
            release(10, 3),
        ],
        cycles=10 + 1,
    )
    fault_map = fault_map_of([9, 10, 11], entry_5=0b0101)
    outcome = replay(trace, "rrcd", fault_map=fault_map)
    assert counted(outcome) == {
        "regular": 2,
        "to_faulty": 2,
        "to_reliable": 6,
        "slice_reads": 1,
    }
    # Each compressed row occupies 40 cells of its block, on throughout; 9 and 11 whole entries.
    written = {5: 2 * 40, 9: 2048, 10: 3 * 40, 11: 2048}
    assert {e: int((outcome.powered[e] == 11).sum()) for e in written} == written
    assert outcome.powered.sum() == sum(written.values()) * 11
    # Entry 5, block 1: base 6 at component 16 from cycle 6 on, and base 1 in [0, 6).
    assert one_cycles(outcome, 5, 16, bit=0) == 6
    assert one_cycles(outcome, 5, 16, bit=1) == 5
    # The code of two zero deltas, 0x3f, is at component 17.
    assert outcome.ones[5, 32 * 17 : 32 * 17 + 8].tolist() == [11] * 6 + [0, 0]


def test_rrcd_compressed_value_leaves_the_rest_of_the_block():
    trace = trace_of(
        [
            alloc(0, 0, 1),
            write(0, 0, 0, ONES - 2, lanes=ALL_LANES >> 1),
            release(2, 0),
            alloc(4, 0, 1),
            write(4, 0, 0, pattern(0, 1, 8)),
            release(6, 0),
        ],
        cycles=10,
    )
    outcome = replay(trace, "rrcd")
    # Entry 0 holds 0xfffffffd in lanes 0 ... 62; from 4 on block 0 starts with 00 00 00 00 18.
    assert one_cycles(outcome, 0, 0, bit=31) == 4
    assert outcome.ones[0, 32:40].tolist() == [4, 0, 4, 10, 10, 4, 4, 4]  # 0xfd, then 3 << 3
    assert one_cycles(outcome, 0, 1, bit=8) == 10  # second byte of component 1: untouched
    assert one_cycles(outcome, 0, 62, bit=0) == 10
    assert on_cycles(outcome, 0, 63) == 0
    assert counted(outcome) == {"to_reliable": 2}


def test_rrcd_change_of_state_frees_the_old_home_first():
    trace = trace_of(
        [
            alloc(0, 0, 1),
            write(0, 0, 0, pattern(1)),  # entry 4, block 0
            write(1, 0, 0, UNEVEN),  # the only entry: possible only if block 0 was freed
            write(2, 0, 0, 1, lanes=1),  # uncompressed before and after: regular
            write(3, 0, 0, pattern(1)),  # entry 4, block 0
            write(4, 0, 0, 1, lanes=1),  # divergent: MOV, redirected
            release(5, 0),
        ]
    )
    outcome = replay(trace, "rrcd", fault_map=fault_map_of([4]))
    assert counted(outcome) == {"to_reliable": 4, "regular": 1, "mov_writes": 1}


def test_rrcd_spills_and_tries_again_at_every_write():
    trace = trace_of(
        [
            alloc(0, 0, 1),
            alloc(0, 1, 3),
            write(1, 0, 0, UNEVEN),  # the only reliable entry, 4
            write(2, 1, 1, UNEVEN),  # spilled from 2
            read(3, 1, 1),
            write(4, 1, 2, UNEVEN),  # spilled from 4
            write(5, 1, 1, UNEVEN),  # spilled again
            release(6, 0),
            write(7, 1, 2, UNEVEN),  # entry 4 is free: home
            read(7, 1, 1),
            read(7, 1, 2),
            read(7, 1, 0),  # never written: the slice is asked
            write(8, 1, 1, pattern(0)),  # no block free in 4: spilled, compressed
            release(9, 1),
        ],
        cycles=9 + 1,
    )
    outcome = replay(trace, "rrcd", fault_map=fault_map_of([4]))
    assert counted(outcome) == {
        "to_reliable": 2,
        "lds": 4,
        "lds_reads": 2,
        "slice_reads": 2,
        "peak_spilled_rows": 2,
        "spilled_row_cycles": 2 * 1 + 3 * 2 + 2 * 1,  # [2, 4) one, [4, 7) two, [7, 9) one
    }


def test_rrcd_counts_mispredictions_of_full_writes():
    hopeful = pattern(1, 1, 8)
    hopeful[16] += 1  # the first block fits, the register does not
    trace = trace_of(
        [
            alloc(0, 0, 2),
            write(0, 0, 0, hopeful),
            write(1, 0, 1, hopeful, lanes=ALL_LANES - 1),  # divergent: no speculation
            write(2, 0, 0, pattern(0, 1, 128)),  # its first block is over the limit
            release(3, 0),
        ]
    )
    for technique in ("rrcd", "rrcd+pg", "rrcd+rc+rar"):
        assert replay(trace, technique).counters["mispredicted_writes"] == 1
    assert replay(trace, "rrcd", delta_limit=None).counters["mispredicted_writes"] == 1
    assert replay(trace, "rc").counters["mispredicted_writes"] == 0


def test_rrcd_pg_switches_blocks():
    trace = trace_of(
        [
            alloc(0, 0, 2),
            write(1, 0, 0, pattern(1)),  # entry 0, block 0, from 1
            write(2, 0, 1, pattern(1)),  # entry 0, block 1, from 2
            write(4, 0, 0, UNEVEN),  # entry 1 from 4, a wake-up; block 0 of entry 0 off
            write(7, 0, 1, UNEVEN),  # block 1 is freed first: whole entry 0 from 7, a wake-up
            write(9, 0, 0, pattern(1)),  # entry 1 off; nothing in part use: entry 1 block 0, from 9
            release(12, 0),
        ],
        cycles=15,
    )
    outcome = replay(trace, "rrcd+pg")
    blocks = outcome.powered[0].reshape(4, 512)
    assert (blocks[0] == 3 + 5).all()  # [1, 4) and [7, 12)
    assert (blocks[1] == 5 + 5).all()  # [2, 7) and [7, 12)
    assert (blocks[2:] == 5).all()
    blocks = outcome.powered[1].reshape(4, 512)
    assert (blocks[0] == 5 + 3).all()
    assert (blocks[1:] == 5).all()
    assert counted(outcome) == {"to_reliable": 5, "wakeups": 2}


# ---- redirection, table storage, rotating selectors ------------------------------------------


def test_rrcd_rc_rar_scans_from_the_selector_on():
    trace = trace_of(
        [
            alloc(0, 0, 3),  # selector at 6
            write(0, 0, 0, UNEVEN),  # reliable entries are 2, 5, 9: 9
            write(1, 0, 1, UNEVEN),  # wraps: 2
            write(2, 0, 2, pattern(0)),  # table: regular
            alloc(3, 1, 3),
            write(4, 0, 0, pattern(0)),  # table: regular, 9 is off from 4
            write(5, 1, 0, UNEVEN),  # 9
            write(6, 1, 1, UNEVEN),  # 5
            write(7, 0, 0, UNEVEN),  # none left: LDS; compressed before, but not woken up
            write(8, 0, 0, pattern(0)),  # table: regular
            write(9, 0, 0, 0, lanes=1),  # MOV; LDS
            release(10, 0),
            release(10, 1),
        ],
        cycles=12,
    )
    outcome = replay(trace, "rrcd+rc+rar", fault_map=fault_map_of([2, 5, 9]), offset=5)
    assert (outcome.powered[9] == 4 + 5).all()  # [0, 4) and [5, 10)
    assert (outcome.powered[2] == 9).all()
    assert (outcome.powered[5] == 4).all()
    assert outcome.powered.sum() == (9 + 9 + 4) * 2048
    assert counted(outcome) == {
        "to_reliable": 4,
        "regular": 3,
        "lds": 2,
        "mov_writes": 1,
        "peak_spilled_rows": 1,
        "spilled_row_cycles": 2,
    }
    # Starting from 4 the first window scans from 5: entries 5 and 9, then from 6: 9 is taken.
    outcome = replay(trace, "rrcd+rc+rar", fault_map=fault_map_of([2, 5, 9]), offset=4)
    assert (outcome.powered[5] == 4 + 4).all()  # [0, 4) and, second in the wrap after 2, [6, 10)
    assert (outcome.powered[9] == 9).all()  # [1, 10)
    assert (outcome.powered[2] == 5).all()  # [5, 10)
