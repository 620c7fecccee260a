"""Runs with wrong registers, side by side and work-group by work-group, against one at a time."""

from itertools import product

import numpy as np
import pytest
from amd_tools import needs_clang
from faulty_oracle import emulation_of, memory_after, request_of

from mcage.tracing.emulation.faults import End, Flip, Reruns, RunFaults
from mcage.tracing.emulation.program import Program

pytestmark = needs_clang


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    x = np.random.default_rng(2).integers(0, 4096, 512).astype(np.int32)
    histogram = of_source(folder, HISTOGRAM, 8, {"x": x, "y": np.zeros(512, np.int32)})
    found = {name: emulation_of(request_of(folder, name)) for name in ("blend", "tickets")}
    return found | {"histogram": histogram}


def random_flips(emulation, steps, count, seed=1):
    random = np.random.default_rng(seed)
    asked = []
    for _ in range(count):
        group = int(random.integers(emulation.groups))
        wave = int(random.integers(emulation.waves_of_group))
        bits = np.zeros(emulation.kernel.lanes, np.uint32)
        bits[random.integers(len(bits))] = np.uint32(1) << np.uint32(random.integers(32))
        flip = Flip(int(random.integers(steps)), int(random.integers(emulation.window)), bits)
        asked.append(RunFaults(flips={(group, wave): [flip]}))
    return asked


def flip(step, register, lanes, bit, group=0):
    """Faults of a bit in some lanes of the first wave of a work-group."""
    bits = np.zeros(64, np.uint32)
    bits[lanes] = 1 << bit
    return RunFaults(flips={(group, 0): [Flip(step, register, bits)]})


def outputs_where_addresses_are_wrong(emulation, lanes):
    """The output y of each run that ends, without and with a bit beyond the LDS in registers."""
    reruns = Reruns(emulation)
    asked = product(range(1, 14), range(emulation.preloaded, 4))
    ran = reruns.run([flip(step, register, lanes, 20) for step, register in asked])
    ended = [reruns.outputs_of(each)["y"] for each in ran if each.end == End.COMPLETE]
    return reruns.outputs["y"], ended


def of_source(folder, text, groups, arguments):
    """A kernel of work-groups of one wave."""
    arch = request_of(folder / "of_source", "blend").arch
    source = folder / f"{text.split('void ')[1].split('(')[0]}.cl"
    source.write_text(text)
    return emulation_of(Program.of(source, arch, arguments, (groups,), (64,)))


def same(reruns, ran, expected):
    """Whether a run ended as the oracle did; None where the oracle has no answer."""
    if isinstance(expected, str):
        if "LDS" in expected:
            return None
        return ran.end in (End.ADDRESS, End.LIMIT)
    if ran.end == End.LIMIT:
        return None  # the oracle has a larger limit
    memory = reruns.final.copy()
    memory[ran.place] = ran.content
    return ran.end == End.COMPLETE and np.array_equal(memory, expected)


@pytest.mark.parametrize("name", ["blend", "tickets"])
def test_flips_do_what_they_do_one_at_a_time(kernels, name):
    emulation = kernels[name]
    reruns = Reruns(emulation)
    assert reruns.independent == (name == "blend")
    asked = random_flips(emulation, 40, 60)
    ran = reruns.run(asked)
    answers = [
        same(reruns, each, memory_after(emulation, faults.flips, most=100_000))
        for each, faults in zip(ran, asked, strict=True)
    ]
    assert False not in answers
    assert answers.count(None) < len(answers) // 6
    changed = [each for each in ran if each.end == End.COMPLETE and len(each.place)]
    assert len(changed) > 3
    assert any(each.end == End.ADDRESS for each in ran)
    if name == "blend":
        assert not all(each.whole for each in ran)
    else:
        assert all(each.whole for each in ran if each.end == End.COMPLETE)


HISTOGRAM = """__kernel void histogram(__global const int *x, __global int *y) {
    __local int bins[64];
    int item = __builtin_amdgcn_workitem_id_x();
    bins[item] = 0;
    __builtin_amdgcn_s_barrier();
    int at = __builtin_amdgcn_workgroup_id_x() * 64 + item;
    for (int k = 0; k < 4; k++) __sync_fetch_and_add(&bins[(x[at] >> k) & 63], 1);
    __builtin_amdgcn_s_barrier();
    y[at] = bins[item];
}
"""


@pytest.mark.parametrize("name", ["blend", "histogram"])
def test_a_run_depends_on_no_other(kernels, name):
    reruns = Reruns(kernels[name])
    asked = random_flips(kernels[name], 60, 40 if name == "blend" else 120, seed=5)
    together = reruns.run(asked)
    for faults, of_all in zip(asked, together, strict=True):
        (alone,) = reruns.run([faults])
        assert alone.end == of_all.end
        np.testing.assert_array_equal(alone.place, of_all.place)
        np.testing.assert_array_equal(alone.content, of_all.content)
    assert any(each.end == End.ADDRESS for each in together)
    assert reruns.run([RunFaults()])[0].end == End.COMPLETE
    assert not len(reruns.run([RunFaults()])[0].place)


def test_a_wrong_atomic_of_one_run_changes_no_other(kernels):
    """An address that is not aligned ends its run, whose memory lies beside that of the others."""
    wrong = [flip(step, register, 5, 0) for step in range(1, 50) for register in range(8)]
    first, *others = Reruns(kernels["histogram"]).run([flip(1, 0, [], 0), *wrong])
    assert sum(each.end == End.ADDRESS for each in others) > 3
    assert first.end == End.COMPLETE
    assert not len(first.place)


class _Reads:
    """Registers that note before which instructions they were asked."""

    def __init__(self, machine, cells):
        self.cells = cells

    def begin(self, machine):
        pass

    def before(self, machine, code, waves):
        for wave in waves.tolist():
            if wave in self.cells:
                self.cells[wave].append(code.inst.address)

    def wrote(self, machine, register, lanes):
        pass


def test_a_read_counts_once_whatever_ends_beside_it(kernels):
    emulation = kernels["blend"]
    reruns = Reruns(emulation, _Reads)
    alone, beside = [], []
    reruns.run([RunFaults(cells={(2, 0): alone})])
    others = random_flips(emulation, 70, 60, seed=9)
    ran = reruns.run([RunFaults(cells={(2, 0): beside}), *others])
    assert sum(each.end == End.ADDRESS for each in ran) > 3
    assert beside == alone


IN_PLACE = """__kernel void in_place(__global int *y) {
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    y[i] = y[i] * 2 + 1;
}
"""

READS = """__kernel void reads(__global const int *index, __global int *y) {
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    y[i] = y[index[i]] * 2 + 1;
}
"""
"""Only a read can go wrong by the index: where it leads to another work-group's result."""

MIRROR = """__kernel void mirror(__global int *y) {
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    y[i] = y[29183 - i];
}
"""
"""A store that goes wrong by a bit may change what another work-group alone reads."""


@pytest.mark.parametrize(
    ("text", "every"),
    [
        *((READS, 31), (MIRROR, 31)),
        *(pytest.param(text, 1, marks=pytest.mark.slow) for text in (IN_PLACE, READS, MIRROR)),
    ],
    ids=["some reads", "some of mirror", "in place", "reads", "mirror"],
)
def test_work_groups_that_a_fault_makes_meet_run_together(tmp_path, text, every):
    """A wrong index leads into what another work-group reads and writes, earlier or later."""
    arguments = {"y": np.arange(32768, dtype=np.int32)}
    if text == READS:
        arguments["index"] = np.arange(200 * 64, dtype=np.int32)
    emulation = of_source(tmp_path, text, 200, arguments)
    assert emulation.groups_together < 200  # some run before others
    reruns = Reruns(emulation)
    assert reruns.independent
    cases = product((3, 190), range(1, 14), range(6), (6, 8, 13, 14, 15, 16))
    asked = [
        flip(step, register, 5, bit, group) for group, step, register, bit in [*cases][::every]
    ]
    ran = reruns.run(asked)
    assert sum(each.whole for each in ran) > 10 / every
    for each, faults in zip(ran, asked, strict=True):
        assert same(reruns, each, memory_after(emulation, faults.flips))


LOOP = """__kernel void loop(__global int *y, int n) {
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    int count = y[i];
    int sum = 0;
    while (count != 0) { sum = (sum * 3) ^ count; count -= 1; }
    y[i] = sum;
}
"""


@pytest.mark.slow
def test_a_run_without_end_is_cut(tmp_path):
    arguments = {"y": np.arange(128, dtype=np.int32) % 7, "n": 1}
    emulation = of_source(tmp_path, LOOP, 2, arguments)
    reruns = Reruns(emulation)
    ends = [each.end for each in reruns.run(random_flips(emulation, 30, 150))]
    assert End.LIMIT in ends
    assert End.COMPLETE in ends


STORE = """__kernel void store(__global int *y) {
    __local int part[64];
    int item = __builtin_amdgcn_workitem_id_x();
    part[item] = item + 5;
    __builtin_amdgcn_s_barrier();
    y[item] = part[63 - item];
}
"""


def test_a_wrong_access_to_local_memory_is_dropped(tmp_path):
    """A read out of range gives 0, and so does one of what was never stored."""
    emulation = of_source(tmp_path, STORE, 1, {"y": np.full(64, -1, np.int32)})
    right, ended = outputs_where_addresses_are_wrong(emulation, [9])
    assert any((wrong != right).sum() == 1 and 0 in wrong for wrong in ended)


DRAW = """__kernel void draw(__global const int *x, __global int *y) {
    __local int numbers[64];
    int item = __builtin_amdgcn_workitem_id_x();
    numbers[item] = 7;
    __builtin_amdgcn_s_barrier();
    y[item] = __sync_fetch_and_add(&numbers[x[item]], item + 1);
}
"""


def test_each_wrong_atomic_in_local_memory_gives_zero(tmp_path):
    """Two lanes of one access, both out of range: the second does not see what the first added."""
    x = np.arange(64, dtype=np.int32)[::-1].copy()
    emulation = of_source(tmp_path, DRAW, 1, {"x": x, "y": np.full(64, -1, np.int32)})
    _, ended = outputs_where_addresses_are_wrong(emulation, [9, 30])
    dropped = np.full(64, 7)
    dropped[[9, 30]] = 0
    assert any(np.array_equal(each, dropped) for each in ended)
