"""Does what NVIDIA's compiler makes of the kernels compute what the reference computes?

NVRTC compiles the kernels with the options of the engine and of CuPy, and the host device runs the
PTX, instruction by instruction. That is its front end and its optimiser; what ptxas makes of the
PTX, blocks that run at the same time, streams and times are not shown.

Here each technique runs for `ARCHITECTURE`, whose code generator is the newer of the two that NVRTC
has. With ``--ptx=75`` it is for that architecture, and what takes minutes runs, too: a longer sweep
and each barrier. These files go with it:

    pytest -m "" --ptx=75 tests/parity/test_kernels_from_ptx.py tests/parity/test_cuda_stress.py \\
        tests/parity/test_cuda_engine.py
"""

import contextlib
import re
from functools import cache

import numpy as np
import pytest
from engine_cases import NUMBA, NUMPY, daily, duties_of, live, random_replays
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import OPTIONS_OF_CUPY, HostDevice, LaunchError
from kernel_resources import NvrtcError, path_of_compiler
from sweep_cases import assert_same_arrays, undervolted_spec

from mcage.engines.cuda_engine import CudaEngine
from mcage.engines.cuda_engine.devices import NVRTC_OPTIONS
from mcage.engines.parity import ask, compare, demanding_maps, excerpt
from mcage.protection.codes import secded
from mcage.replays.prepare import prepare
from mcage.studies.sweep.study import Sweep
from mcage.techniques import TECHNIQUES
from mcage.version import KERNELS

ARCHITECTURE = 120


def why_no_compiler(cuda=None):
    """Why NVRTC cannot be called; empty if it can."""
    try:
        path_of_compiler(cuda)
    except NvrtcError as error:
        return str(error)
    return ""


pytestmark = [
    needs_host_compiler,
    pytest.mark.skipif(bool(why_no_compiler()), reason=why_no_compiler() or "NVRTC is there"),
]


@pytest.fixture(scope="module")
def architecture(request):
    return request.config.getoption("ptx") or ARCHITECTURE


@pytest.fixture
def thorough(request):
    if not request.config.getoption("ptx"):
        pytest.skip("takes minutes: --ptx=75, or another architecture, runs it")


class EditedDevice(HostDevice):
    """A device of PTX that lets a function change names' sources; and whether one was changed."""

    def __init__(self, edit, **given):
        super().__init__(ptx=True, **given)
        self._edit, self.edited = edit, False

    def ptx_of(self, text, name, constants):
        changed = self._edit(name, text)
        self.edited |= changed != text
        return super().ptx_of(changed, name, constants)


MAPS = demanding_maps(3)


@cache
def asked(name, bits=None):
    """A replay of a technique, and what the reference says of it; with check cells of a code."""
    replay = prepare(excerpt(), TECHNIQUES[name], code=secded(bits) if bits else None)
    return replay, ask(NUMPY, replay, MAPS)


def agreement(device, name, bits=None):
    replay, meant = asked(name, bits)
    return compare(ask(CudaEngine([device]), replay, MAPS), meant)


@pytest.mark.parametrize("name", daily(TECHNIQUES, ["rrcd"]))
def test_each_technique_is_equal_to_the_last_bit(name, architecture):
    """Counters, times of all cells, stress times; and of check cells, which no engine packs."""
    device = HostDevice(seed=1, ptx=True, architecture=architecture)
    words = agreement(device, name).in_words
    assert words == "equal to the last bit"
    assert device.launches
    if not TECHNIQUES[name].packs:
        assert agreement(device, name, 32).in_words == words


@pytest.mark.slow
def test_a_sweep_is_equal_to_the_last_bit(architecture):
    """Cells fail, and sampled cells are counted."""
    assert_same_sweeps(architecture, undervolted_spec(["baseline", "rrcd"]), 2)


@pytest.mark.slow
def test_a_longer_sweep_is_equal_to_the_last_bit(architecture, thorough):
    techniques = ("baseline", "disable", "gr-guard", "rrcd+pg", "rrcd+rc+rar")
    kernels = ("MatrixTranspose", "QuasiRandomSequence")
    assert_same_sweeps(architecture, undervolted_spec(techniques, kernels, epochs=3), 4)


def assert_same_sweeps(architecture, spec, instances):
    device = HostDevice(seed=3, ptx=True, architecture=architecture)
    actual = Sweep(spec, CudaEngine([device])).compute(0, instances)
    assert device.launches
    assert_same_arrays(actual, Sweep(spec, NUMBA).compute(0, instances))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gr-guard", "rrcd+rc+rar"])
def test_cuda_12_makes_what_is_equal_to_the_last_bit(name, thorough, architecture):
    if why := why_no_compiler(12):
        pytest.skip(why)
    device = HostDevice(seed=1, ptx=True, architecture=architecture, cuda=12)
    assert agreement(device, name).bit_equal


# ---- what must be seen to fail -----------------------------------------------------------------

BARRIER = re.compile(r"__sync(?:warp|threads)\(\);")


def barriers(source):
    return len(BARRIER.findall((KERNELS / source).read_text(encoding="utf-8")))


def without_barrier(source, number):
    """Take out a barrier of a source, counted from 0 in its file without those that it includes."""

    def edit(name, text):
        if name != source:
            return text
        text = text.replace("LOADS = WIDE ? 4 : 8", "LOADS = 1")  # small traces have several tiles
        included = len(BARRIER.findall(text)) - barriers(source)
        place = list(BARRIER.finditer(text))[included + number]
        return text[: place.start()] + text[place.end() :]

    return edit


def replaced(source, old, new):
    def edit(name, text):
        return text.replace(old, new) if name == source else text

    return edit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (without_barrier("fault_free.cu", 0), "baseline"),
        (without_barrier("walk.cu", 2), "wc"),
        (without_barrier("place.cu", 0), "rrcd+rc+rar"),
        (replaced("place.cu", "__shfl_up_sync(EVERY_LANE, value",
                  "__shfl_xor_sync(EVERY_LANE, value"), "gr-guard"),
        (replaced("place.cu", "__match_any_sync(EVERY_LANE, entry)",
                  "__ballot_sync(EVERY_LANE, entry)"), "rrcd+rc+rar"),
    ],
)  # fmt: skip
def test_a_missing_barrier_or_another_operation_shows(edit, name, architecture):
    """Either the device finds what is wrong, or the results are others."""
    device = EditedDevice(edit, seed=1, architecture=architecture)
    with contextlib.suppress(LaunchError):
        assert not agreement(device, name).bit_equal
    assert device.edited


NOT_NEEDED = {
    # A lane sums its column alone; the barrier is there for the compiler, as its comment says.
    ("walk.cu", 0),
}
"""Barriers without which no two threads meet: by the number that they have in their source."""

OF_TURNS = {("epoch_log.cu", 3)}
"""Barriers between the turns of an epoch: replays on fault maps have one."""

ALL_BARRIERS = [
    (path.name, number) for path in sorted(KERNELS.glob("*.cu")) for number in range(barriers(path))
]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "number"), ALL_BARRIERS)
def test_each_missing_barrier_is_a_race(source, number, architecture, thorough):
    edit = without_barrier(source, number)
    device = EditedDevice(edit, seed=2, architecture=architecture, races=True)
    if (source, number) in NOT_NEEDED:
        assert agreement(device, "rrcd+rc+rar").bit_equal
        assert device.edited
        return
    run = live_a_while if source == "shifts.cu" or (source, number) in OF_TURNS else agreement
    name = "baseline" if source in ("shifts.cu", "fault_free.cu") else "rrcd+rc+rar"
    with pytest.raises(LaunchError, match="and nothing orders the two"):
        run(device, name)
    assert device.edited


def live_a_while(device, name):
    live(CudaEngine([device]), duties_of(random_replays(TECHNIQUES[name])), 5)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["fault_free.cu", "place.cu", "walk.cu", "epoch_log.cu"])
def test_a_mask_without_a_lane_is_found(source, architecture):
    edit = replaced(source, "EVERY_LANE = 0xFFFFFFFFu", "EVERY_LANE = 0x7FFFFFFFu")
    device = EditedDevice(edit, seed=1, architecture=architecture)
    message = r"of lanes 0x7fffffff, without its own lane 31 \(.*\.cu\.ptx:\d+\)"
    with pytest.raises(LaunchError, match=message):
        agreement(device, "baseline" if source == "fault_free.cu" else "rrcd+pg")


BY_OPERATORS = "#define __dadd_rn(x, y) ((x) + (y))\n#define __dmul_rn(x, y) ((x) * (y))\n"
"""Sums and products whose rounding the compiler may choose; the kernels' say that it must not.

But those of bounds, which have a margin.
"""
CONTRACTING = (*(each for each in NVRTC_OPTIONS if "fmad" not in each), *OPTIONS_OF_CUPY)


@pytest.mark.slow
def test_a_contraction_shows(architecture):
    device = EditedDevice(lambda name, text: BY_OPERATORS + text, seed=1, architecture=architecture)
    assert agreement(device, "baseline").bit_equal
    device.nvrtc_options = CONTRACTING
    parity = agreement(device, "baseline")
    assert not parity.unequal_integers
    assert 0 < parity.largest_difference < 1e-14


TOTAL = """
extern "C" __global__ void total(const unsigned char *bytes, double scale, int count,
                                 unsigned long long *sum) {
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        atomicAdd(sum, (unsigned long long)(scale * bytes[i]));
}
"""


def test_arguments_of_ptx(architecture):
    """Numbers have the size of the parameter, floats are floats; what pointers point to is lost."""
    device = HostDevice(ptx=True, architecture=architecture)
    module = device.module_from_text(TOTAL)
    values, total = device.upload(np.arange(100, dtype=np.uint8)), device.zeros(1, np.uint64)
    good = [values, np.float64(2), np.int32(100), total]
    module.launch("total", (1, 1, 1), (32, 1, 1), good)
    assert device.download(total)[0] == 9900
    for place, other in ((0, 3), (1, np.uint64(2)), (2, np.int64(100)), (2, np.float32(3))):
        given = [*good[:place], other, *good[place + 1 :]]
        with pytest.raises(LaunchError, match=f"argument {place} of kernel total"):
            module.launch("total", (1, 1, 1), (32, 1, 1), given)
