"""Lives that faults end: from the start, or at a moment that can be computed by hand."""

import numpy as np
import pytest
from fault_cases import assert_ends_at, becomes_faulty_at
from life_cases import (
    CYCLES,
    MODEL,
    NUMBA,
    NUMPY,
    YEAR,
    arrays_of,
    cell,
    dvth,
    lived,
    random_values,
    seconds_to_delay,
    steady_trace,
    tail_of,
    whole_entries,
)
from nbti_cases import prefactor_of
from sweep_cases import assert_same_arrays
from tables import each
from trace_strategies import pattern

from mcage.aging.environment import delay_increase, environment
from mcage.engines.stress import Turns
from mcage.lifetime import EndCause
from mcage.lifetime.feasibility import SlowdownTiming
from mcage.spec.cost_constants import load_costs

ROWS = random_values(3)
STEADY = steady_trace([np.zeros(64, dtype=np.uint32)])
"""Entry 0 at '0' throughout: its cells are under full stress, T0 alone."""

FAULTY_AT_ONCE = {cell(0, 3): np.inf, cell(0, 900): np.inf}


# ---- from the start ----------------------------------------------------------------------------


@each("technique", ["baseline", "rar", "wc", "argo", "rc", "rc+rar"])
def test_a_faulty_entry_in_use_ends_a_life_before_it_begins(technique):
    tail = tail_of(FAULTY_AT_ONCE, {})
    life = lived([steady_trace(ROWS)], technique, tail, sample=[cell(0)])
    assert life.end.cause.tolist() == [EndCause.FAULTY_ENTRY, EndCause.CENSORED]
    assert life.end.seconds.tolist() == [0.0, 10 * YEAR]
    assert life.faulty_entries.at_start.tolist() == life.faulty_entries.at_end.tolist() == [1, 0]
    assert life.degradation.delay_increase[0] == 0
    arrays = arrays_of(life)
    of_life = ("fractions", "wakeups", "movs", "mispredictions")
    histories = ("degradation.epoch_max_dvth_volts", "faulty_entries.epoch")
    for name in (*(f"writes.{it}" for it in of_life), *histories, "spills.epoch_peak_rows"):
        assert np.isnan(arrays[name][0]).all(), name
        assert not np.isnan(arrays[name][1]).any(), name
    for name in ("max_dvth_volts", "longest_duty", "sampled_dvth_volts"):
        assert [of.any() for of in arrays[f"degradation.{name}"]] == [False, True], name


@each(
    "harmless",
    [
        {cell(0, 3): np.inf},  # one bit: error-correcting pointers repair it
        {cell(0, 3): np.inf, cell(1, 3): np.inf},  # one bit each
        whole_entries(range(1, 256)),  # entries that no window covers
        {cell(0, 3): 0.9, cell(0, 900): 0.9},  # that work at 1.0 V, and do not age that far
    ],
)
def test_faults_that_do_no_harm(harmless):
    life = lived([STEADY], "baseline", tail_of(harmless))
    assert life.end.cause == [EndCause.CENSORED]


def test_faults_are_judged_at_the_lowest_voltage():
    weak = {cell(0, 3): 0.5, cell(0, 900): 0.5}
    for name, cause in [
        ("turbo", EndCause.CENSORED),
        ("undervolted", EndCause.FAULTY_ENTRY),
        ("dvfs", EndCause.FAULTY_ENTRY),
    ]:
        conditions = environment(name, 0.419)
        life = lived([STEADY], "baseline", tail_of(weak), environment=conditions)
        assert life.end.cause == [cause], name
        assert life.end.seconds == [10 * YEAR if name == "turbo" else 0]


def test_the_compression_table_leaves_entries_untouched():
    """Register 0 never compresses, register 1 always does; under rc+rar both use both entries."""
    trace = steady_trace([ROWS[0], pattern(7)])
    first, second = whole_entries([0]), whole_entries([1])
    for technique, entry, cause in [
        ("rc", first, EndCause.FAULTY_ENTRY),
        ("rc", second, EndCause.CENSORED),
        ("rc+rar", second, EndCause.FAULTY_ENTRY),
        ("baseline", second, EndCause.FAULTY_ENTRY),
    ]:
        assert lived([trace], technique, tail_of(entry)).end.cause == [cause], technique
    compressible = steady_trace([pattern(5), pattern(7)])
    everywhere = tail_of(whole_entries(range(256)))
    assert lived([compressible], "rc+rar", everywhere).end.cause == [EndCause.CENSORED]


def test_a_kernel_that_does_not_need_the_faulty_entry():
    """The second kernel uses entries 0 and 1, of which 1 is faulty: life ends when it comes."""
    traces = [steady_trace(ROWS[:1]), steady_trace(ROWS[:2])]
    kernels = [[0, 0, 0, 1, 0, 0, 0, 0, 0, 0], [0] * 10]
    life = lived(traces, "baseline", tail_of(*2 * [whole_entries([1])]), kernels=kernels)
    assert life.end.cause.tolist() == [EndCause.FAULTY_ENTRY, EndCause.CENSORED]
    assert life.end.seconds.tolist() == [3 * YEAR, 10 * YEAR]
    assert np.isnan(life.faulty_entries.epoch[0]).tolist() == [False] * 3 + [True] * 7
    assert life.degradation.max_dvth_volts[0, 0] == pytest.approx(dvth(3 * YEAR), rel=1e-6)
    assert life.degradation.longest_duty[0] == pytest.approx([1, 1])


# ---- at a moment inside an epoch ---------------------------------------------------------------


@each("engine", [NUMPY, NUMBA])
@each("years", [0.01, 0.7, 7.3])
def test_the_entry_fails_when_its_second_cell_does(engine, years):
    moment = years * YEAR
    cells = {cell(0, 3): becomes_faulty_at(0.3 * moment), cell(0, 900): becomes_faulty_at(moment)}
    life = lived([STEADY], "baseline", tail_of(cells), engine=engine)
    assert_ends_at(life, moment, EndCause.FAULTY_ENTRY)
    assert (life.faulty_entries.at_start, life.faulty_entries.at_end) == (0, 1)
    begun = int(years) + 1
    assert not life.faulty_entries.epoch[0, :begun].any()
    for history in (life.faulty_entries.epoch, life.degradation.epoch_max_dvth_volts[..., 0]):
        assert np.isnan(history[0]).tolist() == [False] * begun + [True] * (10 - begun)
    shift = dvth(life.end.seconds[0])
    assert life.degradation.max_dvth_volts[0, 0] == pytest.approx(shift, rel=1e-6)


def test_vmin_grows_by_its_coefficient():
    moment = 4.5 * YEAR
    cells = {cell(0, bit): 1.0 - 0.5 * dvth(moment) for bit in (3, 900)}
    life = lived([STEADY], "baseline", tail_of(cells), vmin_coefficient=0.5)
    assert_ends_at(life, moment, EndCause.FAULTY_ENTRY)
    life = lived([STEADY], "baseline", tail_of(cells), vmin_coefficient=0.0)
    assert life.end.cause == [EndCause.CENSORED]


def test_what_comes_first_ends_the_life():
    """Delay and faults in the same epoch."""
    delay = seconds_to_delay(0.139)  # 3.0 years: the last moments of an epoch of two years
    given = {"delay_guardband": 0.139, "epoch_edges_years": (0.0, 2.0, 4.0, 6.0)}
    for years, cause in [(2.4, EndCause.FAULTY_ENTRY), (3.6, EndCause.DELAY)]:
        cells = {cell(0, bit): becomes_faulty_at(years * YEAR) for bit in (3, 900)}
        life = lived([STEADY], "baseline", tail_of(cells), **given)
        assert_ends_at(life, min(years * YEAR, delay), cause, epoch_years=2.0)
        assert life.faulty_entries.at_end == [cause == EndCause.FAULTY_ENTRY]


def test_room_that_runs_out_at_the_border_is_left_to_the_next_kernel():
    """An hour before the end of a year entry 1 fails; the kernel that begins then can do without.

    Bisection looks at moments down to two hours before the end.
    """
    traces = [steady_trace(ROWS[:1]), steady_trace(ROWS[:2])]
    kernels = [[1] + 9 * [0], 10 * [1]]
    hour = YEAR / 8760
    for hours, ends in [(1, [10 * YEAR, YEAR]), (4, 2 * [YEAR - 4 * hour])]:
        moment = YEAR - hours * hour
        cells = {cell(1, bit): becomes_faulty_at(moment) for bit in (3, 900)}
        life = lived(traces, "baseline", tail_of(cells, cells), kernels=kernels)
        assert life.end.seconds == pytest.approx(ends, abs=3 * hour)


def test_instances_do_not_hear_of_each_other():
    """Those that end in different epochs, by different causes, or never, live as they do alone."""
    years = (0.3, 0.8, 3.3, 4.9, 12.0)
    weak = [{cell(0, bit): becomes_faulty_at(one * YEAR) for bit in (3, 900)} for one in years]
    rng = np.random.default_rng(4)
    weak.append({cell(0, int(bit)): rng.uniform(0.9, 1.0) for bit in rng.choice(2048, 50)})
    weak.append({cell(0, 5): np.inf, cell(0, 600): np.inf})
    kernels = rng.integers(2, size=(len(weak), 10))
    traces = [STEADY, THREE_ROWS]
    guardband = float(delay_increase(dvth(4.2 * YEAR), 1.0, 0.3, 1.3))
    given = {"sample": [cell(0, 3), cell(1, 9)], "delay_guardband": guardband}
    for technique in ("baseline", "rrcd"):
        together = lived(traces, technique, tail_of(*weak), kernels=kernels, **given)
        assert len(set(together.end.seconds)) >= (5 if technique == "baseline" else 1)
        for number, tail in enumerate(weak):
            alone = lived(traces, technique, tail_of(tail), kernels=kernels[[number]], **given)
            mine = {name: array[[number]] for name, array in arrays_of(together).items()}
            assert_same_arrays(arrays_of(alone), mine)


def test_no_map_is_counted_twice_in_a_row():
    """A kernel goes on through eight epochs; its map changes in two of them."""

    class Counting(type(NUMPY)):
        def redirect(self, replay, fault_maps):
            counted.extend(bytes(one) for one in fault_maps if one.any())
            return super().redirect(replay, fault_maps)

    counted = []
    tail = whole_entries([7])
    for entry, years in [(20, 2.4), (30, 5.6)]:
        tail |= {cell(entry, bit): becomes_faulty_at(years * YEAR) for bit in (3, 900)}
    trace = steady_trace(random_values(40))
    life = lived([trace], "rrcd", tail_of(tail), engine=Counting())
    assert life.faulty_entries.epoch[0].tolist() == [1] * 3 + [2] * 3 + [3] * 4
    assert len(set(counted)) == len(counted) == 3


def test_the_conservative_rule_counts_blocks():
    """Two bits in one block: under the rule a second block is lost, and with it the last room."""
    tail = whole_entries(range(2, 256)) | {cell(0, 3): np.inf, cell(0, 4): np.inf}
    trace = steady_trace([ROWS[0], pattern(1), pattern(2), pattern(3)])  # a row and three records
    fits, spills = (
        lived([trace], "rrcd", tail_of(tail), spread_blocks=rule, lds_rows=0).end.cause[0]
        for rule in (False, True)
    )
    assert (fits, spills) == (EndCause.CENSORED, EndCause.NO_HOME)


# ---- techniques that move data -----------------------------------------------------------------

THREE_ROWS = steady_trace(ROWS)


def reliable(*entries, failing=()):
    """Tail of a slice in which only these entries are reliable, some up to a given year."""
    tail = whole_entries(set(range(256)) - set(entries))
    for entry, years in failing:
        tail |= {cell(entry, 512 * block): becomes_faulty_at(years * YEAR) for block in range(4)}
    return tail_of(tail)


def test_rows_that_find_no_home_go_to_the_lds_while_there_is_room():
    """Three rows, two reliable entries."""
    tail, sample = reliable(10, 20), [cell(10, 7), cell(20, 7), cell(30, 7)]
    no_room = lived([THREE_ROWS], "rrcd", tail, lds_rows=0)
    assert (no_room.end.cause, no_room.end.seconds) == ([EndCause.NO_HOME], [0])
    assert no_room.spills.peak_rows == [0]
    room = lived([THREE_ROWS], "rrcd", tail, lds_rows=1, sample=sample)
    assert room.end.cause == [EndCause.CENSORED]
    assert room.writes.fractions[0] == pytest.approx([0, 2 / 3, 0, 1 / 3])
    assert room.spills.peak_rows == [1]
    assert (room.spills.epoch_peak_rows == 1).all()
    assert (room.faulty_entries.epoch == 254).all()
    expected = np.zeros((3, 2))
    for row in (0, 1):
        expected[row, ROWS[row, 0] >> 7 & 1] = dvth(10 * YEAR)
    assert room.degradation.sampled.dvth_volts()[0] == pytest.approx(expected, rel=1e-6)


def test_the_last_room_goes_inside_an_epoch():
    tail = reliable(10, 20, failing=[(20, 3.4)])
    life = lived([THREE_ROWS], "rrcd", tail, lds_rows=1)
    assert_ends_at(life, 3.4 * YEAR, EndCause.NO_HOME)
    assert (life.faulty_entries.at_start, life.faulty_entries.at_end) == (254, 255)
    assert life.writes.fractions[0] == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=1e-2)
    assert life.spills.peak_rows == [1], "the row without room never lived in the LDS"
    room = lived([THREE_ROWS], "rrcd", tail, lds_rows=2)
    assert room.end.cause == [EndCause.CENSORED]
    assert room.spills.epoch_peak_rows[0].tolist() == 3 * [1] + 7 * [2]
    assert room.spills.peak_rows == [2]
    share = (3.4 * 1 / 3 + 6.6 * 2 / 3) / 10
    assert room.writes.fractions[0, 3] == pytest.approx(share, abs=0.02)


@each("years", (0.1, 0.3, 0.6, 0.9))
def test_no_share_of_writes_is_negative(years):
    """A sudden end: no spill at all until two rows at once find no home."""
    tail = reliable(10, 20, 30, failing=[(10, years), (20, years)])
    life = lived([THREE_ROWS], "rrcd", tail, lds_rows=1)
    assert_ends_at(life, years * YEAR, EndCause.NO_HOME)
    assert (life.writes.fractions >= 0).all()
    assert life.writes.fractions.sum() == pytest.approx(1)
    assert life.writes.fractions[0, 3] > 0
    assert life.spills.peak_rows == [1], "what was spilled was somewhere"


def test_what_would_come_after_the_end_does_not_count():
    """The same life, whether or not a further entry would have failed later in its last epoch."""
    healthy, doomed = [(10, 0.3), (20, 0.3)], [(10, 0.3), (20, 0.3), (30, 0.31)]
    tails = [reliable(10, 20, 30, failing=failing) for failing in (healthy, doomed)]
    lives = [lived([THREE_ROWS], "rrcd", tail, lds_rows=1) for tail in tails]
    assert_ends_at(lives[0], 0.3 * YEAR, EndCause.NO_HOME)
    assert_same_arrays(*map(arrays_of, lives))


@each("engine", [NUMPY, NUMBA])
def test_a_row_moves_out_of_an_entry_that_fails_and_the_entry_stays_faulty(engine):
    """Rows 0 and 1 live in entries 0 and 1 for a year, then in 1 and 2; entry 0 recovers."""
    pair = {cell(0, bit): becomes_faulty_at(0.5 * YEAR) for bit in (3, 900)}
    bits = [3, 4, 5, 6, 7, 8]
    sample = [cell(entry, bit) for entry in (0, 1, 2) for bit in bits]
    life = lived([steady_trace(ROWS[:2])], "rrcd", tail_of(pair), sample, engine=engine)
    assert life.end.cause == [EndCause.CENSORED]
    assert life.faulty_entries.epoch[0].tolist() == [0] + 9 * [1]
    assert life.faulty_entries.at_end == [1]

    def shift(stressed_years):
        stressed = stressed_years * YEAR
        recovered = np.sqrt(MODEL.eta * (1 - stressed_years / 10))
        return prefactor_of(MODEL, 1.0, 353.15) * stressed**0.25 * (1 - recovered)

    held = (ROWS[:2, 0, None] >> np.array(bits) & 1).astype(int)
    expected = np.zeros((3, len(bits), 2))
    for entry, row, years in [(0, 0, 1), (1, 1, 1), (1, 0, 9), (2, 1, 9)]:
        for index in range(len(bits)):
            expected[entry, index, held[row, index]] += years
    expected = np.where(expected > 0, shift(expected), 0).reshape(-1, 2)
    assert life.degradation.sampled.dvth_volts()[0] == pytest.approx(expected, rel=1e-6)
    # The pair has recovered below the shift that brought it down: it is faulty all the same.
    assert shift(1) < dvth(0.5 * YEAR)
    assert life.degradation.longest_duty[0] == pytest.approx(
        [1, 1]
    )  # entry 1 holds some bits in both rows


def test_a_slice_without_faults_is_never_replayed_for_itself():
    class Shared(type(NUMPY)):
        def stress(self, *arguments):
            stress = super().stress(*arguments)
            stress._run_each = stress._begin = None
            return stress

    weak = {cell(0, 3): 0.95, cell(0, 900): 0.2}  # one bit fails, and is repaired
    for technique in ("disable", "gr-guard", "rrcd", "rrcd+pg", "rrcd+rc+rar"):
        life = lived([THREE_ROWS], technique, tail_of({}, weak), engine=Shared())
        assert life.end.cause.tolist() == [EndCause.CENSORED] * 2
        assert (life.end.seconds == 10 * YEAR).all()
        assert len(set(map(tuple, life.degradation.max_dvth_volts))) == 1


# Lives that end since too many writes go to the LDS, though there is room.


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


@each(
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
    free = lived(traces, "rrcd", reliable(10, 20), kernels=kernels)
    assert free.spills.epoch_peak_rows[0].tolist() == kernels[0]
    writes = 9 * 2 + 3  # of which one is spilled in the last year
    assert free.writes.fractions[0] == pytest.approx([0, 1 - 1 / writes, 0, 1 / writes])


@each("technique", ["baseline", "rc+rar", "disable"])
def test_techniques_that_never_spill_do_not_hear_of_it(technique):
    life = lived([THREE_ROWS], technique, spill_limit=0.0)
    assert life.end.cause == [EndCause.CENSORED]


# Lives that end since the mix has become too slow.

TIMING = SlowdownTiming(load_costs().technology("28nm"), load_costs().penalties)
IN_MEMORY = {"lds_rows": 0, "to_memory": True, "timing": TIMING}
PIPELINE = 2 * 0.0476 / CYCLES
"""What the two more stages of RRCD take of a pass whose writes are all in one cycle."""


def test_rows_beyond_the_lds_live_in_memory():
    life = lived([THREE_ROWS], "rrcd", reliable(10, 20), **IN_MEMORY)
    assert life.end.cause == [EndCause.CENSORED]
    assert life.spills.peak_rows == [1]
    assert life.writes.fractions[0].tolist() == pytest.approx([0, 2 / 3, 0, 1 / 3])
    assert life.writes.memory == [life.writes.fractions[0, 3]]
    in_lds = lived([THREE_ROWS], "rrcd", reliable(10, 20), **IN_MEMORY | {"lds_rows": 1})
    assert in_lds.writes.memory == [0]


@each(
    ("limit", "cause", "years"),
    [
        (0.2, EndCause.TOO_SLOW, 0),
        (0.25, EndCause.TOO_SLOW, 0),  # the pipeline takes a little more
        (0.25 + PIPELINE, EndCause.TOO_SLOW, 3.4),
        (0.5, EndCause.TOO_SLOW, 3.4),
        (0.5 + PIPELINE, EndCause.CENSORED, 10),
    ],
)
def test_a_life_ends_when_the_mix_is_too_slow(limit, cause, years):
    """A row of three is in memory, a quarter of a pass for its write; after 3.4 years, two are."""
    tail = reliable(10, 20, failing=[(20, 3.4)])
    life = lived([THREE_ROWS], "rrcd", tail, slowdown=limit, **IN_MEMORY)
    if years in (0, 10):
        assert (life.end.cause, life.end.seconds) == ([cause], [years * YEAR])
    else:
        assert_ends_at(life, years * YEAR, cause)


@each("share", [0.1, 0.9])
def test_slowdowns_of_a_mix_are_weighted_by_shares_of_the_busy_time(share):
    """Of two instances, in the first of which all rows fit."""
    tail = tail_of(*(whole_entries(set(range(256)) - fit) for fit in ({10, 20, 30}, {10, 20})))
    traces = [steady_trace(ROWS[:2]), THREE_ROWS]
    turns = [Turns(np.array([[0, 1]] * 2), np.array([[1 - share, share]] * 2))] * 10
    done = (1 - share) / (1 + PIPELINE) + share / (1.25 + PIPELINE)
    for less, cause in ((1e-9, EndCause.TOO_SLOW), (0, EndCause.CENSORED)):
        limit = 1 / done - 1 - less
        life = lived(traces, "rrcd", tail, kernels=turns, slowdown=limit, **IN_MEMORY)
        assert life.end.cause.tolist() == [EndCause.CENSORED, cause]
