"""Energy, slowdown and area: by hand on a tiny trace, parts against totals, what is refused."""

import dataclasses
import random
from importlib.resources import files

import numpy as np
import pytest
from activity_cases import activity, life_of_a_register
from engine_cases import possible_techniques, seeded_fault_maps
from tables import each
from trace_strategies import random_trace

from mcage.costs import (
    CONVENTIONAL,
    Energy,
    Penalty,
    Slowdown,
    area,
    conventional,
    energy,
    load_costs,
    slowdown,
    suav,
    units_of,
)
from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.spec import SweepSpec
from mcage.techniques import TECHNIQUES, Gating, Placement, Storage, Technique

COSTS = load_costs()
OLD, NEW = COSTS.technology("32nm"), COSTS.technology("28nm")
T = 120
"""Cycles, and nanoseconds, of a pass of the tiny trace."""


def weighed(name, technology, **options):
    return energy(activity(life_of_a_register(), name), TECHNIQUES[name], technology, **options)


def parts(one):
    """Parts that are not 0, by name; one instance."""
    values = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    assert all(value.shape == (1,) for value in values.values())
    return {name: value[0] for name, value in values.items() if value[0]}


def test_conventional_by_hand():
    one = energy(conventional(life_of_a_register()), CONVENTIONAL, OLD)
    expected = {
        "slice_leakage": 75.86 * T,
        "slice_reads": 3 * 4 * 295.86,
        "slice_writes": 5 * 4 * 365.91,
    }
    assert parts(one) == pytest.approx(expected)
    assert one.static == pytest.approx([75.86 * T])
    assert one.total == pytest.approx([75.86 * T + 12 * 295.86 + 20 * 365.91])


def test_constants_of_ones_own_by_hand(tmp_path):
    """Reads of the slice at twice the energy; then the same for another slice than the trace's."""
    path = tmp_path / "mine.toml"
    text = files("mcage").joinpath("data", "costs.toml").read_text(encoding="utf-8")
    path.write_text(text.replace("value = 295.86", "value = 591.72", 1))
    mine = SweepSpec(costs={"tables": path, "technology": "32nm"}).costs
    one = energy(conventional(life_of_a_register()), CONVENTIONAL, mine.of_technology)
    expected = 75.86 * T + 12 * 2 * 295.86 + 20 * 365.91
    assert one.total == pytest.approx([expected])
    assert parts(weighed("rc", mine.of_technology)) == pytest.approx(
        parts(weighed("rc", OLD)) | {"slice_reads": (2 + 4 + 1) * 2 * 295.86}
    )
    assert mine.caveat_on(GCN).startswith("energy and slowdown rest on user-defined constants of")
    path.write_text('geometry = "nvidia"\n' + text)
    other = SweepSpec(costs={"tables": path, "technology": "32nm"}).costs
    assert np.isnan(weighed("rc", other.of_technology).total).all()
    assert "energy is unknown, since they are those of slices of 512 x 32" in other.caveat_on(GCN)


def test_table_by_hand():
    expected = {
        "slice_leakage": 75.86 * 50 / 256,
        "slice_reads": (2 + 4 + 1) * 295.86,  # two compressed, one not, the MOV's
        "slice_writes": (5 * 4 + 4) * 365.91,
        "compression_leakage": (8.46 + 2 * 8.00) * T,
        "compression_dynamic": 1.10 * 12 + 0.96 * 4 * 3,
        "table_leakage": 0.13 * T,
        "table_dynamic": 1.25 * 4 + 66.49 * 4,
        "wakeups": 2 * 232.88,
    }
    assert parts(weighed("rc", OLD)) == pytest.approx(expected)
    # 3.9 times as long, 468 cycles: one refresh.
    longer = weighed("rc", OLD, slowdown=2.9)
    expected["table_dynamic"] += 1.25 + 66.49
    for leaking in ("slice_leakage", "compression_leakage", "table_leakage"):
        expected[leaking] *= 3.9
    assert parts(longer) == pytest.approx(expected)


def test_inline_by_hand():
    found = parts(weighed("wc", OLD))
    assert found.keys() == {
        "slice_leakage",
        "slice_reads",
        "slice_writes",
        "compression_leakage",
        "compression_dynamic",
        "wakeups",
    }
    assert found["slice_reads"] == pytest.approx((2 * 2 + 4 + 1) * 295.86)
    assert found["slice_writes"] == pytest.approx((5 * 4 + 4) * 365.91)
    assert found["compression_leakage"] == pytest.approx((7.01 + 2 * 8.03) * T)
    assert found["compression_dynamic"] == pytest.approx(0.76 * 12 + 0.79 * 4 * 3)
    assert found["wakeups"] == pytest.approx(232.88 * (71 + 189 + 252) / 256)


def test_blocks_by_hand():
    expected = {
        "slice_leakage": 30.79 * T,
        "slice_reads": (2 + 4 + 1) * 84.38,
        "slice_writes": (2 + 3 * 4 + 4 + 1) * 97.68,  # the MOV, and a block in vain
        "compression_leakage": (6.67 + 2 * 7.14) * T,
        "compression_dynamic": 0.72 * 12 + 0.62 * 4 * 3,
        "redirection_leakage": (0.41 + 15.41) * T,
        # TR: every source and destination and the MOV; USR: every write; buffer: two compressed
        # values and the wrong guess in, that one out.
        "redirection_dynamic": 0.54 * 9 + 0.50 * 4 + 0.22 * 5 + 4 * 2.5 * (3 + 1),
    }
    assert parts(weighed("rrcd", NEW, vdd_volts=0.419)) == pytest.approx(expected)


def test_spilled_registers_by_hand():
    faulty = np.full((1, 256), 0b0111, dtype=np.uint8)
    did = activity(life_of_a_register(), "rrcd", faulty)
    one = energy(did, TECHNIQUES["rrcd"], NEW)
    assert one.lds == pytest.approx([4 * (247.38 * 1 + 302.23 * 3)])
    assert one.slice_reads == pytest.approx([(2 + 1) * 247.38])


def test_smoothing_is_a_conventional_slice_at_600_mv():
    did = conventional(life_of_a_register())
    full, smooth = energy(did, CONVENTIONAL, NEW), suav(did, NEW, COSTS)
    assert smooth.static == pytest.approx(full.static * 0.75)
    assert smooth.dynamic == pytest.approx(full.dynamic * 0.75**2)
    assert parts(smooth).keys() == {"slice_leakage", "slice_reads", "slice_writes"}


@each("technology", [OLD, NEW])
@each("name", possible_techniques())
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
    table = technique.storage is Storage.TABLE
    assert (values["table_leakage"] > 0).all() == table
    compresses = technique.storage is not Storage.PLAIN
    assert (values["compression_leakage"] > 0).all() == compresses
    assert (values["redirection_leakage"] > 0).all() == technique.redirects
    gates = technique.gating in (Gating.EMPTY, Gating.IDLE_WINDOWS)
    assert gates or not values["wakeups"].any()


def test_every_part_is_in_the_total():
    ones = {field.name: np.ones(2) for field in dataclasses.fields(Energy)}
    assert Energy(**ones).total.tolist() == [len(ones)] * 2


def test_redirection_without_compression_has_nothing_to_speculate_about():
    technique = Technique("mine", Placement.REDIRECT, Storage.PLAIN, Gating.UNUSED, "", "")
    units = units_of(technique, NEW)
    assert (units.redirection, units.speculates, units.compression) == (True, False, None)
    did = activity(life_of_a_register(), technique)
    assert not slowdown(did, technique, NEW, COSTS.penalties).pipeline.any()
    redirecting = 0.54 * 8 + 0.50 * 1 + 0.22 * 5
    assert energy(did, technique, NEW).redirection_dynamic == pytest.approx([redirecting])


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf"), [0.1, -0.1]])
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
