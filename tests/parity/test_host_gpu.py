"""Does the host device find what is wrong in a kernel, and refuse what a GPU refuses?

That operations mean what they mean on a GPU, the kernels show, whose results are the reference's.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from host_gpu.compiler import needs_host_compiler
from host_gpu.host_device import HostDevice, LaunchError

pytestmark = needs_host_compiler

ONE = (1, 1, 1)
SEEDS = range(12)


def threads(count):
    return (count, 1, 1)


@pytest.fixture
def device():
    return HostDevice(seed=1)


@pytest.fixture
def module(device):
    """Kernels without a fault."""
    text = """
    extern "C" __global__ void reverse(unsigned *words) {
        __shared__ unsigned row[96];
        row[threadIdx.x] = words[threadIdx.x];
        __syncthreads();
        words[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
    }
    extern "C" __global__ void __launch_bounds__(SIZE, 2)
    add(const unsigned *__restrict__ words, unsigned long long *sum, int count) {
        extern __shared__ __align__(16) unsigned long long held[];
        if (threadIdx.x >= count) return;
        held[threadIdx.x] = words[threadIdx.x];
        atomicAdd(sum, held[threadIdx.x]);
    }
    """
    return device.module_from_text(text, {"SIZE": 128})


def outcomes(kernel, count=96):
    """Different results of a kernel over seeds."""
    actual = set()
    for seed in SEEDS:
        device = HostDevice(seed)
        words = device.upload(np.arange(count, dtype=np.uint32))
        module = device.module_from_text(kernel)
        module.launch("kernel", ONE, threads(count), [words])
        actual.add(device.download(words).tobytes())
    return actual


MISSING = """
extern "C" __global__ void kernel(unsigned *words) {
    __shared__ unsigned row[96];
    row[threadIdx.x] = words[threadIdx.x];
    %s;
    words[threadIdx.x] = row[threadIdx.x ^ 1];
}
"""


def test_missing_barrier_shows_in_the_seeds():
    assert len(outcomes(MISSING % "__syncthreads()")) == 1
    without = outcomes(MISSING % "")
    assert len(without) > 1
    assert without == outcomes(MISSING % "")  # the same seeds, the same orders


UNORDERED = {
    "vote": (
        MISSING % "__ballot_sync(~0u, 1)",
        r"(reads|writes) shared memory that thread \d+ (wrote|read) before .*, and nothing orders",
    ),
    "shuffle": (MISSING % "__shfl_sync(~0u, 1, 0)", "shared memory"),
    "other warp": (
        """extern "C" __global__ void kernel(unsigned *words) {
            words[threadIdx.x] = 1;
            __syncwarp();
            words[threadIdx.x ^ 32] = 2;
        }""",
        "writes global memory that thread",
    ),
    "other block": (
        'extern "C" __global__ void kernel(unsigned *words) { words[threadIdx.x] = 1; }',
        "writes global memory",
    ),
    "no atomic": (
        'extern "C" __global__ void kernel(unsigned *words) { words[5]++; }',
        "global memory",
    ),
    "an atomic beside none": (
        """extern "C" __global__ void kernel(unsigned *words) {
            if (*words < 9) atomicAdd(words, 1);
        }""",
        "global memory",
    ),
}
ORDERED = {
    "in a warp": MISSING % "__syncwarp()",
    "in a block": MISSING % "__syncthreads()",
    "atomic": """extern "C" __global__ void kernel(unsigned *words) {
        if (*(volatile unsigned *)words < 9) atomicAdd(words, 1);
    }""",
    "bytes apart": """extern "C" __global__ void kernel(unsigned *words) {
        reinterpret_cast<unsigned char *>(words)[threadIdx.x + 64 * blockIdx.x] = 1;
    }""",
}


@pytest.fixture(scope="module")
def looking_for_races():
    """A function that launches a kernel of those above; all are in one library."""
    kernels = [*(kernel for kernel, _ in UNORDERED.values()), *ORDERED.values()]
    numbered = (text.replace(" kernel(", f" kernel{at}(") for at, text in enumerate(kernels))
    device = HostDevice(seed=3, races=True)
    module = device.module_from_text("".join(numbered))

    def launch(kernel, blocks):
        words = device.upload(np.arange(64, dtype=np.uint32))
        module.launch(f"kernel{kernels.index(kernel)}", (blocks, 1, 1), threads(64), [words])

    return launch


@pytest.mark.parametrize("name", UNORDERED)
def test_what_nothing_orders_is_found_whatever_the_order(name, looking_for_races):
    """Votes and shuffles order no memory, though here as on most cards all seems well."""
    kernel, message = UNORDERED[name]
    with pytest.raises(LaunchError, match=message):
        looking_for_races(kernel, 2 if name == "other block" else 1)


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_ordered_is_no_race(name, looking_for_races):
    looking_for_races(ORDERED[name], 1 if name.startswith("in a") else 2)


def test_unwritten_memory_is_poison(device):
    unwritten = """
    extern "C" __global__ void kernel(unsigned *words) {
        __shared__ unsigned row[64];
        if (threadIdx.x == 70) row[5] = 1;  // never
        words[threadIdx.x] = row[threadIdx.x];
    }
    """
    for outcome in outcomes(unwritten, 64):
        assert set(outcome) in ({0x7F}, {0xDB})
    assert set(device.download(device.empty(9, np.uint16)).tobytes()) in ({0x7F}, {0xDB})


FAULTS = {
    "divergent warp": (
        "if (i < 7) out[i] = __ballot_sync(~0u, 1); else out[i] = __any_sync(~0u, 1);",
        r"kernel fault, block \(0, 0, 0\): divergent warp: .*__ballot_sync of lanes 0xffffffff",
    ),
    "divergent masks": (
        "__syncwarp(i < 16 ? 0x0001FFFFu : ~0u);",
        "(divergent warp|deadlock).*lanes 0x0001ffff",
    ),
    "not its own lane": (
        "__syncwarp(0x0000FFFFu);",
        r"thread \(\d+, 0, 0\): __syncwarp of lanes 0x0000ffff, without its own lane",
    ),
    "divergent barrier": (
        "if (i < 32) {\n__syncthreads();\n} else {\n__syncthreads();\n}",
        r"divergent barrier: thread \(0, 0, 0\) at __syncthreads \(.*:4\), .*:6\)",
    ),
    "deadlock": (
        "if (i == 3) __syncthreads(); else __syncwarp();",
        "deadlock, 32 of 64 threads wait for each other: 31 like .*__syncwarp.* 1 like .*(3, 0, 0)",
    ),
    "reads after": ("out[i] = in[i + 1];", r"0 bytes after the end of the array uint32\[64\]"),
    "reads before": ("out[i] = in[int(i) - 1000];", "before the array"),
    "writes far": ("out[i + 200000] = 1;", "accesses memory that it does not have"),
    "writes just before": (
        "if (i == 2) out[-3] = 1;",
        r"writes 12 bytes before the array uint32\[64\]",
    ),
    "null": ("out = nullptr; *out = 1;", "near no array"),
    "index": ("unsigned some[4] = {}; some[in[i]] = 1; out[i] = some[in[0]];", "index outside"),
    "index of shared memory": ("__shared__ int row[9]; row[i] = 1;", "index outside its array"),
    "shift": ("out[i] = 1u << in[i];", r"shift .*kernels.cu:3\)"),
    "overflow": ("out[i] = int(in[i]) + 2147483647;", "overflow of a signed sum"),
    "misaligned": ("out[i] = ((const uint2 *)(in + 1))[0].x;", "misaligned access"),
    "division": ("out[i] = int(i) / int(in[i]);", "division"),
    "assertion": ("assert(i < 40);", r"assert\(i < 40\) \(.*kernels.cu:3\)"),
    "stack": ("volatile char big[1 << 20]; big[0] = 1;", "a thread needs more than"),
}


@pytest.fixture(scope="module")
def faulty():
    """All faults in one library: the body is chosen by number."""
    bodies = "".join(
        f'#line 1 "kernels.cu"\nextern "C" __global__ void fault{number}(const unsigned *in, '
        f"unsigned *out) {{\nunsigned i = threadIdx.x;\n{body}\n}}\n"
        for number, (body, _) in enumerate(FAULTS.values())
    )
    device = HostDevice()
    return device, device.module_from_text(bodies)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(faulty, name):
    device, module = faulty
    number = list(FAULTS).index(name)
    given = np.arange(64, dtype=np.uint32)
    arguments = [device.upload(given), device.zeros(64, np.uint32)]
    for _ in range(4):
        message = FAULTS[name][1].replace("kernel fault", f"kernel fault{number}")
        with pytest.raises(LaunchError, match=message):
            module.launch(f"fault{number}", ONE, threads(64), arguments)


def nine_words(device):
    return device.zeros(9, np.uint32)


def launch(device, module, kernel="add", grid=ONE, block=ONE, shared=80, **given):
    words, count = given.get("words", nine_words)(device), given.get("count", np.int32(9))
    module.launch(kernel, grid, block, [words, device.zeros(1, np.uint64), count], shared)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "sum"}, "no kernel sum; there are reverse, add"),
        ({"block": threads(129)}, "blocks of 129 threads, 128 at most"),
        ({"grid": (1, 0, 1)}, "grid"),
        ({"shared": 48 * 1024 + 1}, "shared memory"),
        ({"shared": 8, "block": threads(2)}, "byte 8 of 8 bytes of dynamic shared memory"),
        ({"count": 7}, "argument 2 of kernel add: int for a value of type i4"),
        ({"count": np.int64(7)}, "int64 for a value of type i4"),
        ({"words": lambda device: np.zeros(9, np.uint32)}, "no array of the device"),
        ({"words": lambda device: device.zeros(9, np.float32)}, "float32 for a pointer to u4"),
        ({"words": lambda device: device.zeros(9, np.uint64)}, "uint64 for a pointer to u4"),
        ({"words": lambda device: device.zeros(18, np.uint32)[::2]}, "not contiguous"),
        ({"words": lambda device: HostDevice().zeros(9, np.uint32)}, "another device"),
        ({"words": lambda device: device.empty(2**27 + 1, np.uint64)}, "bytes asked for"),
    ],
)
def test_launch_is_refused(device, module, given, message):
    launch(device, module)
    with pytest.raises((LaunchError, MemoryError), match=message):
        launch(device, module, **given)


def test_arrays_are_of_a_batch_until_it_ends_and_of_a_thread(device, module):
    def reverse(array):
        module.launch("reverse", ONE, threads(96), [array])
        return device.download(array)

    words = np.arange(96, dtype=np.uint32)
    table, beside = device.upload_table(words), device.upload(words)
    with device.working():
        within = device.upload(words)
        with pytest.raises(LaunchError, match="of another batch or thread"):
            reverse(beside)
        with pytest.raises(LaunchError, match="of another batch or thread"):
            device.download(beside)
        with ThreadPoolExecutor(1) as pool, pytest.raises(LaunchError, match="another batch"):
            pool.submit(reverse, within).result()
        np.testing.assert_array_equal(reverse(table), words[::-1])
        np.testing.assert_array_equal(reverse(within), words[::-1])
    np.testing.assert_array_equal(reverse(within), words)
    np.testing.assert_array_equal(reverse(beside), words[::-1])


def test_arrays_of_the_device_are_no_arrays_of_the_host(device):
    array = device.zeros(4, np.int64)
    with pytest.raises(TypeError):
        array + 1
    with pytest.raises(TypeError):
        np.concatenate([array, array])
    with pytest.raises(TypeError):
        device.download(np.zeros(4))
