"""Cells that become faulty: which, at which age, and which value each of them loses."""

import numpy as np
import pytest
from engine_cases import daily
from fault_cases import becomes_faulty_at
from life_cases import (
    MODEL,
    NUMBA,
    NUMPY,
    YEAR,
    alternating_trace,
    cell,
    dvth,
    lived,
    random_values,
    ready,
    seconds_to_delay,
    steady_trace,
    tail_of,
    whole_entries,
)
from scipy.optimize import brentq
from tables import each

from mcage.aging.nbti import nbti_model
from mcage.aging.transistors import DelayPath, NbtiSpread, Pbti, TrapLaw
from mcage.aging.vmin import Margins, margins
from mcage.geometry import GCN
from mcage.lifetime import BISECTIONS, EndCause
from mcage.lifetime.faulty_cells import UNKNOWN, faulty_cells
from mcage.lifetime.feasibility import SlowdownTiming
from mcage.spec.cost_constants import load_costs

ROWS, OTHERS = random_values(3), random_values(3, seed=1)
TRACES = [steady_trace(ROWS), steady_trace(OTHERS)]
ZERO = np.zeros(64, dtype=np.uint32)
ALWAYS = [steady_trace([ZERO]), steady_trace([~ZERO])]
"""Entry 0 at '0' throughout, and at '1'."""

FORTY = dict.fromkeys([cell(0, bit) for bit in range(40)], becomes_faulty_at(2.5 * YEAR))
"""Weak cells of entry 0."""

READ = Margins(margins("margins").coefficients, (1.0, 0.0, 0.0))
SPREAD = NbtiSpread(TrapLaw(1e-3), DelayPath.of("word", 524_288))
HALVED = 1.0 / 2**BISECTIONS
"""Years by which an age may be found too large: a part of an epoch."""


def cells_of(*given, **changes):
    return faulty_cells(*ready(*given, **changes))


def random_tail(seed, count=300, entries=3, new=5):
    """Weak cells at random in the first entries, some of which are faulty when new."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(entries * GCN.entry_bits, count, replace=False).tolist()
    vmin = rng.uniform(0.93, 1.0, count)
    vmin[:new] = np.inf
    return dict(zip(cells, vmin.tolist(), strict=True))


def entries_at(cells, years):
    """Entries with a faulty cell at an age."""
    return len(np.unique(cells.by(years).cell % GCN.cells // GCN.entry_bits))


def arrays_of_cells(found, instance):
    arrays = [array.tolist() for array in found.of(instance)]
    return [*arrays, found.end_years[instance], found.end_cause[instance]]


# ---- what outcomes of lives say of the same cells ------------------------------------------------


@pytest.mark.parametrize(
    ("technique", "engine"),
    daily([("rrcd", NUMPY), ("rrcd", NUMBA), ("disable", NUMPY)], [("rrcd", NUMBA)]),
)
def test_entries_with_faulty_cells_are_those_that_a_life_counts(technique, engine):
    """At the start of each epoch, of techniques that move data away from faults meanwhile."""
    tails = [random_tail(seed, 60, entries=30, new=seed) for seed in range(4)]
    kernels = np.random.default_rng(3).integers(2, size=(4, 10))
    given = {"kernels": kernels, "engine": engine, "protection": "none"}
    life = lived(TRACES, technique, tail_of(*tails), **given)
    found = cells_of(TRACES, technique, tail_of(*tails), **given)
    assert found.end_cause.tolist() == life.end.cause.tolist() == [EndCause.CENSORED] * 4
    for instance, of_life in enumerate(life.faulty_entries.epoch.tolist()):
        cells = found.of(instance)
        assert [entries_at(cells, float(year)) for year in range(10)] == of_life
        assert of_life[-1] > of_life[0] + 3
        assert entries_at(cells, 10.0) == life.faulty_entries.at_end[instance]
        assert np.count_nonzero(cells.years == 0) == instance
        assert np.lexsort((cells.cell, cells.years)).tolist() == list(range(len(cells.cell)))


def test_a_life_that_finds_no_room_ends_with_the_cell_that_took_it():
    moment = 3.4 * YEAR
    tail = whole_entries(set(range(256)) - {10, 20})
    last = {cell(20, bit): becomes_faulty_at(moment) for bit in range(0, 2048, 512)}
    later = {cell(10, 7): becomes_faulty_at(3.41 * YEAR)}
    given = [steady_trace(ROWS)], "rrcd", tail_of(tail | last | later)
    found, life = (function(*given, lds_rows=1) for function in (cells_of, lived))
    assert found.end_cause == [EndCause.NO_HOME]
    assert found.end_years == life.end.seconds / YEAR
    assert found.cell[-4:].tolist() == sorted(last)
    assert found.years[-4:].max() == found.end_years[0]
    assert len(found.cell) == len(tail) + 4
    dead = cells_of(*given, lds_rows=0)
    assert (dead.end_years, dead.end_cause) == (0, EndCause.NO_HOME)
    assert dead.years.tolist() == [0] * len(tail)


@each("blocks", [0, 50])
@each("engine", [NUMPY, NUMBA])
def test_words_are_uncorrectable_since_their_second_cell_is_faulty(blocks, engine):
    """Up to the end of the last epoch of a life that ends with the first such word, or does not."""
    tail = random_tail(5, 90)
    tail |= {GCN.cells + cell(1, 64 + bit): becomes_faulty_at((bit + 1) * YEAR) for bit in range(7)}
    given = {"engine": engine, "protection": "secded32", "uncorrectable_blocks": blocks}
    life = lived(TRACES, "baseline", tail_of(tail), **given)
    found = cells_of(TRACES, "baseline", tail_of(tail), **given)
    assert (found.end_years, found.end_cause) == (10, EndCause.CENSORED)
    assert np.count_nonzero(found.cell >= GCN.cells) == 7
    word = found.cell % GCN.cells // 32
    seconds = sorted(year for n in np.unique(word) for year in np.sort(found.years[word == n])[1:2])
    known = life.uncorrectable.uncorrectable_years[0]
    known = known[~np.isnan(known)].tolist()
    assert known == seconds[: len(known)]
    if blocks:
        assert len(known) == 8
    else:
        assert life.end.cause == [EndCause.FAULTY_ENTRY]
        assert life.end.seconds[0] / YEAR == known[0] < known[1]


# ---- by brute force ------------------------------------------------------------------------------


def shifts(bits, age):
    """Of a cell that has held such a bit in each year, of T0 and T1, by an age in seconds."""
    passed = np.clip(age - YEAR * np.arange(len(bits)), 0, YEAR)
    return dvth(age, np.array([passed[bits == value].sum() for value in (0, 1)]) / age)


def fails_since(vmin, bits):
    """Age in seconds, and the value that is lost; None for a cell that does not fail."""
    for year in range(len(bits)):
        start, end = max(year * YEAR, 1e-6), (year + 1) * YEAR
        if vmin + shifts(bits, end).max() > 1.0:
            age = brentq(lambda age: vmin + shifts(bits, age).max() - 1.0, start, end, xtol=1.0)
            return age, shifts(bits, age).argmax()
    return None


@each("engine", [NUMPY, NUMBA])
def test_ages_and_values_are_those_of_each_cell_by_itself(engine):
    """Two kernels, one a year, hold each cell at values of their own."""
    tail, kernels = random_tail(8, new=0), np.array([[0, 1, 1, 0, 0, 0, 1, 0, 1, 1]])
    found = cells_of(TRACES, "baseline", tail_of(tail), kernels=kernels, engine=engine)
    held = np.stack([ROWS, OTHERS])[kernels[0]]  # [year, entry, component]
    expected = {}
    for number, vmin in tail.items():
        entry, bit = divmod(number, GCN.entry_bits)
        bits = held[:, entry, bit // 32] >> (bit % 32) & 1
        if (fate := fails_since(vmin, bits)) is not None:
            expected[number] = fate
    assert set(found.cell.tolist()) == expected.keys()
    assert 100 < len(expected) < len(tail)
    ages, values = np.transpose([expected[number] for number in found.cell.tolist()])
    assert found.weak_value.tolist() == values.tolist()
    late = found.years - ages / YEAR
    assert (late > -1e-9).all()
    assert (late < HALVED * 1.01).all()
    assert 20 < found.weak_value.sum() < len(expected) - 20


# ---- lives that go on ----------------------------------------------------------------------------


def test_a_life_without_heed_goes_on_past_faults():
    """It ends with its first fault in use, if lived; the cells up to then are the same."""
    tail = random_tail(11, new=0) | {cell(200, 3): np.inf}
    given, kernels = (TRACES, "baseline", tail_of(tail)), np.array([[0, 1] * 5])
    life = lived(*given, kernels=kernels, protection="none")
    found, *others = (
        cells_of(*given, kernels=kernels, protection=name) for name in ("none", "ecp1", "secded32")
    )
    assert life.end.cause == [EndCause.FAULTY_ENTRY]
    assert life.end.seconds[0] / YEAR == found.years[1] > 0
    assert found.years[0] == 0
    assert (found.end_years, found.end_cause) == (10, EndCause.CENSORED)
    assert np.count_nonzero(found.years > life.end.seconds[0] / YEAR) > 100
    epoch, cells = int(found.years[1]), found.of(0)
    of_life = life.faulty_entries.epoch[0]
    assert of_life[: epoch + 1].tolist() == [entries_at(cells, y) for y in range(epoch + 1)]
    assert np.isnan(of_life[epoch + 1 :]).all()
    for again in others:
        assert arrays_of_cells(again, 0) == arrays_of_cells(found, 0)


def test_delay_ends_a_life_that_goes_on():
    """No cell becomes faulty after it, though some would by the end of that epoch."""
    delay = seconds_to_delay(0.139) / YEAR
    years = np.array([0.4, 2.4, delay - 1e-5, delay + 0.01, 5.0])
    tail = tail_of({cell(0, bit): becomes_faulty_at(y * YEAR) for bit, y in enumerate(years)})
    given = {"delay_guardband": 0.139, "epoch_edges_years": (0.0, 2.1, 4.2, 6.3)}
    found = cells_of(ALWAYS, "baseline", tail, protection="none", **given)
    assert found.end_cause == [EndCause.DELAY]
    assert found.end_years == pytest.approx(delay, rel=1e-6)
    assert found.cell.tolist() == [cell(0, bit) for bit in range(3)]
    assert found.years == pytest.approx(years[:3], abs=2.1 * HALVED)
    assert found.years[2] <= found.end_years[0]


def test_what_has_nothing_to_do_with_faults_ends_a_life_all_the_same():
    """A limit of the slowdown that no slice keeps."""
    timing = SlowdownTiming(load_costs().technology("28nm"), load_costs().penalties)
    found = cells_of(ALWAYS, "baseline", tail_of(FORTY), slowdown=-0.1, timing=timing)
    assert (found.end_years, found.end_cause) == (0, EndCause.TOO_SLOW)
    assert not len(found.cell)


# ---- instance by instance ------------------------------------------------------------------------


@each(
    "technique, changes",
    [
        ("baseline", {}),
        ("rrcd", {"protection": "none"}),
        ("baseline", {"margins": READ, "pbti": Pbti.of(0.5, MODEL), "spread": SPREAD}),
        ("rrcd", {"spread": SPREAD}),
        ("baseline", {"nbti": nbti_model("bhardwaj"), "delay_guardband": 0.1}),
    ],
)
def test_instances_do_not_hear_of_each_other(technique, changes):
    tails = [random_tail(seed, 40, new=seed) for seed in range(5)]
    kernels = np.random.default_rng(2).integers(2, size=(5, 10))
    given = TRACES, technique
    together = cells_of(*given, tail_of(*tails), kernels=kernels, engine=NUMBA, **changes)
    assert len(together) == 5
    assert len(set(np.diff(together.offsets))) > 2
    for part in (np.arange(2), np.arange(2, 5)):
        tail, own = tail_of(*(tails[one] for one in part)), {"ids": part, "kernels": kernels[part]}
        apart = cells_of(*given, tail, engine=NUMBA, **own, **changes)
        for place, instance in enumerate(part):
            assert arrays_of_cells(apart, place) == arrays_of_cells(together, instance)


def test_lives_that_end_apart_have_cells_of_their_own():
    """Of two entries with room one fails, in another year of each life; one life never begins."""
    years, lost = (1.3, 4.6, 3.4, 12.0), whole_entries(set(range(256)) - {10, 20})
    tails = [{cell(entry, bit): np.inf for entry in (10, 20) for bit in (2 * entry, 3)}]
    for moment in years:
        last = becomes_faulty_at(moment * YEAR)
        tails.append({cell(20, bit): last for bit in range(0, 2048, 512)})
    tails = [tail | lost for tail in tails]
    found = cells_of([steady_trace(ROWS)], "rrcd", tail_of(*tails), lds_rows=1)
    assert found.end_cause.tolist() == [EndCause.NO_HOME] * 4 + [EndCause.CENSORED]
    assert found.end_years == pytest.approx([0, *years[:3], 10], abs=1.01 * HALVED)
    for instance, (tail, end) in enumerate(zip(tails, found.end_years.tolist(), strict=True)):
        cells, expected = found.of(instance), tail if instance < 4 else lost
        assert set(cells.cell.tolist()) == expected.keys()
        assert set(cells.years[len(lost) :]) == ({end} if instance < 4 else set())


# ---- values that cells lose ----------------------------------------------------------------------


@each("kernel", [0, 1])
@each("changes", [{}, {"pbti": Pbti.of(0.5, MODEL)}, {"pbti": Pbti.of(1.5, MODEL)}])
def test_a_cell_loses_the_value_that_it_always_holds(kernel, changes):
    found = cells_of([ALWAYS[kernel]], "baseline", tail_of(FORTY), **changes)
    assert found.cell.tolist() == list(FORTY)
    assert found.weak_value.tolist() == [kernel] * 40


@each("cycles_at_zero, value", [(70, 0), (30, 1)])
def test_a_cell_loses_the_value_that_it_holds_for_longer(cycles_at_zero, value):
    tail = dict.fromkeys(FORTY, becomes_faulty_at(2.5 * YEAR, 0.7))
    trace = alternating_trace(ZERO, cycles_at_zero, ~ZERO)
    found = cells_of([trace], "baseline", tail_of(tail))
    assert found.weak_value.tolist() == [value] * 40
    assert found.years == pytest.approx(2.5, abs=HALVED)


def test_a_cell_loses_the_value_of_its_unluckier_transistor():
    """Both are stressed for half of the time."""
    trace = alternating_trace(ZERO, 50, ~ZERO)
    tail = tail_of(dict.fromkeys(FORTY, becomes_faulty_at(2.5 * YEAR, 0.5)))
    given = ready([trace], "baseline", tail, spread=SPREAD)
    found = faulty_cells(*given)
    scores = given.luck.scores(np.zeros(len(found.cell), np.int64), found.cell)
    assert found.weak_value.tolist() == scores.argmax(axis=0).tolist()
    assert 3 < found.weak_value.sum() < len(found.cell) - 3


def limits_by_cell(**changes):
    """Limits that are drawn for the forty cells, as those of cells that may still fail."""
    given = ready(ALWAYS, "baseline", tail_of(FORTY), **changes)
    limits = given.batch.limits.limit.tolist()
    return dict(zip(given.batch.new.tail.cell.tolist(), limits, strict=True))


@each("kernel", [0, 1])
def test_a_cell_loses_the_value_of_its_margin(kernel):
    """Of those that are always at '0', it are those that the margin of '0' limits that fail."""
    vmin = 1.0 - 1.61 * dvth(2.5 * YEAR)
    tail = tail_of(dict.fromkeys(FORTY, vmin))
    found = cells_of([ALWAYS[kernel]], "baseline", tail, margins=READ)
    drawn = limits_by_cell(margins=READ)
    assert found.cell.tolist() == [number for number in FORTY if drawn[number] == kernel]
    assert 8 < len(found.cell) < 32
    assert found.years == pytest.approx(2.5, abs=HALVED)
    assert set(found.weak_value.tolist()) == {kernel}


def test_values_that_cells_of_new_slices_lose():
    """With margins that of the limit, which cells have before they fail; without, none is known."""
    new = tail_of(dict.fromkeys(FORTY, np.inf))
    given = ready(ALWAYS, "baseline", new, margins=READ)
    drawn = [limits_by_cell(margins=READ)[number] for number in FORTY]
    assert faulty_cells(*given).weak_value.tolist() == drawn
    assert set(drawn) == {0, 1}
    for unknown in (faulty_cells(*given[:-1]), cells_of(ALWAYS, "baseline", new)):
        assert unknown.years.tolist() == [0.0] * 40
        assert unknown.weak_value.tolist() == [UNKNOWN] * 40


def test_an_8t_cell_that_is_read_too_slowly_loses_its_zero():
    """Its port draws current while it holds '0', whatever value was drawn with the limit."""
    table = margins("margins", "8t")
    table = Margins(table.coefficients, (1.0, 0.0, 0.0), table.kinds)
    pbti = Pbti.of(1.0, MODEL)
    aging = tail_of(dict.fromkeys(FORTY, 1.0 - 0.94 * dvth(2.5 * YEAR)))
    new = tail_of(dict.fromkeys(FORTY, np.inf))
    assert set(limits_by_cell(margins=table, pbti=pbti).values()) == {0, 1}
    for tail, years in ((aging, 2.5), (new, 0.0)):
        found = cells_of(ALWAYS, "baseline", tail, margins=table, pbti=pbti)
        assert found.years == pytest.approx(years, abs=HALVED)
        assert found.weak_value.tolist() == [0] * 40
    assert table.weak_values(np.arange(6, dtype=np.int8)).tolist() == [0, 0, 0, 1, 0, 1]
