"""Lives that end since too many writes go to the LDS, though there is room."""

import numpy as np
import pytest
from fault_cases import assert_ends_at, becomes_faulty_at
from life_cases import YEAR, cell, lived, random_values, steady_trace, tail_of, whole_entries
from rare_cases import KERNELS, engine, spec_of
from sweep_cases import small_sweep

from mcage.lifetime.end_cause import EndCause
from mcage.studies.rare_events.case import rare_case
from mcage.variation.fault_models import fault_model

ROWS = random_values(3)
THREE_ROWS = steady_trace(ROWS)


def reliable(*entries, failing=()):
    """Tail of a slice in which only these entries are reliable, some up to a given year."""
    tail = whole_entries(set(range(256)) - set(entries))
    for entry, years in failing:
        tail |= {cell(entry, 512 * block): becomes_faulty_at(years * YEAR) for block in range(4)}
    return tail_of(tail)


def test_a_third_of_the_writes_spilled_from_the_start():
    """Three rows in two entries; a rate that equals the limit does not exceed it."""
    for limit, cause in [
        (0.0, EndCause.SPILL_LIMIT),
        (0.3333, EndCause.SPILL_LIMIT),
        (1 / 3, EndCause.CENSORED),
        (1.0, EndCause.CENSORED),
    ]:
        life = lived([THREE_ROWS], "rrcd", reliable(10, 20), spill_limit=limit)
        assert life.end.cause == [cause], limit
        assert life.end.seconds == [10 * YEAR if cause == EndCause.CENSORED else 0]
        assert life.spills.peak_rows == [cause == EndCause.CENSORED]


def test_the_limit_is_passed_inside_an_epoch():
    tail = reliable(10, 20, failing=[(20, 3.4)])
    life = lived([THREE_ROWS], "rrcd", tail, spill_limit=0.5)
    assert_ends_at(life, 3.4 * YEAR, EndCause.SPILL_LIMIT)
    assert life.writes.fractions[0] == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=1e-2)
    assert lived([THREE_ROWS], "rrcd", tail, spill_limit=0.7).end.cause == [EndCause.CENSORED]


@pytest.mark.parametrize(
    ("limit", "lds_rows", "cause", "years"),
    [
        (0.2, 1, EndCause.SPILL_LIMIT, 2.4),
        (0.5, 1, EndCause.NO_HOME, 2.6),
        (0.5, 0, EndCause.NO_HOME, 2.4),
        (0.5, 2, EndCause.SPILL_LIMIT, 2.6),
        (0.2, 0, EndCause.NO_HOME, 2.4),  # both at once: there is no room
    ],
)
def test_the_first_of_two_causes_ends_the_life(limit, lds_rows, cause, years):
    """Entry 20 fails after 2.4 years and entry 30 after 2.6, in the same epoch."""
    tail = reliable(10, 20, 30, failing=[(20, 2.4), (30, 2.6)])
    life = lived([THREE_ROWS], "rrcd", tail, spill_limit=limit, lds_rows=lds_rows)
    assert_ends_at(life, years * YEAR, cause)


def test_what_counts_is_the_kernel_that_runs():
    """Two rows fit into the two entries; with the third one, the life ends where its kernel begins.

    The mean over both kernels would be below the limit.
    """
    traces = [steady_trace(ROWS[:2]), THREE_ROWS]
    kernels = [9 * [0] + [1]]
    life = lived(traces, "rrcd", reliable(10, 20), kernels=kernels, spill_limit=0.3)
    assert life.end.cause == [EndCause.SPILL_LIMIT]
    assert life.end.seconds == [9 * YEAR]
    assert life.writes.fractions[0].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("technique", ["baseline", "rc+rar", "disable"])
def test_techniques_that_never_spill_do_not_hear_of_it(technique):
    life = lived([THREE_ROWS], technique, spill_limit=0.0)
    assert life.end.cause == [EndCause.CENSORED]


@pytest.fixture(scope="module")
def sweeps():
    """A sweep without a limit, and with one that some lives keep and others do not.

    As recorded, BlackScholes all but fills the slice and spills much.
    """
    options = {
        "techniques": ["baseline", "rrcd"],
        "environments": ["undervolted"],
        "workload": {
            "kernels": list(KERNELS),
            "periods": 2,
            "generations": 2,
            "release": "work-group",
        },
        "registers": {"lds_rows": 256},
    }
    return [
        small_sweep(**options, life={"epochs": 2} | limit).compute(0, 20)
        for limit in ({}, {"spill_limit": 0.25})
    ]


def test_a_limit_shortens_lives_of_slices_that_spill_and_no_others(sweeps):
    free, limited = sweeps
    assert (free["end_cause"] != EndCause.SPILL_LIMIT).all()
    worn_out = limited["end_cause"] == EndCause.SPILL_LIMIT
    assert 0 < worn_out[1].sum() < 20
    assert not worn_out[0].any(), "baseline spills nothing"
    assert (limited["life_years"] <= free["life_years"]).all()
    assert np.array_equal(limited["life_years"][~worn_out], free["life_years"][~worn_out])
    assert (limited["spill_rate"][limited["end_cause"] == EndCause.CENSORED] <= 0.25).all()


def test_rare_deaths_include_those_beyond_the_limit():
    """The same slices: those that die without a limit, and those that spill too much."""
    instances, causes = np.arange(24), []
    for life in ({"epochs": 3}, {"epochs": 3, "spill_limit": 0.1}):
        spec = spec_of("rrcd", vdd_volts=0.419, life=life, registers={"lds_rows": 64})
        case = rare_case(spec, 0.0, engine())
        cells = fault_model("common", "varius").sample(3, instances, case.floor_volts)
        causes.append(case.cause(case.lives.draw(3, instances), cells, case.luck(3, instances)))
    free, limited = causes
    assert set(free) == {EndCause.CENSORED, EndCause.NO_HOME}
    assert (limited[free == EndCause.NO_HOME] == EndCause.NO_HOME).all(), "dead on arrival"
    assert (limited[free == EndCause.CENSORED] == EndCause.SPILL_LIMIT).any()
