"""The page on low-voltage life: are its tables chosen as it says, and from the committed data?"""

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from life_cases import (
    NUMBA,
    NUMPY,
    YEAR,
    cell,
    dvth,
    lived,
    random_values,
    rules,
    steady_trace,
    tail_of,
    whole_entries,
)
from low_voltage import CSV, PAGE, REFERENCE, SLOPES
from tables import each
from trace_strategies import alloc, pattern, release, trace_of, write

from mcage.distributions import Distribution
from mcage.engines.interface import fault_free_maps
from mcage.lifetime import EndCause
from mcage.replays.prepare import prepare
from mcage.replays.stored_values import record_codes
from mcage.techniques import TECHNIQUES


def shown_on_the_page(name):
    page = PAGE.read_text(encoding="utf-8")
    table = re.search(rf"<!-- {name} -->\n(.*?)<!-- end", page, re.DOTALL)[1]
    return [line.strip("|").split("|") for line in table.splitlines()[2:]]


def committed(name):
    with (CSV / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def test_the_page_shows_the_committed_years_of_other_physics():
    lines = committed("further")
    physics = [*dict.fromkeys(line["physics"] for line in lines)]
    shown = shown_on_the_page("further")
    assert len(lines) == len(shown) * len(physics)
    assert physics[:3] == ["as above", "growth 0", "growth 2"]
    for name, technique, *years in ([text.strip() for text in row] for row in shown):
        for which, text in zip(physics, years, strict=True):
            (line,) = [
                line
                for line in lines
                if (line["physics"], line["scenario"]) == (which, name)
                and technique == f"`{line['technique']}`"
            ]
            assert float(text.split("±")[0]) == pytest.approx(float(line["years_value"]), abs=0.06)


@each(
    ("slope", "release"),
    [(slope, release) for slope in SLOPES.values() for release in slope.releases],
)
def test_the_page_shows_the_committed_lives(slope, release):
    shown = shown_on_the_page(slope.table(f"lives {release}"))
    lines = [line for line in committed(slope.file("lives")) if line["release"] == release]
    assert len(shown) == len(lines) == 7 * len(slope.scenarios)
    for cells_shown, line in zip(shown, lines, strict=True):
        setting, technique, *_, reach, years, lost, more = (cell.strip() for cell in cells_shown)
        assert setting == f"{line['scenario']} {float(line['vdd_volts']):g} V"
        assert technique == f"`{line['technique']}`"
        percent = float(reach.removesuffix(" %"))
        assert percent == pytest.approx(100 * float(line["reach_value"]), abs=0.05)
        for text, name in ((years, "years"), (lost, "lost_to_aging"), (more, "over_reference")):
            keys = (f"{name}_{key}" for key in ("value", "lower", "upper"))
            value, lower, upper = (float(line[key]) for key in keys)
            if text == "–":
                assert value == 0 or (name, line["technique"]) == ("over_reference", REFERENCE)
                continue
            assert [float(part) for part in text.split("±")] == pytest.approx(
                [value, (upper - lower) / 2], abs=0.06
            )


# What docs/model.md says so that results can be repeated is what the code does.


@each(
    ("delta_e", "delta_b", "code"),
    [(0, 0, 0o77), (1, 0, 0o70), (0, 1, 0o07), (4, 64, 0o62), (128, 256, 0o07)],
)
def test_the_code_of_a_record(delta_e, delta_b, code):
    """Three bits for each delta, the inner one lowest: its exponent, 7 for none."""
    assert record_codes(pattern(5, delta_e, delta_b)[None]).tolist() == [code]


def test_windows_need_all_their_entries():
    """A window of three registers, of which the first alone is written."""
    events = [alloc(0, 0, 3), write(0, 0, 0, random_values(1)[0]), release(99, 0)]
    for technique, cause in [
        ("baseline", EndCause.FAULTY_ENTRY),
        ("rar", EndCause.FAULTY_ENTRY),
        ("wc", EndCause.FAULTY_ENTRY),
        ("rc", EndCause.CENSORED),
    ]:
        life = lived([trace_of(events, 100)], technique, tail_of(whole_entries([2])))
        assert life.end.cause == [cause], technique


def test_ends_by_faults_lie_on_the_grid_of_twelve_halvings():
    zero = steady_trace([np.zeros(64, dtype=np.uint32)])
    for years in (0.321, 4.567):
        cells = {cell(0, bit): 1.0 - dvth(years * YEAR) for bit in (3, 900)}
        life = lived([zero], "baseline", tail_of(cells)).end.seconds[0] / YEAR
        assert life * 4096 == pytest.approx(np.ceil(years * 4096), abs=1e-6)


@each("engine", [NUMPY, NUMBA])
@each("technique", ["rc", "wc", "argo", "rrcd+pg"])
def test_cells_return_with_what_they_held_when_they_were_switched_off(technique, engine):
    """All lanes at '1' for 50 cycles; then, in the same places, a '0' in the first lane alone."""
    ones = random_values(1)[0] | np.uint32(1)
    events = [alloc(0, 0, 200), write(0, 0, 0, ones), release(50, 0)]
    events += [alloc(60, 0, 200), write(60, 0, 0, ones & ~np.uint32(1), lanes=1), release(90, 0)]
    replay = prepare(trace_of(events, 100), TECHNIQUES[technique])
    times = engine.cell_times(replay, fault_free_maps())
    first, other = times.ones[0][:, 0].sum(), times.ones[0][:, 32].sum()
    passes = times.period // 100
    assert (first, other) == (50 * passes, (50 + 30) * passes)


def test_a_slice_that_idles_off_goes_on_as_if_it_had_not():
    """A register that holds a '1' from one pass to its write in the next: all the busy time."""
    ones = ~np.zeros(64, dtype=np.uint32)
    events = [alloc(0, 0, 1), write(50, 0, 0, ones), release(99, 0)]
    distributions = replace(rules().distributions, activity=Distribution.of(0.4))
    life = lived([trace_of(events, 100)], "baseline", distributions=distributions)
    assert life.degradation.longest_duty[0] == pytest.approx([0, 0.4])
