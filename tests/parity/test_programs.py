"""Do placement programs compute the same on all engines, and RRCD as a program what RRCD does?"""

import dataclasses
import importlib
import sys
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from engine_cases import NUMBA, NUMPY, daily, with_first_slots
from places import shown_files
from program_oracle import OracleEngine
from rrcd_program import programmed
from tables import slow

from mcage.engines.parity import ask, ask_passes, compare, demanding_maps, excerpt
from mcage.engines.stress import Turns
from mcage.errors import UserError
from mcage.replays.prepare import prepare
from mcage.spec import SweepSpec
from mcage.studies.sweep.header import VARIABLES
from mcage.studies.sweep.study import Sweep
from mcage.techniques import TECHNIQUES, Gating, Placement, Storage, Technique
from mcage.techniques.programs import (
    NO_SWAP,
    SPILL,
    Entries,
    PerEntry,
    PerSlice,
    PerWindow,
    PlacementProgram,
    entry_of,
    in_block,
    in_entry,
    lowest_block,
    swap,
)
from mcage.traces import bundled_trace, first_generations
from mcage.traces.transforms import released

ORACLE = OracleEngine()


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Modules that both pages on techniques show in full; to compile each program takes long."""
    folder = tmp_path_factory.mktemp("shown")
    files = shown_files("techniques.md") | shown_files("results/techniques.md")
    for name, code in files.items():
        (folder / name).write_text(code)
    names = ("least_worn", "swapping")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield [importlib.import_module(name) for name in names]
    for name in names:
        del sys.modules[name]


@pytest.mark.parametrize("engine", [NUMPY, NUMBA], ids=["numpy", "numba"])
@pytest.mark.parametrize("name", daily(["rrcd", "rrcd+pg"], ["rrcd+pg"]))
def test_rrcd_as_a_program_stresses_cells_as_rrcd(engine, name):
    """Stress times over epochs with and without faults are the same to the last bit, too."""
    maps = demanding_maps(3)
    built_in = ask(engine, prepare(excerpt(), TECHNIQUES[name]), maps)
    program = ask(engine, prepare(excerpt(), programmed(name)), maps)
    # Passes and periods are given for each instance, where programs may need more than others.
    assert all(program.integers.pop("passes")[0] == 1)
    assert len(set(program.integers.pop("period")[0].tolist())) == 1
    for name in ("passes", "period"):
        del built_in.integers[name]
    assert compare(program, built_in).bit_equal


@pytest.mark.slow
def test_programs_of_the_page_on_both_engines(shown, monkeypatch):
    """Also where entries are worked out a few at a time."""
    monkeypatch.setattr("mcage.engines.numba_engine.programs._TOGETHER", 64)
    least_worn, swapping = shown
    maps = demanding_maps(3)
    for technique in (least_worn.LEAST_WORN, swapping.SWAPPING):
        for gating in (Gating.UNUSED, Gating.EMPTY):
            changed = dataclasses.replace(technique, gating=gating)
            replay = prepare(excerpt(), changed)
            meant = ask_passes(ORACLE, replay, maps)
            for engine in (NUMPY, NUMBA):
                assert compare(ask_passes(engine, replay, maps), meant).bit_equal


@pytest.mark.slow
def test_least_worn_in_the_long_run(shown):
    """On Reduction the longest duties fall from 0.99 to 0.72 and 0.46: what one pass conceals."""
    least_worn, _ = shown
    trace = released(bundled_trace("Reduction"), "wavefront")
    replay = prepare(trace, least_worn.LEAST_WORN)
    no_fault = demanding_maps(1)
    built_in = NUMBA.cell_times(prepare(trace, TECHNIQUES["rrcd+pg"]), no_fault)
    assert built_in.longest_zero_duty[0] > 0.99
    times = NUMBA.cell_times(replay, no_fault)
    assert times.longest_zero_duty[0] == pytest.approx(0.72, abs=0.05)
    assert times.longest_one_duty[0] == pytest.approx(0.46, abs=0.05)
    run = NUMBA.programs.long_run(replay, no_fault[0])
    assert run.passes >= 16


class Memory(NamedTuple):
    """State of all scopes."""

    turns: PerEntry
    slots: PerWindow
    total: PerSlice


class Restless(PlacementProgram):
    """Uses all that a program is told and may answer, and moves values at will."""

    State = Memory

    @staticmethod
    def allocate(state, entries: Entries, window):
        state.slots[window.slot] += window.size + window.base + window.number
        return NO_SWAP

    @staticmethod
    def write(state, entries, value):
        state.total[0] += (value.mask & 0xFFFF) + value.words[value.register % len(value.words)]
        begin = (state.total[0] + value.row + value.cycle + state.slots[value.slot]) % 61
        for turn in range(len(entries.free)):
            entry = (begin + turn * 5) % len(entries.free)
            free = entries.free[entry]
            if value.compressed and free:
                state.turns[entry] += 1 + value.compressible
                return in_block(entry, lowest_block(free))
            if free == entries.all_blocks and not value.compressed:
                state.turns[entry] += 1
                return in_entry(entry)
        return SPILL

    @staticmethod
    def read(state, entries, value):
        if value.home >= 0:
            state.turns[value.home // 64] += 1
        state.total[0] ^= value.cycle + value.window + value.size

    @staticmethod
    def release(state, entries, window):
        first = -1
        for row in range(len(entries.home)):
            remains = row < window.base or row >= window.base + window.size
            if remains and entries.home[row] >= 0 and row % 3 == state.total[0] % 3:
                first = entry_of(entries.home[row])
        second = (first + 3) % len(entries.free)
        if first < 0 or entries.unusable[first] or entries.unusable[second]:
            return NO_SWAP
        return swap(first, second)


class Still(PlacementProgram):
    """Each row in the entry of its number."""

    @staticmethod
    def write(state, entries, value):
        if entries.free[value.row] == entries.all_blocks:
            return in_entry(value.row)
        return SPILL


class Counting(PlacementProgram):
    """Each row in the entry of its number; counts what it places."""

    State = Memory

    @staticmethod
    def write(state, entries, value):
        state.total[0] += 1
        if entries.free[value.row] == entries.all_blocks:
            return in_entry(value.row)
        return SPILL


def technique_of(program, storage=Storage.PLAIN, gating=Gating.UNUSED):
    return Technique("a-program", Placement.PROGRAM, storage, gating, "", "", program=program)


@pytest.mark.parametrize(
    ("storage", "gating"),
    daily(
        product([Storage.PLAIN, Storage.TABLE, Storage.BLOCK], [Gating.UNUSED, Gating.EMPTY]),
        [(Storage.BLOCK, Gating.EMPTY), (Storage.TABLE, Gating.UNUSED)],
    ),
)
def test_a_restless_program_on_both_engines(storage, gating):
    replay = prepare(excerpt(), technique_of(Restless(), storage, gating))
    meant = ask_passes(ORACLE, replay, demanding_maps(3))
    for engine in (NUMPY, NUMBA):
        answers = ask_passes(engine, replay, demanding_maps(3))
        assert compare(answers, meant).in_words == "equal to the last bit"


def test_events_are_those_of_the_long_run():
    """A program that spills all values of its first passes, and none from then on."""
    replay = prepare(excerpt(), technique_of(Counting()))
    writes = len(replay.told.cycle)

    class Late(Counting):
        @staticmethod
        def write(state, entries, value):
            state.total[0] += 1
            return SPILL if state.total[0] < 4 * writes else in_entry(value.row)

    counters = NUMPY.count(prepare(excerpt(), technique_of(Late())), demanding_maps(1))
    assert counters.to_reliable.all()
    assert not counters.lds.any()


def known_at_start(learnt, instances):
    """What programs of instances know at the start of their epochs: int64[n, words]."""
    return learnt._states[instances, 0]


def test_what_is_learnt_in_an_epoch_is_known_in_the_next():
    replay, maps = prepare(excerpt(), technique_of(Counting())), demanding_maps(2)
    learnt = NUMPY.learnt((replay,), 3)
    assert learnt.differs
    of_first, turns = np.array([0]), Turns.single(np.zeros(1, dtype=np.int64))
    writes = len(replay.told.cycle)
    state_after = []
    for _ in range(2):
        learnt.advance(of_first, turns, maps[1:])
        state = known_at_start(learnt, np.arange(3))
        state_after.append(int(state[0, -1]))
        assert not state[1:].any()  # what an instance learns, no other knows
    passes = state_after[0] // writes
    assert state_after == [passes * writes, 2 * passes * writes]
    assert passes >= 32


def test_what_is_learnt_in_a_turn_is_known_in_the_next():
    technique, maps = technique_of(Counting()), demanding_maps(2)
    other = first_generations(bundled_trace("ScanLargeArrays"), 1)
    traces = (with_first_slots(trace, 2) for trace in (excerpt(), other))
    replays = tuple(prepare(trace, technique) for trace in traces)
    learnt, programs = NUMPY.learnt(replays, 2), NUMPY.programs
    turns, of_second = Turns(np.array([[0, 1]]), np.array([[0.3, 0.7]])), np.array([1])
    state = np.zeros_like(known_at_start(learnt, of_second)[0])
    for _ in range(2):
        learnt.begin(of_second, turns, maps[1:])
        for turn, replay in enumerate(replays):
            run = programs.long_run(replay, maps[1], state)
            ones, powered, period = learnt.slice_times(1, turn, replay, maps[1])
            assert np.array_equal(ones, run.ones)
            assert np.array_equal(powered, run.powered)
            assert period == run.passes * replay.cycles
            state = run.state
        learnt.advance(of_second, turns, maps[1:])
        assert np.array_equal(known_at_start(learnt, of_second)[0], state)
        assert state[-1] > 0
    assert not known_at_start(learnt, np.array([0])).any()


def test_a_program_without_a_state_differs_by_its_faults_alone():
    learnt = NUMBA.learnt((prepare(excerpt(), technique_of(Still())),), 3)
    assert not learnt.differs
    assert NUMBA.learnt((prepare(excerpt(), TECHNIQUES["rrcd"]),), 3) is None


def test_lives_under_rrcd_as_a_program(monkeypatch):
    """All that a sweep computes of lives is the same to the last bit, whoever places values."""
    monkeypatch.setitem(TECHNIQUES, "rrcd/program", programmed("rrcd"))
    spec = SweepSpec.from_mapping(
        {
            "instances": 6,
            "techniques": ["rrcd", "rrcd/program"],
            "scenarios": ["dispersed"],
            "environments": ["undervolted"],
            "vdd_volts": [0.43],
            "workload": {"kernels": ["MatrixTranspose"], "generations": 1, "periods": 1},
            "life": {"epochs": 3},
        }
    )
    arrays = Sweep(spec, NUMBA).compute(0, 6)
    variables = [variable for variable in VARIABLES if "case" in variable.dims]
    for variable in variables:
        built_in, program = np.moveaxis(arrays[variable.name], variable.dims.index("case"), 0)
        if variable.name.endswith("_fit"):  # nobody knows which bits a program's placement needs
            assert np.isnan(program).all()
            continue
        assert np.array_equal(built_in, program, equal_nan=built_in.dtype.kind == "f")


def breaking(answer):
    """A program that answers a number at the tenth write of a register of the third row."""

    class Breaking(Still):
        State = Memory

        @staticmethod
        def write(state, entries, value):
            state.total[0] += 1
            if state.total[0] < 10:
                return in_entry(value.row)
            return answer

    return Breaking()


@pytest.mark.parametrize(
    ("engine", "answer", "entry", "problem"),
    [
        (NUMPY, in_entry(0), 0, "another row lives there"),
        (NUMPY, in_entry(256), 256, "there is no such entry"),
        (NUMPY, -7, -1, "there is no such entry"),
        (NUMPY, in_block(5, 1), 5, "an uncompressed value needs the whole of it"),
        (NUMPY, in_entry(77), 77, "it has a faulty block"),
        slow(NUMBA, in_entry(0), 0, "another row lives there"),
    ],
)
def test_a_breach_names_technique_cycle_row_and_entry(engine, answer, entry, problem):
    """One of them compiled: each program takes long; the rules are lines side by side."""
    maps, write = demanding_maps(1), 9
    maps[0, 77] = 4
    replay = prepare(excerpt(), technique_of(breaking(answer)))
    cycle, row = int(replay.told.cycle[write]), int(replay.told.row[write])
    with pytest.raises(UserError) as caught:
        engine.count(replay, maps)
    assert f"'a-program': cycle {cycle}, row {row}, entry {entry}: {problem}" in str(caught.value)


def test_a_program_that_never_settles_is_refused():
    class Drifting(PlacementProgram):
        State = Memory
        most_passes = 64

        @staticmethod
        def write(state, entries, value):
            if value.home >= 0:
                return value.home
            state.total[0] += 1
            step = state.total[0] // 1000 % 2 * 128
            return in_entry((value.row + step) % len(entries.free))

    with pytest.raises(UserError, match=r"have not settled on trace .* after 64 passes"):
        NUMPY.cell_times(prepare(excerpt(), technique_of(Drifting())), demanding_maps(1))


BROKEN = [
    (lambda state, entries, value: sorted([value.row], key=str)[0], "does not compile it: "),
    (lambda state, entries, value: value.row / 2, "write answers a float64, where an integer"),
    (lambda state, entries, value: entries.free[value.row + 256], "index is out of bounds"),
]


@pytest.mark.parametrize(("write", "said"), daily(BROKEN, BROKEN[:1]))
def test_what_cannot_be_compiled_is_said_in_a_line(write, said):
    program = type("Broken", (PlacementProgram,), {"write": staticmethod(write)})()
    with pytest.raises(UserError, match="technique 'a-program': ") as caught:
        NUMBA.count(prepare(excerpt(), technique_of(program)), demanding_maps(1))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
