"""Constants of the costs: as printed, and refused where they cannot be meant."""

import dataclasses
import random
import re
import tomllib
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from activity_cases import (
    ENGINE,
    activity,
    compressed_entry_cycles,
    gated_entry_cycles,
    life_of_a_register,
    replay_of,
    with_idle_entries_on,
)
from engine_cases import (
    daily,
    daily_policies,
    possible_techniques,
    seeded_fault_maps,
    with_full_masks,
)
from places import ROOT
from tables import each
from trace_strategies import SPILLING, alloc, random_trace, read, release, trace_of, write

from mcage.costs.activity import CONVENTIONAL, KernelActivity, conventional, of_all, used_entries
from mcage.costs.energy import (
    CostedSlices,
    Energy,
    Slowdown,
    area,
    energy,
    slowdown,
    suav,
    units_of,
)
from mcage.engines.interface import fault_free_maps
from mcage.errors import UserError
from mcage.geometry import GCN, NVIDIA
from mcage.replays.outcome import EVENTS, Event
from mcage.replays.prepare import prepare
from mcage.spec import SweepSpec
from mcage.spec.cost_constants import Component, LowVdd, Penalties, Penalty, load_costs
from mcage.techniques import TECHNIQUES, Gating, Placement, Storage, Technique
from mcage.traces.patterns import classify, compressible, first_block_fits

SHIPPED = files("mcage").joinpath("data", "costs.toml").read_text(encoding="utf-8")


def test_constants_are_the_printed_ones():
    costs = load_costs()
    old, new = costs.technology("32nm"), costs.technology("28nm")
    assert (old.slice.read_pj, old.slice.write_pj, old.slice.leakage_mw) == (295.86, 365.91, 75.86)
    assert old.refresh_period_cycles == 465  # Valero et al., section 5.1.3
    logic = old.compression_unit.leakage_mw + 2 * old.decompression_unit.leakage_mw
    assert logic / old.slice.leakage_mw == pytest.approx(0.32, abs=0.005)
    # Toca-Diaz et al., section IV.E: power of all components at nominal Vdd.
    added = new.compression_unit, new.redirection_table, new.selection_unit
    power = sum(unit.leakage_mw for unit in added) + 2 * new.decompression_unit.leakage_mw
    assert power == pytest.approx(36.77)
    assert costs.smoothing_vdd_volts == 0.6


def test_the_slice_lies_on_one_curve_in_vdd():
    """Through the nominal constants, and between the printed rows; none without rows."""
    new, old = (load_costs().technology(name) for name in ("28nm", "32nm"))
    # Means of the logarithms by Toca-Diaz et al. (RRCD), Table II, weighted by those of Vdd.
    assert new.access_exponent == pytest.approx(1.8173, abs=5e-5)
    assert new.slice_at(0.8).read_pj == new.slice.read_pj
    half = new.slice_at(0.4)
    assert half.leakage_mw == pytest.approx(58.58 / 2)
    assert half.read_pj == pytest.approx(247.38 / 2**1.8173, rel=1e-4)
    assert half.write_pj / half.read_pj == pytest.approx(302.23 / 247.38)
    off = [
        (at.read_pj / row.read_pj * at.write_pj / row.write_pj) ** 0.5 - 1
        for row in new.low_vdd
        for at in [new.slice_at(row.vdd_volts)]
    ]
    assert off == pytest.approx([-0.070, 0.251, -0.074], abs=1e-3)  # results/costs.md
    assert old.access_exponent == 2
    assert old.slice_at(0.5).read_pj == pytest.approx(old.slice.read_pj / 4)
    around = [new.slice_at(volts).read_pj for volts in (0.418, 0.419, 0.42)]
    assert around[2] - around[1] == pytest.approx(around[1] - around[0], rel=0.01)


def test_rows_that_follow_a_power_of_vdd_give_that_power():
    new = load_costs().technology("28nm")
    rows = tuple(
        LowVdd(volts, 247.38 * (volts / 0.8) ** 1.5, 302.23 * (volts / 0.8) ** 1.5, 1.0)
        for volts in (0.3, 0.5)
    )
    assert replace(new, low_vdd=rows).access_exponent == pytest.approx(1.5)
    # A row at the nominal Vdd, or without accesses, says nothing.
    nothing = (LowVdd(0.8, 250.0, 310.0, 60.0), LowVdd(0.5, 0.0, 0.0, 30.0))
    assert replace(new, low_vdd=nothing).access_exponent == 2


def test_printed_rows_where_they_are_asked_for():
    """At their voltages; linear and quadratic law elsewhere, a hair off them too."""
    new = load_costs().technology("28nm", "rows")
    assert new.slice_at(None) == new.slice
    common, half, hair = map(new.slice_at, (0.419, 0.4, 0.42))
    assert (common.read_pj, common.write_pj, common.leakage_mw) == (84.38, 97.68, 30.79)
    assert (new.slice_at(0.497).read_pj, new.slice_at(0.371).leakage_mw) == (84.90, 27.73)
    expected = (58.58 / 2, 247.38 / 4, 302.23 / 4)
    assert (half.leakage_mw, half.read_pj, half.write_pj) == pytest.approx(expected)
    assert hair.read_pj == pytest.approx(247.38 * (0.42 / 0.8) ** 2)


def test_energies_that_do_not_lie_on_one_curve_are_said():
    new, old = (load_costs().technology(name, "rows") for name in ("28nm", "32nm"))
    note = new.note_on_mixture({0.8, 0.44, 0.419, 1.0, 0.5, 0.371})
    assert "at 0.371, 0.419 V is that of printed constants, and at 0.44, 0.5 V" in note
    assert "at 0.371 (+28%), 0.419 (+24%) V" in note
    curve = load_costs().technology("28nm")
    for technology, alike in [
        *((new, volts) for volts in ({0.419, 0.497, 0.8}, {0.42, 0.44, 0.8}, {1.0, 0.8, 0.419})),
        *((of, {0.419, 0.44}) for of in (old, curve)),
    ]:
        assert technology.note_on_mixture(alike) == ""


GEOMETRY = "geometry = { entries = 512, components = 32, block_components = 32 }\n"


def changed(old, new):
    assert re.search(old, SHIPPED, re.M)
    return re.sub(old, new, SHIPPED, count=1, flags=re.M)


PREFIX_OF_NO_TABLE = "[28nm.low_vdd]\nx = 1\n[28nm.low_vdd.common]"


@each(
    ("text", "message"),
    [
        (changed(r"value = 295.86", 'value = "much"'), r"\[32nm.slice\] read_pj = 'much': a numb"),
        (changed(r"value = 295.86", "value = -1"), r"\[32nm.slice\] read_pj = -1: must be 0 or ab"),
        (changed(r"value = 295.86", "value = inf"), r"32nm.slice.read_pj.value = inf must be a fi"),
        (changed(r"value = 295.86", "value = 07:32:00"), r"read_pj.value = 07:32:00 must be no"),
        (changed(r"value = 295.86", "value = true"), r"read_pj = True: a number"),
        (changed(r"value = 295.86", "value = 0"), r"\[32nm.slice\] read_pj = 0: must be above 0"),
        (changed(r'"pJ"', '"nJ"'), r"\[32nm\] wakeup_pj: unit 'nJ', where 'pJ'"),
        (changed(r'"printed"', '"guessed"'), r"\[32nm\] clock_ghz: status 'guessed', one of print"),
        (changed(r'source = "[^"]*"', 'source = " "'), r"clock_ghz: source ' ', where a text"),
        (changed(r', source = "[^"]*"', ""), r"clock_ghz: value, unit, status and source"),
        (changed(r"^retention_cycles = .*$", ""), r"\[32nm\] retention_cycles is missing"),
        (
            changed(r"value = 119048", "value = 255"),
            r"retention_cycles = 255: must be at least 256",
        ),
        (changed(r"^clock_ghz", "clock_mhz"), r"\[32nm\] clock_mhz is unknown; known are clock_gh"),
        (changed(r"^\[32nm.lds\]", "[32nm.lsd]"), r"\[32nm.lds\] is missing"),
        (changed(r"^\[smoothing\]", "[smoothed]"), r"\[smoothing\] is missing"),
        (changed(r"value = 0.0416", "value = 1.5"), r"hidden_fraction\] wakeup = 1.5: a fraction"),
        ('geometry = "amd"\n' + SHIPPED, "geometry = 'amd': unknown geometry 'amd'; choose one of"),
        ("geometry = 32\n" + SHIPPED, "geometry = 32: the name of a preset, or whole numbers"),
        ("geometry.entries = 512\n" + SHIPPED, r"geometry = \{'entries': 512\}: the name of a"),
        (GEOMETRY.replace("512", "500") + SHIPPED, "500.*: geometry: entries is 500, must be 64"),
        (SHIPPED[SHIPPED.index("[smoothing]") :], "no technology in it"),
        (changed(r"^\[28nm.low_vdd.common\]", PREFIX_OF_NO_TABLE), r"low_vdd.x\]: a table of con"),
        ("[32nm", "not TOML"),
        (None, "cannot read the file"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    path = tmp_path / f"{'mine' if text else 'nowhere'}.toml"
    if text:
        path.write_text(text)
    with pytest.raises(UserError, match=message) as refused:
        load_costs(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_names_technologies_and_the_slice_of_its_constants(tmp_path):
    path, shapes = tmp_path / "mine.toml", []
    for line in ("", 'geometry = "nvidia"\n', GEOMETRY):
        path.write_text(line + SHIPPED.replace("[32nm", "[22nm").replace("295.86", "200"))
        mine = load_costs(path).technology("22nm")
        shapes.append(mine.geometry.shape)
        assert mine.slice.read_pj == 200
        assert mine.refresh_period_cycles == 119048 // mine.geometry.entries
    assert shapes == [GCN.shape, NVIDIA.shape, (512, 32, 32)]
    with pytest.raises(UserError, match="technology '45nm' is unknown; choose from 22nm, 28nm"):
        load_costs(path).technology("45nm")
    with pytest.raises(UserError, match="above 0 and at most 2 V"):
        mine.slice_at(float("nan"))


@each("name", ["32nm", "28nm"])
def test_the_page_has_the_same_constants(name):
    """Rows of the tables in results/costs.md, and their status words, against the file."""
    page = (ROOT / "results" / "costs.md").read_text(encoding="utf-8")
    table = page.partition(f"| {name.replace('nm', ' nm')} | read |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.M)
    constants = tomllib.loads(SHIPPED)[name]
    components = [key for key, entry in constants.items() if "read_pj" in entry]
    assert [row[0] for row in rows] == components
    for component, cells in rows:
        *values, status = cells.split(" | ")
        entries = constants[component].values()
        assert [float(value) for value in values] == [entry["value"] for entry in entries]
        assert {entry["status"] for entry in entries} == {re.match(r"\w+", status)[0]}


# What a slice does: by hand on tiny traces, and against what the engines find in the cells.

COSTS = load_costs()
OLD, NEW = COSTS.technology("32nm"), COSTS.technology("28nm")
T = 120
"""Cycles, and nanoseconds, of a pass of the tiny trace."""


def parts(one):
    """Parts that are not 0, by name; one instance."""
    values = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    assert all(value.shape == (1,) for value in values.values())
    return {name: value[0] for name, value in values.items() if value[0]}


POLICIES = daily(possible_techniques(), daily_policies())
SHAPE = {"slots": (1, 3), "window_sizes": (3, 6), "events": 60}


# ---- by hand ---------------------------------------------------------------------------------


def test_conventional_by_hand():
    one = energy(conventional(life_of_a_register()), CONVENTIONAL, OLD)
    reads, writes = 3 * 4 * 295.86, 5 * 4 * 365.91
    expected = {"slice_leakage": 75.86 * T, "slice_reads": reads, "slice_writes": writes}
    assert parts(one) == pytest.approx(expected)
    assert one.static == pytest.approx([75.86 * T])
    assert one.total == pytest.approx([75.86 * T + reads + writes])


@each("name", ["rc", "rc+rar"])
def test_entries_that_stay_on_while_they_are_idle(name):
    """As the energy of Valero et al. is to be read, which a script and a validation do."""
    trace = life_of_a_register()
    on = with_idle_entries_on(activity(trace, name), trace, name)
    assert on.gating.powered_entry_cycles == [2 * 120 - 40]
    assert gated_entry_cycles(on) == [256 * 120 - 200]


@each(("name", "cycles", "opened"), [("argo", 100, 2), ("baseline", 120, 0)])
def test_windows_by_hand(name, cycles, opened):
    """Not written is not idle; and without gating, an entry in use is on throughout."""
    did = activity(life_of_a_register(), name)
    assert did.gating.powered_entry_cycles == [2 * cycles]
    assert did.gating.opened_entries == opened
    assert did.gating.wakeups == [0]


def test_entries_that_are_used_at_the_same_time():
    """Three windows one after the other in one slot, two of them beside one in another."""
    events = [write(1, 0, 0, 5)]
    for begin, slot in [(0, 0), (20, 0), (25, 1), (40, 0)]:
        events += [alloc(begin, slot, 4), release(begin + 10, slot)]
    trace = trace_of(events)
    did, used = activity(trace, "argo"), used_entries(replay_of(trace, "argo"))
    assert (used, did.gating.opened_entries) == (8, 16)


def test_blocks_by_hand():
    gated = activity(life_of_a_register(), "rrcd+pg")
    assert gated.gating.powered_entry_cycles == [40 / 4 + 50]
    assert gated.gating.opened_entries == 2 / 4 + 2
    assert used_entries(replay_of(life_of_a_register(), "rrcd+pg")) == 256


@each(("name", "vain"), [("rrcd", 1), ("rrcd+pg", 1), ("rrcd+rc+rar", 0)])
def test_only_blocks_are_written_in_vain(name, vain):
    """A first block that fits goes to no home where values are stored in the table: costs.md."""
    technology, did = load_costs().technology("28nm"), activity(life_of_a_register(), name)
    assert did.compression.mispredictions == 1
    blocks = did.writes.slice_blocks(GCN) + 4 * did.compression.movs + vain
    written = energy(did, TECHNIQUES[name], technology).slice_writes
    assert written == pytest.approx(technology.slice.write_pj * blocks)


def test_rows_in_a_table_have_no_block():
    did = activity(life_of_a_register(), "rrcd+rc+rar")
    assert (did.reads.slice_blocks(GCN), did.writes.slice_blocks(GCN)) == ([4], [3 * 4])
    assert did.redirections == [2]  # out of the table, twice
    assert did.gating.wakeups == [2]
    assert did.gating.powered_entry_cycles == [50]


def test_spilled_registers_by_hand():
    """Without a sound block everything is spilled, first of all what is uncompressed."""
    dead = np.full((1, GCN.entries), 0b1111, dtype=np.uint8)
    did = activity(life_of_a_register(), "rrcd+pg", dead)
    assert (did.reads.lds, did.reads.registers, did.reads.slice_blocks(GCN)) == ([3], [3], [0])
    assert (did.writes.lds, did.writes.registers, did.writes.slice_blocks(GCN)) == ([5], [5], [0])
    assert (did.gating.powered_entry_cycles, did.redirections) == ([0], [5])
    faulty = np.full((1, GCN.entries), 0b0111, dtype=np.uint8)
    did = activity(life_of_a_register(), "rrcd+pg", faulty)
    assert (did.reads.lds, did.reads.compressed, did.reads.uncompressed) == ([1], [2], [0])
    assert (did.writes.lds, did.writes.slice_blocks(GCN)) == ([3], [2])
    assert did.redirections == [4 + 1]
    assert did.gating.powered_entry_cycles == [40 / 4]


def test_a_read_before_any_write_is_one_of_an_entry():
    trace = trace_of([alloc(0, 0, 1), read(1, 0, 0), write(2, 0, 0, 5), release(9, 0)])
    did = activity(trace, "rc")
    assert (did.reads.uncompressed, did.reads.compressed) == ([1], [0])


# ---- what always holds ----------------------------------------------------------------------


def random_cases(redirecting=False):
    """Traces, and the fault maps of three slices; with one that spills where that may happen."""
    for seed in range(3):
        shape = SPILLING | {"accesses": (20, 40)} if redirecting and seed == 2 else SHAPE
        yield random_trace(random.Random(seed), **shape), seeded_fault_maps(seed)[[0, 2, 4]]


@pytest.mark.parametrize("name", POLICIES)
def test_every_access_and_every_moment_is_accounted_for(name):
    technique = possible_techniques()[name]
    for trace, fault_maps in random_cases(technique.redirects):
        did = activity(trace, technique, fault_maps)
        for accesses, expected in ((did.reads, trace.reads), (did.writes, trace.writes)):
            assert accesses.registers == pytest.approx(np.full(3, expected))
            for part in ("uncompressed", "compressed", "lds", "compressed_blocks"):
                assert getattr(accesses, part).min() >= 0, part
        powered, gated = did.gating.powered_entry_cycles, gated_entry_cycles(did)
        assert powered + gated == pytest.approx(np.full(3, 256.0 * trace.cycles))
        assert powered.min() >= 0
        # Off because compressed, or empty; neither is less than nothing.
        assert (gated - compressed_entry_cycles(trace, technique)).min() >= -1e-6
        assert did.compression.examined_blocks <= 4 * trace.writes


@pytest.mark.parametrize(
    "name", daily([it for it in possible_techniques() if "/empty/" in it], daily_policies())
)
def test_powered_time_is_that_of_the_cells(name):
    """Under `empty` gating: with whole writes, the powered time of the engine's cells."""
    technique = possible_techniques()[name]
    for trace, fault_maps in random_cases(technique.redirects):
        trace = with_full_masks(trace)
        if technique.packs:  # its windows wait for one another on faults
            fault_maps = fault_free_maps(3)
        replay = prepare(trace, technique)
        did = activity(trace, technique, fault_maps)
        times = ENGINE.cell_times(replay, fault_maps)
        # Of a record, five bytes of a block are overwritten; the others are off if none ever was.
        inline = technique.storage is Storage.INLINE
        firsts = [0, 32, 536, 1040] if inline else [0, 512, 1024, 1536]
        powered = times.powered[:, :, firsts].sum(axis=1) / replay.passes
        powered = powered @ ([4, 63, 63, 126] if inline else [64] * 4) / 256
        if inline:  # unwritten registers have their first component on
            windows, written = replay.schedule.windows, replay.schedule
            opened = (windows.size * (windows.release_cycle - windows.alloc_cycle)).sum()
            powered += 4 / 256 * (opened - (written.end_cycle - written.cycle).sum())
        assert did.gating.powered_entry_cycles == pytest.approx(np.broadcast_to(powered, 3))


def test_examined_blocks_of_every_distinct_value():
    """Against the rule for a whole value: all four blocks if it fits, one if the first does not."""
    for trace, _ in random_cases():
        for value in trace.values[:12]:
            one = trace_of([alloc(0, 0, 1), write(1, 0, 0, value), release(2, 0)])
            blocks = activity(one, "rrcd").compression.examined_blocks
            if compressible(classify(value[None]), 64)[0]:
                assert blocks == 4
            elif not first_block_fits(value[None], GCN, 64)[0]:
                assert blocks == 1
            else:
                assert 2 <= blocks <= 4


# Energy, slowdown and area: by hand on a tiny trace, parts against totals, what is refused.


def weighed(name, technology, **options):
    return energy(activity(life_of_a_register(), name), TECHNIQUES[name], technology, **options)


def test_constants_of_ones_own_by_hand(tmp_path):
    """Reads of the slice at twice the energy; then the same for another slice than the trace's."""
    path = tmp_path / "mine.toml"
    given = {"tables": path, "technology": "32nm"}
    path.write_text(SHIPPED.replace("value = 295.86", "value = 591.72", 1))
    mine = SweepSpec(costs=given).costs
    twice = parts(weighed("rc", OLD)) | {"slice_reads": (2 + 4 + 1) * 2 * 295.86}
    assert parts(weighed("rc", mine.of_technology)) == pytest.approx(twice)
    assert mine.caveat_on(GCN).startswith("energy and slowdown rest on user-defined constants of")
    path.write_text('geometry = "nvidia"\n' + SHIPPED)
    other = SweepSpec(costs=given).costs
    assert np.isnan(weighed("rc", other.of_technology).total).all()
    assert "energy is unknown, since they are those of slices of 512 x 32" in other.caveat_on(GCN)


EXAMINED = 4 + 1 + 4 + 0 + 3
"""Blocks: NOISE does not fit in its first one; two of HALF fit, the third does not."""


@each("name", ["rc", "rc+rar"])
def test_energy_of_table_by_hand(name):
    expected = {
        "slice_leakage": 75.86 * (10 + 10 + 30) / 256,
        # Of two compressed the first block, in vain; one that is not; the MOV's.
        "slice_reads": (2 + 4 + 1) * 295.86,
        "slice_writes": (5 * 4 + 4) * 365.91,  # written while the unit looks at them; the MOV
        "compression_leakage": (8.46 + 2 * 8.00) * T,
        "compression_dynamic": 1.10 * EXAMINED + 0.96 * 4 * (2 + 1),
        "table_leakage": 0.13 * T,
        "table_dynamic": 1.25 * (3 + 1) + 66.49 * (2 + 2),
        "wakeups": 2 * 232.88,
    }
    assert parts(weighed(name, OLD)) == pytest.approx(expected)
    # 3.9 times as long, 468 cycles: one refresh.
    longer = weighed(name, OLD, slowdown=2.9)
    expected["table_dynamic"] += 1.25 + 66.49
    for leaking in ("slice_leakage", "compression_leakage", "table_leakage"):
        expected[leaking] *= 3.9
    assert parts(longer) == pytest.approx(expected)


def test_energy_of_inline_by_hand():
    # Values, and one component of both registers while the window is open.
    powered = 20 * 67 + 10 * 256 + 20 * 4 + 10 * 256 + 30 * 256 + (10 + 100) * 4
    expected = {
        "slice_leakage": 75.86 * powered / 256**2,
        "slice_reads": (2 * 2 + 4 + 1) * 295.86,  # 67 bytes lie in two blocks, those of the MOV
        "slice_writes": (5 * 4 + 4) * 365.91,
        "compression_leakage": (7.01 + 2 * 8.03) * T,
        "compression_dynamic": 0.76 * EXAMINED + 0.79 * 4 * (2 + 1),
        # What is opened, and the rest of what is expanded.
        "wakeups": 232.88 * ((2 * 4 + 63) + (256 - 67) + (256 - 4)) / 256,
    }
    assert parts(weighed("wc", OLD)) == pytest.approx(expected)


def test_energy_of_blocks_by_hand():
    expected = {
        "slice_leakage": 30.79 * T,  # it gates nothing
        "slice_reads": (2 + 4 + 1) * 84.38,
        "slice_writes": (2 + 3 * 4 + 4 + 1) * 97.68,  # the MOV, and a block in vain
        "compression_leakage": (6.67 + 2 * 7.14) * T,
        "compression_dynamic": 0.72 * EXAMINED + 0.62 * 4 * (2 + 1),
        "redirection_leakage": (0.41 + 15.41) * T,
        # TR: every source and destination and the MOV, written first and at three changes of
        # state; USR: every write; buffer: two compressed values and the wrong guess in, that out.
        "redirection_dynamic": 0.54 * 9 + 0.50 * 4 + 0.22 * 5 + 4 * 2.5 * (3 + 1),
    }
    as_printed = COSTS.technology("28nm", "rows")
    assert parts(weighed("rrcd", as_printed, vdd_volts=0.419)) == pytest.approx(expected)


def test_energy_of_spilled_registers_by_hand():
    faulty = np.full((1, 256), 0b0111, dtype=np.uint8)
    did = activity(life_of_a_register(), "rrcd", faulty)
    one = energy(did, TECHNIQUES["rrcd"], NEW)
    assert one.lds == pytest.approx([4 * (247.38 * 1 + 302.23 * 3)])
    assert one.slice_reads == pytest.approx([(2 + 1) * 247.38])


def test_smoothing_is_a_conventional_slice_at_600_mv():
    did = conventional(life_of_a_register())
    full, smooth = energy(did, CONVENTIONAL, NEW), suav(did, NEW, COSTS)
    assert smooth.static == pytest.approx(full.static * 0.75)
    assert smooth.dynamic == pytest.approx(full.dynamic * 0.75**NEW.access_exponent)
    assert parts(smooth).keys() == {"slice_leakage", "slice_reads", "slice_writes"}


@pytest.mark.parametrize("name", POLICIES)
@each("technology", [OLD, NEW])
def test_parts_sum_to_the_total(name, technology):
    """And units are there by policy: what a technique has no unit for takes no energy."""
    technique = possible_techniques()[name]
    trace, fault_maps = random_trace(random.Random(1)), seeded_fault_maps(1)[:3]
    did = activity(trace, technique, fault_maps)
    one = energy(did, technique, technology, vdd_volts=0.5, slowdown=[0, 0.1, 0.2])
    values = {field.name: getattr(one, field.name) for field in dataclasses.fields(Energy)}
    assert all(part.shape == (3,) and part.min() >= 0 for part in values.values())
    assert sum(values.values()) == pytest.approx(one.total)
    assert one.static + one.dynamic == pytest.approx(one.total)
    there = {
        "table_leakage": technique.storage is Storage.TABLE,
        "compression_leakage": technique.storage is not Storage.PLAIN,
        "redirection_leakage": technique.redirects,
    }
    assert {name: (values[name] > 0).all() for name in there} == there
    gates = technique.gating in (Gating.EMPTY, Gating.IDLE_WINDOWS)
    assert gates or not values["wakeups"].any()


def test_redirection_without_compression_has_nothing_to_speculate_about():
    technique = Technique("mine", Placement.REDIRECT, Storage.PLAIN, Gating.UNUSED, "", "")
    units = units_of(technique, NEW)
    assert (units.redirection, units.speculates, units.compression) == (True, False, None)
    did = activity(life_of_a_register(), technique)
    assert not slowdown(did, technique, NEW, COSTS.penalties).pipeline.any()
    redirecting = 0.54 * 8 + 0.50 * 1 + 0.22 * 5
    assert energy(did, technique, NEW).redirection_dynamic == pytest.approx([redirecting])


@each("bad", [-0.1, float("nan"), float("inf"), [0.1, -0.1]])
def test_slowdown_that_cannot_be_meant(bad):
    with pytest.raises(UserError, match="a fraction of 0 or above"):
        weighed("baseline", OLD, slowdown=bad)


# ---- slowdown --------------------------------------------------------------------------------

PENALTIES = dataclasses.replace(
    COSTS.penalties, wakeup=Penalty(10, 0.1), pipeline=Penalty(2, 0.2), lds=Penalty(4, 0.5)
)


def slowed(name, fault_maps=None, technology=OLD):
    did = activity(life_of_a_register(), name, fault_maps)
    return slowdown(did, TECHNIQUES[name], technology, PENALTIES)


def test_slowdown_by_hand():
    short = dataclasses.replace(OLD, retention_cycles=256 * 50.0)
    # Two refreshes; the table is busy in 8 of 120 cycles.
    expected = {"wakeup": 2 / T, "mov": 4 / T, "refresh": 2 * (8 / T) / T}
    assert parts(slowed("rc", technology=short)) == pytest.approx(expected)
    assert parts(slowed("wc")) == pytest.approx({"wakeup": 2 / T, "mov": 4 / T})
    assert parts(slowed("argo")) == parts(slowed("baseline")) == {}
    expected = {"mov": 4 / T, "pipeline": 2 * 0.2 * 5 / T, "misprediction": 4 / T}
    one = slowed("rrcd")
    assert parts(one) == pytest.approx(expected)
    assert one.total == pytest.approx([sum(expected.values())])
    faulty = np.full((1, 256), 0b0111, dtype=np.uint8)
    assert slowed("rrcd", faulty).lds == pytest.approx([2 * 4 / T])  # one read, three writes


def test_every_cause_is_in_the_total():
    ones = {field.name: np.ones(2) for field in dataclasses.fields(Slowdown)}
    assert Slowdown(**ones).total.tolist() == [len(ones)] * 2


# ---- area ------------------------------------------------------------------------------------


def test_areas_as_printed():
    """Valero et al. count one decompression unit of two; Toca-Diaz et al. both."""
    rc = area(TECHNIQUES["rc+rar"], OLD, decompression_units=1)
    logic = sum(rc.added_mm2.values()) - rc.added_mm2["power gating"]
    assert 100 * logic / rc.slice_mm2 == pytest.approx(3.82, abs=0.005)
    assert 100 * rc.overhead == pytest.approx(5.4, abs=0.15)
    both = area(TECHNIQUES["rc+rar"], OLD)
    assert both.added_mm2["decompression units"] == 0.014
    assert 100 * (both.overhead - rc.overhead) == pytest.approx(0.787, abs=0.001)
    rrcd = area(TECHNIQUES["rrcd"], NEW)
    assert sum(rrcd.added_mm2.values()) == pytest.approx(0.038)
    assert 100 * rrcd.overhead == pytest.approx(5.6, abs=0.05)
    assert area(TECHNIQUES["baseline"], OLD).overhead == 0


# Rates of all lives together against those of each moment: equal to the last bit.

LIVES, MOMENTS, TURNS, KERNELS = 5, 3, 3, 2


def slices_of(technique, rng):
    """Two kernels, after the second of which the slice holds for a while."""
    traces = [random_trace(random.Random(seed), **SPILLING) for seed in range(KERNELS)]
    activity = of_all([KernelActivity.of(prepare(trace, technique)) for trace in traces])
    idle, holding = np.array([0.0, 0.7]), np.array([0, 40])
    nothing = np.zeros((KERNELS, EVENTS))
    return CostedSlices(technique, activity, idle, holding, drawn_penalties(rng), (), nothing)


def random_lives(slices, epochs, rng):
    """Seconds, events, kernels and shares of lives; half of the moments are without faults."""
    seconds = rng.random((LIVES, epochs, MOMENTS)) * 1e8
    seconds[0], seconds[1, epochs // 2 :] = 0, 0
    kernel = rng.integers(0, KERNELS, (LIVES, epochs, TURNS))
    weight = rng.random((LIVES, epochs, TURNS))
    weight /= weight.sum(axis=2, keepdims=True)
    fault_free = np.zeros((KERNELS, EVENTS))
    fault_free[:, [Event.REGULAR, Event.MOV]] = rng.random((KERNELS, 2))
    of_pass = slices.activity.undisturbed
    most = 3 * of_pass.writes.registers / of_pass.cycles
    shape = (LIVES, epochs, MOMENTS, TURNS)
    of_turn = np.broadcast_to(kernel[:, :, None], shape)
    events = rng.random((*shape, EVENTS)) * most[of_turn][..., None]
    events[..., Event.SPILLED_ROW] *= 10
    for spilled, in_memory in (Event.LDS, Event.MEMORY), (Event.LDS_READ, Event.MEMORY_READ):
        events[..., in_memory] *= events[..., spilled] / (events[..., spilled].max() + 1)
    sound = rng.random(shape) < 0.5
    events[sound] = fault_free[of_turn[sound]]
    return seconds, events, kernel, weight, fault_free


def one_by_one(slices, technologies, lives, reference):
    """What `CostedSlices.add_up` computes, a turn of a moment of a life after the other."""
    seconds, events, kernel, weight, _ = lives
    products = np.zeros((3 + 2 * len(technologies), *seconds.shape))
    for place in zip(*np.nonzero(seconds), strict=True):
        for turn, share in enumerate(weight[place[:2]]):
            number, happens = kernel[place[:2]][turn, None], events[place][turn, None]
            of_points = []
            for technology, compared in zip(technologies, reference[:-1], strict=True):
                (busy,), (work,), (power,) = slices.rates(number, happens, technology)
                of_points += [power, work * compared[number[0]]]
            at_nominal = work * reference[-1, number[0]]
            products[(slice(None), *place)] += share * np.array(
                [busy, work, at_nominal, *of_points]
            )
    return (products * seconds).sum(axis=(2, 3))


def added_up(slices, technologies, lives, reference):
    *of_lives, fault_free = lives
    known = dataclasses.replace(slices, technologies=tuple(technologies), fault_free=fault_free)
    return known.add_up(*of_lives, reference).sum(axis=(2, 3))


def drawn(rng):
    """A technology in which each unit takes something, and passes are longer than a refresh."""
    technology = COSTS.technology("28nm")
    components = {
        field.name: Component(*rng.random(4))
        for field in dataclasses.fields(technology)
        if isinstance(getattr(technology, field.name), Component)
    }
    given = dict(zip(("clock_ghz", "decompression_units", "wakeup_pj"), rng.random(3), strict=True))
    refresh = 20 * technology.geometry.entries
    return dataclasses.replace(technology, retention_cycles=refresh, **components, **given)


def drawn_penalties(rng):
    return Penalties(*(Penalty(*rng.random(2)) for _ in dataclasses.fields(Penalties)))


@pytest.mark.parametrize("name", daily(possible_techniques(), daily_policies()))
def test_lives_are_the_sums_of_their_moments(name):
    rng = np.random.default_rng(0)
    slices = slices_of(possible_techniques()[name], rng)
    for epochs, points in ((1, 1), (3, 2)):
        technologies = [drawn(rng) for _ in range(points)]
        lives = random_lives(slices, epochs, rng)
        reference = rng.random((len(technologies) + 1, KERNELS))
        expected = one_by_one(slices, technologies, lives, reference)
        computed = added_up(slices, technologies, lives, reference)
        assert not np.isnan(expected).any()
        np.testing.assert_array_equal(computed, expected)
        assert (computed[:, 0] == 0).all(), "a life of zero"


def test_power_of_another_slice_is_unknown_and_its_speed_known():
    rng = np.random.default_rng(1)
    slices = slices_of(TECHNIQUES["rrcd"], rng)
    other = dataclasses.replace(GCN, entries=2 * GCN.entries)
    technology = dataclasses.replace(COSTS.technology("28nm"), geometry=other)
    lives, reference = random_lives(slices, 3, rng), np.ones((2, KERNELS))
    busy, work, _, power, _ = added_up(slices, [technology], lives, reference)
    assert np.isnan(power[1:]).all()
    assert (work[1:] > 0).all()
    assert (work[1:] < busy[1:]).all()
