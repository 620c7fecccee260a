"""Faults followed to outputs: against runs one at a time, by hand, and as a study."""

from itertools import pairwise, product
from pkgutil import resolve_name

import numpy as np
import pytest
from amd_tools import needs_clang
from faulty_oracle import BLEND, BLEND_ARGUMENTS, emulation_of, memory_after, request_of
from tables import each

from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.geometry import preset
from mcage.lifetime.faulty_cells import faulty_cells
from mcage.protection.codes import Outcome, secded
from mcage.protection.policy import Protection
from mcage.soft_errors.ace import ace_under
from mcage.soft_errors.rates import upsets
from mcage.soft_errors.stuck import drawn_values
from mcage.spec import SweepSpec
from mcage.stats.estimates import proportion
from mcage.studies.inject.cells import CellRules, CellsUnderWaves, faults_of
from mcage.studies.inject.flips import (
    drawn_cells,
    flips_of_results,
    hit,
    least_ways,
    row_of,
    upsets_of,
)
from mcage.studies.inject.kernel import Form, InjectedKernel, PlacedKernel, Storing, WrongOutputs
from mcage.studies.inject.outcomes import DETECTED, SILENT, Fate
from mcage.studies.inject.slices import FaultsAtAge, FaultySlice, numbers_of, values_of_cells
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.inject.study import InjectStudy
from mcage.studies.sweep.batch import slices_of_case
from mcage.studies.sweep.plan import SweepPlan
from mcage.techniques import technique
from mcage.tracing.emulation.faults import End, Flip, RunFaults
from mcage.variation.fault_models import EntryFaults
from mcage.variation.vmin_tail import TailCells

BITS = {
    **{Form.PLAIN: 32 * 64, Form.RECORD: 32 + 6, Form.BASE: 32},
    **{Form.BYTES: 32 + 8 * 63, Form.HALVES: 32 + 16 * 63},
}
"""Cells that a value of 64 lanes occupies."""

NONE, SECDED32 = Protection.of("none"), Protection.of("secded32")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "blend.cl").write_text(BLEND)
    (folder / "blend.py").write_text(BLEND_ARGUMENTS)
    return {"source": str(folder / "blend.cl"), "args": str(folder / "blend.py"), "arch": "gfx900"}


def injections(**fields):
    return InjectStudy(InjectSpec.from_mapping(fields), *select_engine("numba"))


def study(kernel, **fields):
    return injections(**{"program": kernel, "seed": 5, "instances": 60} | fields)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    return request_of(tmp_path_factory.mktemp("kernel"), "blend")


@pytest.fixture(scope="module")
def kernel(asked):
    return InjectedKernel(asked, CellsUnderWaves)


# How values are kept in cells.


def compressible_values(random, count=40):
    lane = np.arange(64, dtype=np.uint32)
    rows = []
    for _ in range(count):
        e, b = (random.choice([0, 1, 2, 8, 64]) for _ in range(2))
        base = np.uint32(random.integers(2**32))
        rows.append(base + np.uint32(e) * (lane % 8) + np.uint32(b) * (lane // 8))
    return np.array(rows, np.uint32)


@pytest.mark.parametrize("inline", [False, True])
def test_what_is_stored_is_read_again(inline):
    random = np.random.default_rng(1)
    small = random.integers(-100, 100, (30, 64)).astype(np.int32).view(np.uint32)
    values = np.concatenate(
        [
            compressible_values(random),
            np.full((3, 64), 7, np.uint32),
            small + np.uint32(0xFFFFFFF0),
            100 * small,
            random.integers(2**32, size=(20, 64), dtype=np.uint32),
        ]
    )
    storing = Storing(64, 16, inline)
    form = storing.forms(values)
    assert set(form.tolist()) == ({0, 2, 3, 4} if inline else {0, 1})
    block = random.integers(4, size=len(values)) * (not inline)
    cells = storing.cells(values, form, block)
    np.testing.assert_array_equal(storing.values(cells, form, block), values)
    used = storing.used(form, block)
    assert not (cells & ~used).any()
    bits = np.bitwise_count(used).sum(axis=1)
    np.testing.assert_array_equal(bits, [BITS[Form(each)] for each in form])


def test_a_wrong_bit_of_a_record():
    lane = np.arange(64, dtype=np.uint32)
    value = (1000 + 4 * (lane % 8) + 32 * (lane // 8)).astype(np.uint32)[None]
    storing, where = Storing(64, 16, inline=False), np.array([2])
    form = storing.forms(value)
    assert form[0] == Form.RECORD
    cells = storing.cells(value, form, where)
    assert cells[0, 32] == 1000
    assert cells[0, 33] == 2 | 5 << 3  # log2 of both deltas
    base, code = cells.copy(), cells.copy()
    base[0, 32] ^= 1 << 4
    np.testing.assert_array_equal(
        storing.values(base, form, where)[0], value[0] + np.uint32(16) * (1 - 2 * (1000 >> 4 & 1))
    )
    code[0, 33] ^= 1
    expected = 1000 + 8 * (lane % 8) + 32 * (lane // 8)
    np.testing.assert_array_equal(storing.values(code, form, where)[0], expected)


def test_a_wrong_bit_of_a_difference():
    value = np.full((1, 64), 5, np.uint32)
    value[0, 3] = 4
    storing, where = Storing(64, 16, inline=True), np.array([0])
    form = storing.forms(value)
    assert form[0] == Form.BYTES
    cells = storing.cells(value, form, where)
    cells.view(np.uint8)[0, 4 + 2] ^= 0x80  # lane 3: -1 becomes 127
    expected = value.copy()
    expected[0, 3] = 5 + 127
    np.testing.assert_array_equal(storing.values(cells, form, where), expected)


# Flips.


@pytest.mark.slow
@needs_clang
def test_only_needed_bits_matter(asked):
    """Flips of any allocated bit at any moment: where it is not needed, nothing changes.

    The emulator writes a register when an instruction issues, the hardware when its result is there
    and replaces what has flipped meanwhile. Latencies are short here, and such moments left out.
    """
    kernel = InjectedKernel(asked.model_copy(update={"latency": 0.01}), CellsUnderWaves)
    where = PlacedKernel(kernel, technique("baseline"), 64)
    random = np.random.default_rng(7)
    writes, windows = kernel.writes, kernel.writes.windows
    count, asked, needed, in_flight = 1500, [], [], []
    lasting = windows.release_cycle - windows.alloc_cycle
    for _ in range(count):
        window = int(random.choice(len(lasting), p=lasting / lasting.sum()))
        cycle = int(random.integers(windows.alloc_cycle[window], windows.release_cycle[window]))
        register = int(random.integers(windows.size[window]))
        lane, bit = int(random.integers(64)), int(random.integers(32))
        of_register = np.flatnonzero((writes.window == window) & (writes.reg == register))
        before = of_register[writes.cycle[of_register] <= cycle]
        after = writes.cycle[of_register[len(before) : len(before) + 1]]
        is_needed = False
        if len(before):
            of, age = kernel.needs, cycle - writes.cycle[before[-1]]
            is_needed = any(
                int(of.lanes[before[-1], column]) >> lane & 1
                and age < of.cycles[before[-1], column]
                for column in range(2)
            )
        bits = np.zeros(64, np.uint32)
        bits[lane] = 1 << bit
        flip = Flip(kernel.step_after(window, cycle), register, bits)
        asked.append(RunFaults(flips={kernel.place_of(window): [flip]}))
        needed.append(is_needed)
        in_flight.append(len(after) > 0 and after[0] - cycle <= 8)
    ran = kernel.reruns.run(asked)
    harm = np.array([each.end != End.COMPLETE or len(each.place) > 0 for each in ran])
    needed = np.array(needed)
    assert not harm[~needed & ~np.array(in_flight)].any()
    assert np.mean(in_flight) < 0.2
    share = where.needed_share / where.allocated_share
    assert abs(needed.mean() - share) < 4 * np.sqrt(share * (1 - share) / count)


@needs_clang
@each("name", ["baseline", "rc+rar", "wc", "rrcd", "rrcd+rc+rar"])
def test_needed_bits_are_those_that_ace_counts(kernel, name):
    where = PlacedKernel(kernel, technique(name), 64)
    ace = ace_under(kernel.trace, technique(name))
    # ACE counts two bits of the fifth byte of a record that mean nothing.
    assert where.needed_share == pytest.approx(ace.avf, rel=0.01)
    assert where.needed_share <= ace.avf * (1 + 1e-9)


@needs_clang
@pytest.mark.parametrize("name", ["baseline", "rrcd", "wc"])
def test_flips_under_techniques(kernel, name):
    """Each flip is one of a bit that its value has there, at a moment in which it is needed."""
    where = PlacedKernel(kernel, technique(name), 64)
    kinds = set()
    for upset in upsets_of(11, np.arange(400), where, NONE):
        bit, faults = upset.bit, hit(upset, where, NONE).faults
        ((place, (flip,)),) = faults.flips.items()
        window = int(kernel.writes.window[bit.write])
        assert place == kernel.place_of(window)
        assert flip.register == kernel.writes.reg[bit.write]
        assert flip.bits.any()
        assert where.placed.entry[:, where.placed.home[bit.write]].max() >= bit.entry
        kinds.add((Form(int(where.form[bit.write])), int(np.count_nonzero(flip.bits)) > 1))
        assert 0 <= bit.cycle < kernel.trace.cycles
    forms = {form for form, _ in kinds}
    assert Form.PLAIN in forms
    assert (len(forms) > 1) == (name != "baseline")
    assert any(many for _, many in kinds) == (name != "baseline")


@needs_clang
def test_the_code_of_a_word_and_a_flip(kernel):
    where = PlacedKernel(kernel, technique("baseline"), 64)
    (upset,) = upsets_of(5, np.arange(1), where, SECDED32)
    bit = upset.bit
    assert hit(upset, where, NONE).faults is not None
    assert hit(upset, where, SECDED32).fate == Fate.MASKED
    assert hit(upset, where, SECDED32).faults is None
    geometry, lane, place = kernel.geometry, bit.cell // 32, bit.cell % 32
    value = int(where.values[where.value[bit.write], lane])

    def beside(places):
        """The flip beside cells of its word that differ from what is stored."""
        cells = np.array([geometry.entry_bits * bit.entry + 32 * lane + each for each in places])
        at_one = np.array([not value >> each & 1 for each in places])
        none = np.zeros(geometry.entries, np.uint8)
        return hit(upset, where, SECDED32, FaultsAtAge(cells, at_one, none, geometry))

    others = [each for each in range(32) if each != place]
    assert beside(others[:1]).fate == Fate.CODE
    assert beside(others[:1]).faults is None
    assert beside([place]).faults is None  # a stuck cell does not flip
    assert beside([place]).fate == Fate.MASKED
    code = secded(32)
    single = np.eye(code.bits, dtype=bool)
    assert not code.left_by(single).any()  # what a code corrects is right behind it
    aliased = 0
    for first in others:
        for second in others:
            if second <= first:
                continue
            errors = np.zeros(code.bits, bool)
            errors[[place, first, second]] = True
            outcome, found = int(code.decode(errors)), beside([first, second])
            if outcome == Outcome.DETECTED:
                assert found.fate == Fate.CODE
                continue
            assert outcome == Outcome.MISCORRECTED
            column = int(np.bitwise_xor.reduce(code.all_columns[[place, first, second]]))
            named = int(np.flatnonzero(code.all_columns == column)[0])
            wrong = {place, first, second} ^ {named}
            ((flip,),) = found.faults.flips.values()
            expected = sum(1 << each for each in wrong if each < 32)
            assert int(flip.bits[lane]) == expected
            assert np.count_nonzero(flip.bits) == 1
            aliased += 1
    assert aliased > 10


def needed_contents(where, kernel):
    """Writes, their needed cells while these stay the same, and the mean time of that in a pass."""
    for write, ends in enumerate(kernel.needs.cycles):
        block = int(where.placed.block[0, where.placed.home[write]])
        for begin, end in pairwise(np.unique([0, *ends])):
            cells = where.needed_cells(write, block, int(kernel.writes.cycle[write] + begin))
            yield write, cells, (end - begin) * where.in_file[:, write].mean()


@needs_clang
@pytest.mark.parametrize("name", ["baseline", "rc+rar", "wc", "rrcd+rc+rar"])
def test_needed_cells_are_as_many_as_needed_bits(kernel, name):
    where, total, forms = PlacedKernel(kernel, technique(name), 64), 0, set()
    for write, cells, lasting in needed_contents(where, kernel):
        number, form = int(np.bitwise_count(cells).sum()), Form(int(where.form[write]))
        assert number <= BITS[form]
        total += number * lasting
        forms.add(form)
    assert (len(forms) > 1) == (name == "wc")
    share = total / kernel.geometry.cells / kernel.trace.cycles
    assert share == pytest.approx(where.needed_share, rel=1e-9)


def of_every_upset(needed, row, protection, sizes):
    """Sums over all upsets that reach needed words of a row, by their frequencies.

    Their number, how many are detected and how many are silent, their columns, and how many begin
    in a check bit.
    """
    of_word, sums, code = row.needed_of_word(needed), np.zeros(5), protection.code
    for first, (size, share) in product(range(len(row.word)), enumerate(sizes, start=1)):
        last = min(first + size, len(row.word))
        changed = {}
        for column in range(first, last):
            if of_word[column]:
                errors = np.zeros(row.data_bits if code is None else code.bits, bool)
                changed.setdefault(int(row.word[column]), errors)[row.bit[column]] = True
        if changed:
            outcomes = {Outcome.MISCORRECTED}
            if code is not None:
                outcomes = {*code.decode(np.array(list(changed.values()))).tolist()}
            detected = Outcome.DETECTED in outcomes
            silent = not detected and max(outcomes) > Outcome.DETECTED
            in_check_bits = row.bit[first] >= row.data_bits
            sums += share * np.array([1, detected, silent, last - first, in_check_bits])
    return sums


FEW, MANY = (4, 600), (60, 2000)
"""Contents of the needed cells, and upsets that are drawn."""


@needs_clang
@pytest.mark.parametrize(
    ("technique_name", "name", "contents", "upset_count"),
    [
        ("baseline", "none", *FEW),
        ("wc", "secded32", *FEW),
        pytest.param("baseline", "secded32x4", *MANY, marks=pytest.mark.slow),
        pytest.param("wc", "secded32", *MANY, marks=pytest.mark.slow),
        pytest.param("wc", "secded64", *MANY, marks=pytest.mark.slow),
    ],
)
def test_upsets_are_those_that_reach_needed_words(
    kernel, technique_name, name, contents, upset_count
):
    """Against all upsets, of the needed cells as they are at moments that are drawn."""
    protection, sizes = Protection.of(name), upsets("28nm").sizes
    where = PlacedKernel(kernel, technique(technique_name), 64)
    row, times = row_of(protection, kernel.geometry), {}
    for _, cells, lasting in needed_contents(where, kernel):
        times[cells.tobytes()] = times.get(cells.tobytes(), 0) + lasting
    fewest = least_ways(where, protection)
    for content in times:
        of_word = row.needed_of_word(np.frombuffer(content, np.uint32))
        assert of_word[of_word > 0].min(initial=fewest) >= fewest
    # A random choice stands for all, by their time.
    random, lasting = np.random.default_rng(6), np.array(list(times.values()))
    chosen = random.choice(len(times), contents, p=lasting / lasting.sum())
    cells = [np.frombuffer(content, np.uint32) for content in times]
    of_content = {
        at: of_every_upset(cells[at], row, protection, sizes) for at in {*chosen.tolist()}
    }
    exact = np.array([of_content[at] for at in chosen])
    exact *= lasting.sum() / kernel.trace.cycles
    drawn = upsets_of(9, np.arange(upset_count), where, protection, sizes)
    hits = [hit(upset, where, protection) for upset in drawn]
    columns = np.array([upset.columns for upset in drawn])
    found = np.stack(
        [
            np.ones(upset_count),
            [of.fate == Fate.CODE for of in hits],
            [bool(of.faults) for of in hits],
            columns[:, 1] - columns[:, 0],
            row.bit[columns[:, 0]] >= row.data_bits,
        ]
    )
    attempts = sum(upset.attempts for upset in drawn)
    begins = drawn_cells(where, protection, sizes) * (np.arange(1, len(sizes) + 1) @ sizes)
    error = begins * np.sqrt((found**2).sum(axis=1)) / attempts
    spread = exact.std(axis=0) / np.sqrt(contents) + error
    assert (abs(begins * found.sum(axis=1) / attempts - exact.mean(axis=0)) <= 4 * spread).all()


# Faulty cells.


def slice_with(kernel, cells, at_one, protection=NONE):
    geometry = kernel.geometry
    none = np.zeros(geometry.entries, np.uint8)
    faults = FaultsAtAge(np.array(cells), np.array(at_one, bool), none, geometry)
    return faults, CellRules(
        Storing(64, geometry.block_bits // 32, inline=False),
        protection.code,
        on_read=False,
        preloaded=kernel.emulation.preloaded,
    )


def random_cells(kernel, random, count):
    """Cells of entries that the kernel uses."""
    geometry, slots = kernel.geometry, kernel.writes.windows
    entries = np.unique(slots.base[:, None] + np.arange(6))
    cells = geometry.entry_bits * random.choice(entries, count) + random.integers(
        geometry.entry_bits, size=count
    )
    cells = np.unique(cells)
    return cells, random.integers(2, size=len(cells)).astype(bool)


def under_waves(kernel, cells, at_one):
    """Masks of the registers over these cells, by where the windows of the trace lie."""
    geometry, windows = kernel.geometry, kernel.writes.windows
    stuck = {}
    for window in range(len(windows.slot)):
        for cell, one in zip(cells.tolist(), at_one.tolist(), strict=True):
            entry, bit = divmod(cell, geometry.entry_bits)
            register = entry - int(windows.base[window])
            if not 0 <= register < windows.size[window]:
                continue
            none = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
            mask, value = stuck.setdefault((*kernel.place_of(window), register), none)
            mask[bit // 32] |= np.uint32(1 << bit % 32)
            value[bit // 32] |= np.uint32(one << bit % 32)
    return stuck


@needs_clang
@pytest.mark.parametrize("fault", ["stuck", "read"])
def test_chosen_cells_equal_brute_force(program, tmp_path, fault):
    """Cells of a file, values drawn or not, against a run with them in the registers above."""
    fields = {
        "program": program,
        "protections": ["none", "secded32"],
        "inject": {"fault": fault, "stuck_cells": str(tmp_path / "cells.npy")},
    }
    np.save(tmp_path / "cells.npy", np.array([[0, 0, 0]]))
    kernel = injections(**fields).kernel
    random, rows, stuck = np.random.default_rng(17), [], []
    for instance, count in enumerate([1, 1, 1, 1, 2, 3, 8, 20]):
        cells, at_one = random_cells(kernel, random, count)
        is_drawn = random.integers(2, size=len(cells)) == 1
        drawn = drawn_values(7, instance, cells)
        rows += [
            (instance, *row) for row in zip(cells, np.where(is_drawn, -1, at_one), strict=True)
        ]
        stuck.append(under_waves(kernel, cells, np.where(is_drawn, drawn, at_one)))
    np.save(tmp_path / "cells.npy", random.permutation(rows).astype(np.int32))
    study, fates = injections(**fields, seed=7), set()
    assert study.spec.instances == 8
    found = study.compute(0, 8)
    emulation, final = emulation_of(study.spec.program), study.kernel.reruns.final
    for instance, of_registers in enumerate(stuck):
        fate = Fate(found["fate"][0, instance, 0])
        on_read = fault == "read"
        expected = memory_after(emulation, stuck=of_registers, on_read=on_read, most=100_000)
        ran = study.rerun(0, instance, 0)
        if isinstance(expected, str):
            assert fate in (Fate.ADDRESS, Fate.LIMIT), expected
        else:
            memory = final.copy()
            if ran is not None:
                memory[ran.place] = ran.content
            np.testing.assert_array_equal(memory, expected)
            assert (fate == Fate.MASKED) == (memory == final).all()
        fates.add("ended" if isinstance(expected, str) else fate == Fate.MASKED)
        assert found["faulty_bits"][0, instance, 0] == sum(row[0] == instance for row in rows)
        assert (found["silent_years"][0, instance] == 0) == (fate in SILENT)
        assert (found["told_years"][0, instance] == 0) == (fate in DETECTED)
    assert fates == {True, False, "ended"}
    # A code corrects cells that are alone in their words.
    assert (found["fate"][1, :4, 0] == Fate.MASKED).all()
    parts = [study.compute(5, 8), study.compute(0, 5)]
    np.testing.assert_array_equal(parts[0]["fate"], found["fate"][:, 5:])
    np.testing.assert_array_equal(parts[1]["fate"], found["fate"][:, :5])


@needs_clang
def test_a_code_corrects_one_faulty_cell_of_a_word_and_detects_two(kernel):
    where = PlacedKernel(kernel, technique("baseline"), 64)
    writes, geometry = kernel.writes, kernel.geometry
    # A value that is read in all lanes.
    write = int(np.flatnonzero((kernel.needs.reads > 0) & (writes.reg == 1))[0])
    entry = int(where.placed.entry[0, where.placed.home[write]])
    lane = 5
    value = int(where.values[where.value[write], lane])
    first = geometry.entry_bits * entry + 32 * lane

    def end_with(cells, at_one):
        faults, rules = slice_with(kernel, cells, at_one, SECDED32)
        wrong = faults_of(where, faults, rules)
        return None if wrong is None else kernel.reruns.run([wrong])[0].end

    differs = [not value >> place & 1 for place in range(32)]
    assert end_with([first + 3], [differs[3]]) is None
    assert end_with([first + 3, first + 9], [differs[3], differs[9]]) == End.DETECTED
    # A check cell and a cell of data: check cells count as well.
    check = int(SECDED32.code.check(np.array([[value, 0]], np.uint32))[0, 0])
    cells = [first + 3, geometry.cells + first + 2]
    assert end_with(cells, [differs[3], not check >> 2 & 1]) == End.DETECTED


@needs_clang
@pytest.mark.parametrize("name", ["rrcd", "rrcd+rc+rar"])
def test_a_technique_that_knows_faults_avoids_them(kernel, name):
    random = np.random.default_rng(8)
    geometry = kernel.geometry
    cells, at_one = random_cells(kernel, random, 30)
    faults = FaultySlice(cells, at_one, np.zeros(len(cells)), geometry, NONE, 10.0)
    for known, harmless in ((0.0, True), (-1.0, False)):
        at_age = faults.at(0.0, known)
        (where,) = PlacedKernel(kernel, technique(name), 64).on_maps(at_age.fault_map[None])
        rules = CellRules(where.storing, None, on_read=False, preloaded=kernel.emulation.preloaded)
        wrong = faults_of(where, at_age, rules)
        assert (wrong is None) == harmless


def test_what_is_repaired():
    geometry = preset("gcn")
    size = geometry.entry_bits
    # Two cells of one word of entry 0 and of entry 2; a cell of entry 1, and one that fails later.
    cell = np.array([5, size + 9, 7, size * 2 + 40, size * 2 + 41, size * 3])
    years = np.array([0.0, 1.0, 2.0, 3.0, 3.5, 5.0])

    def faults_at(age, known, name):
        faults = cell, np.ones(6, bool), years
        return FaultySlice(*faults, geometry, Protection.of(name), 10.0).at(age, known)

    def live(*given):
        return faults_at(*given).cell.tolist()

    # Unknown cells do harm; known ones lie in blocks that are not used, unless they are repaired.
    assert live(4, -1, "none") == cell[:5].tolist()
    assert live(4, 4, "none") == []
    assert live(4, 2.5, "none") == [size * 2 + 40, size * 2 + 41]
    assert live(4, 1.5, "ecp1") == [7, size * 2 + 40, size * 2 + 41]
    assert live(4, 3.2, "ecp1") == [size * 2 + 41]  # a pointer takes the place of the first
    assert live(4, 4, "secded32") == [size + 9]
    assert live(4, 1.5, "secded32") == cell[:5].tolist()
    # Of words with two, one is replaced; words with one need no pointer.
    assert live(4, 4, "secded32+ecp1") == [size + 9, 7, size * 2 + 41]
    assert live(4, 2.5, "none+spare1") == [size * 2 + 40, size * 2 + 41]
    assert live(4, 0.5, "none+spare1") == [size + 9, size * 2 + 40, size * 2 + 41]
    # A test has told of what had failed by then; without tests, what the new slice had is known.
    for interval, known in ((1.5, 2.5), (None, 0.0)):
        of = FaultySlice(
            cell, np.ones(6, bool), years, geometry, NONE, 10.0, interval_years=interval
        )
        assert of.at_reported(4.0).cell.tolist() == live(4, known, "none")
    given = EntryFaults.none(1, Protection.of("ecp1"), geometry)
    order = np.sort(cell[:5]).astype(np.int32)
    tail = TailCells(np.array([0, 5]), order, np.zeros(5), geometry)
    maps = given.more(tail, np.ones(5, bool)).maps[0]
    found = faults_at(4, 4, "ecp1").fault_map
    np.testing.assert_array_equal(found, maps)


def test_which_value_a_cell_gives():
    cells = np.arange(400)
    weak = np.array([0, 1] * 100 + [-1] * 200, np.int8)
    at_one = values_of_cells(3, 7, cells, weak)
    np.testing.assert_array_equal(at_one[:200], [True, False] * 100)
    assert 60 < at_one[200:].sum() < 140
    again = values_of_cells(3, 7, cells[250:], weak[250:])
    np.testing.assert_array_equal(again, at_one[250:])


# What is said of a run.


def test_wrong_outputs():
    right = {"y": np.array([1.0, -4.0, 2.0], np.float32), "n": np.array([7], np.int32)}

    def compared(**changes):
        return WrongOutputs.of(right, right | changes, changed_bytes=1)

    one_bit = right["y"].copy()
    one_bit.view(np.uint32)[0] ^= 1 << 22
    found = compared(y=one_bit)
    assert (found.wrong_elements, found.wrong_bits, found.not_finite) == (1, 1, False)
    assert found.output_error == pytest.approx(abs(one_bit[0] - 1) / 4)
    lost = compared(y=np.array([1, np.nan, 2], np.float32))
    assert (lost.wrong_elements, lost.not_finite, lost.output_error) == (1, True, np.inf)
    assert compared(n=np.array([6], np.int32)).output_error == pytest.approx(1 / 7)
    assert compared().output_error == np.inf  # memory beside the outputs
    assert WrongOutputs.of(right, right).output_error == 0


@each(
    ("fates", "given_up", "expected"),
    [
        ("", np.inf, (np.nan, np.nan, 0, np.nan, 0)),
        ("MSM", np.inf, (2, np.nan, 1, np.nan, 1)),
        ("STSM", 3.5, (1, 3.5, 3, np.nan, 3)),
        ("MCSS", np.inf, (np.nan, 2, 0, np.nan, 2)),
        ("SCCSCS", np.inf, (1, 2, 1, 5, 2)),
        ("AS", np.inf, (np.nan, 1, 0, np.nan, 1)),
        ("SS", 0.0, (np.nan, 0, 0, np.nan, 0)),
    ],
)
def test_silence_ends_with_the_first_thing_that_tells(fates, given_up, expected):
    letters = {"M": Fate.MASKED, "S": Fate.SDC, "T": Fate.TOLERABLE, "C": Fate.CODE}
    of = [(letters | {"A": Fate.ADDRESS})[letter] for letter in fates]
    numbers = numbers_of(range(1, len(of) + 1), of, given_up)
    np.testing.assert_equal(tuple(numbers.values()), expected)


def test_when_a_slice_is_looked_at():
    years = np.array([0.0, 0.3, 0.31, 0.99, 2.0, 7.0])

    def moments(interval, end, known=0.0):
        cells = np.arange(6), np.ones(6, bool), years, preset("gcn"), NONE
        keys = {"interval_years": interval, "known_years": known}
        return [tuple(look) for look in FaultySlice(*cells, end, **keys).moments()]

    assert moments(None, 5.0) == [
        (0.3, 0.0, None),
        (0.31, 0.0, None),
        (0.99, 0.0, None),
        (2.0, 0.0, None),
    ]
    assert moments(0.5, 6.9) == [(0.5, 0.0, 0.5), (1.0, 0.5, 1.0), (2.0, 1.5, 2.0)]
    assert moments(None, 0.3, -1.0) == [(0.0, -1.0, None), (0.3, -1.0, None)]
    assert moments(5.0, 7.5)[-1] == (7.5, 5.0, 10.0)
    assert moments(0.0, 1.0) == [(0.3, 0.3, 0.3), (0.31, 0.31, 0.31), (0.99, 0.99, 0.99)]


# Injections as a study, whose chain hangs together.


@needs_clang
def test_an_injection_is_a_function_of_spec_seed_and_instance(program):
    """Also as a process makes the study, of what the header of a file has."""
    given = {
        "techniques": ["rrcd"],
        "protections": ["none", "secded32"],
        "inject": {"fault": "flip", "ages_years": [0, 10.0]},
    }
    whole = study(program, **given)
    found = whole.compute(0, 12)
    again = resolve_name(whole.study.maker)(whole.header)
    parts = [again.compute(0, 8), again.compute(8, 12)]
    for variable in whole.header.variables:
        together = np.concatenate([part[variable.name] for part in parts], axis=1)
        np.testing.assert_array_equal(found[variable.name], together)
    other = study(program, **given | {"seed": 6}).compute(0, 12)
    assert any((found[name] != other[name]).any() for name in ("fate", "faulty_bits"))


@needs_clang
def test_a_run_is_repeated(program):
    given = {"inject": {"fault": "flip"}, "techniques": ["wc"]}
    flips = study(program, **given)
    found = flips.compute(0, 40)
    seen = set()
    for instance in range(40):
        fate = Fate(found["fate"][0, instance, 0])
        ran = flips.rerun(0, instance, 0)
        if fate in SILENT:
            wrong = flips.kernel.wrong_outputs(ran)
            assert wrong.wrong_elements == found["wrong_elements"][0, instance, 0]
        else:
            assert ran is None or ran.end != 0 or not len(ran.place)
        seen.add(fate)
    assert set(SILENT) & seen
    assert Fate.MASKED in seen
    assert set(DETECTED) & seen


# Flips of registers as programs see them: brute force, models, chosen places.

SMALL = {
    "horner": "__kernel void horner(__global const float *x, __global float *y) {\n"
    "    int i = __builtin_amdgcn_workitem_id_x();\n"
    "    float sum = 0.5f;\n"
    "    for (int k = 0; k < 3; k++) sum = sum * x[i] + k;\n"
    "    y[i] = sum;\n}\n",
    "gather": "__kernel void gather(__global const int *x, __global int *y) {\n"
    "    int i = __builtin_amdgcn_workitem_id_x();\n"
    "    int at = x[i];\n"
    "    y[i] = at > 1 ? x[at] * 3 : i - at;\n}\n",
}
OUTCOMES = ("masked", "silent", "detected")


def small(folder, name):
    (folder / f"{name}.cl").write_text(SMALL[name])
    source = {"source": str(folder / f"{name}.cl"), "arch": "gfx900"}
    kind = "f32" if name == "horner" else "i32"
    args = f"x={kind}[3]~{'normal' if kind == 'f32' else 'integers(0,3)'} y={kind}[3]"
    return source | {"args": args, "grid": "1", "block": "3", "latency": 0.1}


def outcomes(kernel, flips):
    ran = kernel.reruns.run([RunFaults(flips={kernel.place_of(0): [flip]}) for flip in flips])
    kinds = [2 if of.end != End.COMPLETE else int(len(of.place) > 0) for of in ran]
    return np.array(kinds)


def one_bit(kernel, step, register, lane, bit):
    bits = np.zeros(kernel.geometry.components, np.uint32)
    bits[lane] = 1 << bit
    return Flip(step, register, bits)


def exact_shares(kernel, weight):
    """Outcome of every bit of every lane at every moment, weighted: float64[outcomes]."""
    weights = {}
    writes, needs = kernel.writes, kernel.needs
    wave = kernel.waves[0]
    registers_of_step = np.bincount(kernel.step_of_write[kernel.step_of_write >= 0])
    for write in range(len(writes.reg)):
        register, step = int(writes.reg[write]), int(kernel.step_of_write[write])
        for lane in range(3):
            if weight == "instruction":
                if step >= 0 and int(kernel.lanes_of_write[write]) >> lane & 1:
                    place = step + 1, register, lane
                    weights[place] = weights.get(place, 0) + 1 / registers_of_step[step]
                continue
            for column in range(2):
                if int(needs.lanes[write, column]) >> lane & 1:
                    first = int(writes.cycle[write])
                    for cycle in range(first, first + int(needs.cycles[write, column])):
                        place = kernel.step_after(0, cycle), register, lane
                        weights[place] = weights.get(place, 0) + 1
    assert all(0 <= step < len(wave.codes) for step, _, _ in weights)
    asked = [one_bit(kernel, *place, bit) for place in weights for bit in range(32)]
    kinds = outcomes(kernel, asked).reshape(len(weights), 32)
    of_place = np.stack([(kinds == kind).mean(axis=1) for kind in range(3)], axis=1)
    return np.average(of_place, axis=0, weights=list(weights.values()))


@pytest.mark.slow
@needs_clang
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("weight", ["cycle", "instruction"])
def test_shares_are_those_of_brute_force_over_every_bit(tmp_path, name, weight):
    flips = study(small(tmp_path, name), inject={"weight": weight}, instances=3000)
    found = flips.compute(0, 3000)["fate"][0, :, 0]
    exact = exact_shares(flips.kernel, weight)
    assert (exact > 0).all()
    for share, fates in zip(exact, ((Fate.MASKED,), SILENT, DETECTED), strict=True):
        known = proportion(int(np.isin(found, fates).sum()), len(found), 0.999)
        assert known.lower <= share <= known.upper


@needs_clang
@pytest.mark.parametrize("kind", ["single", "two-bits", "random", "zero"])
@pytest.mark.parametrize("weight", ["cycle", "instruction"])
def test_what_becomes_of_a_register(program, kind, weight):
    """What the file says of each flip is what happens, and values are those of the wave."""
    flips = study(program, inject={"upset": kind, "weight": weight})
    found = {name: of[0] for name, of in flips.compute(0, 60).items()}
    if flips.spec.inject.of_registers:
        assert "drawn_fit" not in {of.variable.name for of in flips.header.coordinates}
    windows = {flips.kernel.place_of(n): n for n in range(len(flips.kernel.waves))}
    lines = next(of.values for of in flips.header.coordinates if of.variable.name == "instruction")
    random = []
    for number, upset in enumerate(flips._upsets(flips.plan.cases[0], np.arange(60))):
        place = int(found["flip_work_group"][number]), int(found["flip_wave"][number])
        window, step = windows[place], int(found["flip_step"][number])
        register, lane = (int(found[f"flip_{name}"][number]) for name in ("register", "lane"))
        wave = flips.kernel.waves[window]
        of_lane = (wave.mask >> np.uint64(lane) & np.uint64(1)).astype(np.bool_)
        before = np.flatnonzero((wave.register == register) & (wave.step < step) & of_lane)
        line = lines[found["flip_instruction"][number]]
        if not len(before):
            assert line == "before the first instruction"
            continue
        code = flips.kernel._codes[wave.codes[wave.step[before[-1]]] >> 1]
        assert line.endswith(f": {code.inst.text}")
        if weight == "instruction":
            assert wave.step[before[-1]] == step - 1
            assert int(wave.mask[before[-1]]) >> lane & 1
        if not flips.spec.inject.of_registers:
            continue
        value = int(
            flips._placement(flips.plan.cases[0]).values[
                flips.kernel.writes.value[upset.write], lane
            ]
        )
        hit = upset.hit(flips._placement(flips.plan.cases[0]))
        if hit.faults is None:
            assert (kind, value) == ("zero", 0)
            continue
        ((flip,),) = hit.faults.flips.values()
        assert (flip.step, flip.register, np.flatnonzero(flip.bits)) == (step, register, [lane])
        errors, bit = int(flip.bits[lane]), int(found["flip_bit"][number])
        if kind == "random":
            random.append(value ^ errors)
            assert bit == -1
        else:
            known = {"single": 1 << max(bit, 0), "two-bits": 3 << max(bit, 0), "zero": value}
            assert errors == known[kind]
    if kind == "random":
        assert len({value >> 24 for value in random}) > 30
        assert len(set(random)) == len(random)


@needs_clang
def test_every_lane_of_every_result_is_as_likely(kernel):
    """A result of two registers counts as one."""
    lanes = {}
    for window, wave in enumerate(kernel.waves):
        for step, register, mask in zip(wave.step, wave.register, wave.mask, strict=True):
            lanes.setdefault((window, int(step)), {})[int(register)] = int(mask).bit_count()
    wide = {place for place, of in lanes.items() if len(of) > 1}
    results = {place: max(of.values()) for place, of in lanes.items()}
    share = sum(results[place] for place in wide) / sum(results.values())
    alone = sum(sum(lanes[place].values()) for place in wide)
    alone /= sum(sum(of.values()) for of in lanes.values())
    count = 4000
    flips = flips_of_results(3, np.arange(count), kernel, "single")
    found = np.mean([(flip.window, flip.step - 1) in wide for flip in flips])
    error = 4 * np.sqrt(share * (1 - share) / count)
    assert abs(found - share) < error < abs(alone - share)


PLACE = "work_group=2 wave=0 register=3 lane=5 bit=7 "


@needs_clang
def test_flips_at_chosen_places(program, tmp_path):
    """In a text, or in a file, by step or by moment; each is what its place says."""
    kernel = InjectedKernel(request := study(program).spec.program, CellsUnderWaves)
    assert request.arch == "gfx900"
    steps = [(3, 1, 2, 0), (12, 3, 5, 31), (20, 0, 63, 4)]
    (tmp_path / "at.csv").write_text(
        "lane,work_group, wave ,register,bit,step\n"
        + "".join(f"{lane},4,0,{register},{bit},{step}\n" for step, register, lane, bit in steps)
    )
    flips = injections(program=program, seed=5, inject={"at": str(tmp_path / "at.csv")})
    assert flips.spec.instances == 3
    found = {name: of[0] for name, of in flips.compute(0, 3).items()}
    window = next(n for n in range(len(kernel.waves)) if kernel.place_of(n) == (4, 0))
    asked = [one_bit(kernel, step, *place) for step, *place in steps]
    ran = kernel.reruns.run([RunFaults(flips={(4, 0): [flip]}) for flip in asked])
    for number, of in enumerate(ran):
        fate = Fate(found["fate"][number, 0])
        assert (fate in DETECTED) == (of.end != End.COMPLETE)
        assert (fate in SILENT) == (of.end == End.COMPLETE and len(of.place) > 0)
    assert found["flip_step"].tolist() == [step for step, *_ in steps]
    moment = (kernel.cycle_of(window, 12) + 0.5) / kernel.trace.cycles
    text = f"work_group=4 wave=0 register=3 lane=5 bit=31 moment={moment!r}"
    by_moment = injections(program=program, seed=5, inject={"at": text}).compute(0, 1)
    assert by_moment["flip_step"][0, 0] == kernel.step_after(window, kernel.cycle_of(window, 12))


@needs_clang
@pytest.mark.parametrize(
    ("inject", "words"),
    [
        ({"at": "register=3"}, ("inject.at", "work_group", "moment or step")),
        ({"at": f"{PLACE} step=x"}, ("step", "'x'", "no number")),
        ({"at": f"{PLACE} step=1 step=2"}, ("twice",)),
        ({"at": f"{PLACE} step=100000"}, ("step = 100000", "0 ...")),
        ({"at": f"{PLACE} moment=1.5"}, ("moment = 1.5",)),
        ({"at": f"{PLACE} moment=nan"}, ("moment = nan",)),
        ({"at": f"{PLACE} step=0".replace("lane=5", "lane=64")}, ("lane = 64", "0 ... 63")),
        ({"at": f"{PLACE} step=0".replace("wave=0", "wave=9")}, ("wave 9", "work-group 2")),
        ({"at": "nothing.csv"}, ("inject.at", "nothing.csv")),
        ({"at": f"{PLACE} step=0", "fault": "stuck"}, ("inject.at", "stuck")),
        ({"at": f"{PLACE} step=0", "weight": "instruction"}, ("inject.weight", "inject.at")),
        ({"weight": "instruction", "upset": "28nm"}, ("28nm", "instruction")),
        ({"weight": "instruction", "fault": "read"}, ("inject.weight", "read")),
        ({"upset": "zero", "fault": "stuck"}, ("inject.upset", "zero")),
    ],
)
def test_places_and_weights_that_make_no_sense_are_refused(program, inject, words):
    with pytest.raises(UserError) as error:
        injections(program=program, inject=inject)
    said = str(error.value)
    assert all(word in said for word in words), said
    assert said.count("\n") < 2


@needs_clang
@pytest.mark.parametrize(
    ("fields", "word"),
    [({"techniques": ["wc"]}, "'wc'"), ({"protections": ["secded32"]}, "secded32")],
)
def test_registers_behind_compression_or_a_code_are_refused(program, fields, word):
    with pytest.raises(UserError, match=f"inject.upset = 'zero'.*{word}"):
        injections(program=program, inject={"upset": "zero"}, **fields)


@needs_clang
def test_slices_that_aged_under_another_kernel(program):
    """Cells fail as in a sweep of that kernel, and values lie where this one has them."""
    given = {"inject": {"fault": "stuck"}, "instances": 6, "vdd_volts": [0.45]}
    other = study(program, workload={"kernels": ["DCT"]}, **given)
    own = study(program, **given)
    numbers = np.arange(6)
    (aged,), (alone,) = (each.plan.cases for each in (other, own))
    spec = SweepSpec.from_mapping(
        {"workload": {"kernels": ["DCT"]}, "seed": 5, "environments": ["dvfs"]}
        | {"techniques": ["baseline"], "vdd_volts": [0.45], "life": {"slowdown_limit": "none"}}
    )
    plan = SweepPlan(spec, select_engine("numba")[0])
    (case,) = plan.cases
    drawn = slices_of_case(plan, case, numbers)
    fault_free = plan.fault_free_of(case)
    expected = faulty_cells(case.conditions, plan.engine, fault_free, *drawn)
    for number, of in enumerate(other._of_case(aged, numbers)):
        cell, years, _ = expected.of(number)
        np.testing.assert_array_equal(of.cell, cell)
        np.testing.assert_array_equal(of.years, years)
    mine = own._of_case(alone, numbers)
    pairs = zip(mine, other._of_case(aged, numbers), strict=True)
    assert any(of.years.sum() != elsewhere.years.sum() for of, elsewhere in pairs)
    assert other._placement(aged).needed_share == own._placement(alone).needed_share
    assert "workload.kernels: DCT" in other.plan.programs
    with pytest.raises(UserError, match=r"'DCT' is of a slice gcn, but .*'gfx90a' runs on cdna2"):
        study(program | {"arch": "gfx90a"}, workload={"kernels": ["DCT"]}, **given)


@pytest.mark.slow
@needs_clang
def test_what_techniques_and_codes_are_good_for(program):
    """At the low Vdd of a technique that avoids faults, new faults alone do harm; a code helps."""
    of = study(
        program,
        techniques=["rrcd"],
        protections=["none", "secded32"],
        inject={"fault": "stuck", "test_interval_years": 1.0},
    )
    found = of.compute(0, 30)
    silent = found["silent_years"]
    assert np.isfinite(silent[0]).mean() > 0.1
    assert not np.isfinite(silent[1]).any()
    assert (found["silent_faults"][0] >= np.isfinite(silent[0])).all()
    assert (found["fate"][:, :, 0] == Fate.MASKED).all()  # the new slice has been tested
    # A test at once knows every fault.
    knows = study(
        program,
        techniques=["rrcd"],
        protections=["none"],
        inject={"fault": "stuck", "test_interval_years": 0.0},
    ).compute(0, 30)
    assert not np.isfinite(knows["silent_years"]).any()
    assert (np.isin(knows["fate"], [Fate.MASKED, Fate.RETIRED])).all()


@needs_clang
def test_a_code_makes_flips_beside_faulty_cells_detected(program):
    given = {
        "techniques": ["baseline"],
        "environments": ["undervolted"],
        "protections": ["none", "secded32"],
        "inject": {"fault": "flip", "ages_years": [0.0, 10.0]},
    }
    found = study(program, vdd_volts=[0.43], **given).compute(0, 150)
    none, coded = found["fate"]
    assert np.isin(none, SILENT).mean() > 0.2
    assert (none[:, 0] == none[:, 1]).all()  # without a code, a flip does not know its neighbours
    assert not np.isin(coded, SILENT).any()
    assert (coded == Fate.CODE).sum() > 0
    assert ((coded == Fate.CODE)[:, 1] >= (coded == Fate.CODE)[:, 0]).all()  # cells stay faulty


CELLS = {"fault": "stuck", "stuck_cells": "cells.npy"}


@needs_clang
@each(
    ("rows", "fields", "words"),
    [
        (None, {}, ("cells.npy", "no NumPy file")),
        ([[0, 5, 1]], {"inject": CELLS | {"fault": "flip"}}, ("inject.fault", "'flip'")),
        ([[0, 5, 1]], {"inject": CELLS | {"ages_years": [1.0]}}, ("inject.ages_years = [1.0]",)),
        ([[0, 5, 1]], {"scenarios": ["measured"]}, ("scenarios", "measured")),
        ([[0, 5, 1]], {"instances": 2}, ("instances = 2", "has 1 instances")),
        ([[0, 5, 1], [2, 5, 1]], {}, ("cells.npy", "no cell of instance 1")),
        ([[1, 5, 1]], {}, ("cells.npy", "no cell of instance 0")),
        ([[0, 256 * 2048, 1]], {}, ("cells.npy", "row 0: cell 524288", "524287")),
        ([[0, 5, 1], [0, 5, 0]], {}, ("cells.npy", "row 1: cell 5")),
        ([[0, 5]], {}, ("cells.npy", "(1, 2)", "(cells, 3)")),
        ([[0, 5, 1.0]], {}, ("cells.npy", "integers")),
        # Of injections in general.
        ((), {"techniques": ["disable"]}, ("disable", "fault map")),
        ((), {"program": {}}, ("program.source", "missing")),
        ((), {"inject": {"ages_years": [1.0, 11.0]}}, ("inject.ages_years", "11", "horizon")),
        ((), {"inject": {"ages_years": [1.0, 1.0]}}, ("ages_years", "rise")),
        (
            (),
            {"techniques": ["rrcd"], "registers": {"delta_limit": "none"}},
            ("delta_limit", "none"),
        ),
        ((), {"stopping": {"rel_ci": 0.1, "of": "median_life"}}, ("stopping.of", "sdc")),
    ],
)
def test_what_makes_no_sense_is_refused(program, tmp_path, monkeypatch, rows, fields, words):
    """Cells of a file that is none, of some rows, or not asked for."""
    monkeypatch.chdir(tmp_path)
    if rows:
        np.save("cells.npy", np.array(rows))
    chosen = {} if rows == () else {"inject": CELLS}
    with pytest.raises(UserError) as error:
        injections(**{"program": program} | chosen | fields)
    said = str(error.value)
    assert all(word in said for word in words)
    assert rows == () or "inject.stuck_cells" in said
    assert said.count("\n") < 2
