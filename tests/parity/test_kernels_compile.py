"""Does NVIDIA's compiler take every kernel for every architecture, and without spills?

Daily, a program of every source is compiled for the oldest architecture, and one for the newest.
The slow tests compile every source for the oldest of each generation, and for one more: its
programs take turns, and the sources take turns among the others, which have the registers of their
generation. `scripts/benchmarks/gpu/kernel_resources.py --all` compiles all programs for all
architectures, which takes minutes.
"""

import locale
import sys

import pytest
from kernel_resources import NvrtcError, architectures, compile_kernels, oldest_of_generations

from mcage.engines.cuda_engine.programs import compilations
from mcage.geometry import MOST_BLOCKS, MOST_ENTRIES, NVIDIA, SliceGeometry
from mcage.version import KERNELS, kernel_text

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NVRTC's wheel is for Linux")

COMPILATIONS = list(compilations())


def name_of(compilation):
    source, constants = compilation
    return ",".join([source, *(f"{key}={value}" for key, value in constants.items())])


def test_all_sources_are_compiled():
    sources = {path.name for path in KERNELS.glob("*.cu")}
    assert {source for source, _ in COMPILATIONS} == sources


def assert_compiles_without_spills(program, some_architectures, cuda=None):
    source, constants = program
    text = kernel_text(source, constants)
    spilling = []
    for architecture in some_architectures:
        cubin, resources = compile_kernels(text, source, architecture, cuda)
        assert cubin.startswith(b"\x7fELF")
        for kernel in resources:
            assert kernel.shared_bytes <= 48 * 1024
            if kernel.stack_bytes or kernel.spill_bytes:
                spilling.append((architecture, kernel))
    assert not spilling, "\n".join(f"sm_{number}: {kernel}" for number, kernel in spilling)


SOURCES = sorted({source for source, _ in COMPILATIONS})


def programs_of(source):
    return [program for program in COMPILATIONS if program[0] == source]


def architectures_of(program):
    """Those for which it is this program's turn among all of its source; one at least.

    Of the source, these are the oldest of each generation, and those of the others for which it is
    the source's turn.
    """
    oldest, of_source = oldest_of_generations(), programs_of(program[0])
    others = [number for number in architectures() if number not in oldest]
    turn = SOURCES.index(program[0]) % len(others)
    chosen, turn = [*oldest, *others[turn :: len(SOURCES)]], of_source.index(program)
    return chosen[turn :: len(of_source)] or [chosen[turn % len(chosen)]]


def test_every_source_is_compiled_for_every_generation_and_some_for_every_architecture():
    """And none of its programs is left out."""
    everywhere = set()
    for source in SOURCES:
        chosen = [architectures_of(program) for program in programs_of(source)]
        assert all(chosen)
        assert set(oldest_of_generations()) < set().union(*chosen)
        everywhere |= set().union(*chosen)
    assert everywhere == set(architectures())
    assert min(everywhere) == 75
    assert {number // 10 for number in oldest_of_generations()} == {it // 10 for it in everywhere}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_compiles_without_spills(source):
    first, *_, last = architectures()
    assert_compiles_without_spills(programs_of(source)[0], [first])
    assert_compiles_without_spills(programs_of(source)[-1], [last])


LARGEST = SliceGeometry(entries=MOST_ENTRIES, components=64, block_components=64 // MOST_BLOCKS)


def of_other_slices():
    """A program of each source that knows the slice, for that of NVIDIA's GPUs.

    Of the largest slice, of those that number its blocks.
    """
    programs = {}
    for geometry, constant in ((NVIDIA, "ENTRIES"), (LARGEST, "BLOCKS")):
        for source, constants in compilations(geometry):
            if constant in constants:
                programs[source, geometry] = source, constants
    return list(programs.values())


@pytest.mark.slow
@pytest.mark.parametrize("program", of_other_slices(), ids=name_of)
def test_sources_compile_for_other_slices(program):
    assert_compiles_without_spills(program, [90])


@pytest.mark.slow
@pytest.mark.parametrize("program", COMPILATIONS, ids=name_of)
def test_every_program_compiles_without_spills(program):
    assert_compiles_without_spills(program, architectures_of(program))


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_cuda_12_compiles_every_source_without_spills(source):
    """The compiler that comes with ``mcage[cuda12]``, on its oldest and its newest card."""
    try:
        newest = architectures(12)[-1]
    except NvrtcError as error:
        pytest.skip(str(error))
    before = locale.getencoding()
    assert_compiles_without_spills(programs_of(source)[0], [75], 12)
    assert_compiles_without_spills(programs_of(source)[-1], [newest], 12)
    assert locale.getencoding() == before


SPILLING = """
#define WHAT 3
extern "C" __global__ void __launch_bounds__(1024, 2) spills(const float *in, float *out) {
    __shared__ float row[1024];
    float values[100];
    for (int i = 0; i < 100; i++) values[i] = in[i * 1024 + threadIdx.x];
    row[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int round = 0; round < 9; round++)
#pragma unroll
        for (int i = 0; i < 100; i++) values[i] = values[i] * row[i] + values[(i + 1) % 100];
#pragma unroll
    for (int i = 0; i < 100; i++) out[i * 1024 + threadIdx.x] = values[i];
}
extern "C" __global__ void stack(const int *in, int *out) {
    int counts[32] = {};
    for (int i = 0; i < 32; i++) counts[in[i] & 31] += i;
    out[threadIdx.x] = counts[in[threadIdx.x] & 31];
}
extern "C" __global__ void plain(int *out) { out[threadIdx.x] = WHAT; }
"""


def test_resources_are_told():
    resources = compile_kernels(SPILLING, "spilling.cu", 90)[1]
    kernels = {kernel.kernel: kernel for kernel in resources}
    spills, stack, plain = kernels["spills"], kernels["stack"], kernels["plain"]
    assert spills.registers == 32  # 65,536 of them for twice 1,024 threads
    assert spills.spill_bytes > 0
    assert spills.shared_bytes == 4096
    assert (stack.stack_bytes, stack.spill_bytes) == (128, 0)
    assert (plain.stack_bytes, plain.spill_bytes, plain.shared_bytes) == (0, 0, 0)


def test_error_in_a_file_has_the_line_of_the_file(tmp_path, monkeypatch):
    """Whatever constants and included files come before it."""
    monkeypatch.setattr("mcage.version.KERNELS", tmp_path)
    (tmp_path / "some.cuh").write_text("int two() {\n    return 2;\n}\n")
    (tmp_path / "bad.cu").write_text(
        '// 1\n#include "some.cuh"\n// 3\nint four = FOUR + nonsense;\n'
    )
    with pytest.raises(NvrtcError, match=r"kernels/bad\.cu\(4\): error.*nonsense"):
        compile_kernels(kernel_text("bad.cu", {"FOUR": 4, "FIVE": 5}), "bad.cu", 90)
