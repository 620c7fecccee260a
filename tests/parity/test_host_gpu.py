"""Does the host device find what is wrong in a kernel, and refuse what a GPU refuses?

That operations mean what they mean on a GPU, the kernels show, whose results are the reference's.
"""

import inspect
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from host_gpu.compiler import CompileError, needs_host_compiler
from host_gpu.host_device import HostDevice, LaunchError

from mcage.engines.cuda_engine.devices import Device, Module

pytestmark = needs_host_compiler

ONE = (1, 1, 1)
SEEDS = range(12)


def threads(count):
    return (count, 1, 1)


@pytest.fixture
def device():
    return HostDevice(seed=1)


@pytest.fixture(scope="module")
def right():
    """Kernels without a fault."""
    return """
    extern "C" __global__ void reverse(unsigned *words) {
        __shared__ unsigned row[96];
        row[threadIdx.x] = words[threadIdx.x];
        __syncthreads();
        words[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
    }
    __device__ __forceinline__ unsigned warp_total(unsigned value) {
        for (int delta = 16; delta; delta >>= 1)
            value += __shfl_down_sync(0xFFFFFFFFu, value, delta);
        return value;
    }
    extern "C" __global__ void __launch_bounds__(SIZE, 2)
    total(const unsigned *__restrict__ words, unsigned long long *sum, int count) {
        __shared__ unsigned part[SIZE / 32];
        unsigned place = blockIdx.x * blockDim.x + threadIdx.x;
        unsigned value = warp_total(place < count ? words[place] : 0);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
        __syncthreads();
        if (threadIdx.x >= 32) return;
        value = warp_total(threadIdx.x < SIZE / 32 ? part[threadIdx.x] : 0);
        if (threadIdx.x == 0) atomicAdd(sum, value);
    }
    extern "C" __global__ void dynamic(unsigned *words, int count) {
        extern __shared__ __align__(16) unsigned long long held[];
        for (int i = threadIdx.x; i < count; i += blockDim.x) held[i] = 3ull * i;
        __syncthreads();
        for (int i = threadIdx.x; i < count; i += blockDim.x) words[i] = held[count - 1 - i];
    }
    extern "C" __global__ void half_leave(unsigned *words) {
        if (threadIdx.x < 32) return;
        words[threadIdx.x] = __syncthreads_count(1);
    }
    extern "C" __global__ void some_leave(unsigned *words) {
        if (threadIdx.x % 3 == 0) return;
        unsigned lanes = __popc(__ballot_sync(~0u, 1));
        words[threadIdx.x] = __syncthreads_count(threadIdx.x % 2) + 1000 * lanes;
    }
    """


@pytest.fixture
def module(device, right):
    return device.module_from_text(right, {"SIZE": 128})


def test_barrier_and_shared_memory(device, module):
    words = device.upload(np.arange(96, dtype=np.uint32))
    for _ in SEEDS:
        module.launch("reverse", ONE, threads(96), [words])
        module.launch("reverse", ONE, threads(96), [words])
    np.testing.assert_array_equal(device.download(words), np.arange(96))


def test_reduction_by_shuffles_over_blocks(device, module):
    values = np.random.default_rng(2).integers(0, 1000, 1000, dtype=np.uint32)
    words, total = device.upload(values), device.zeros((), np.uint64)
    module.launch("total", (8, 1, 1), threads(128), [words, total, np.int32(1000)])
    assert device.download(total) == values.sum()


def test_dynamic_shared_memory(device, module):
    words = device.empty(500, np.uint32)
    module.launch("dynamic", ONE, threads(32), [words, np.int32(500)], shared_bytes=4000)
    np.testing.assert_array_equal(device.download(words), 3 * np.arange(500)[::-1])
    with pytest.raises(LaunchError, match=r"byte 3992 of 3992 bytes of dynamic shared memory"):
        module.launch("dynamic", ONE, threads(32), [words, np.int32(500)], shared_bytes=3992)


def test_threads_that_ended_are_waited_for_no_more(device, module):
    thread = np.arange(64)
    stay = thread % 3 > 0
    count = (stay & (thread % 2 == 1)).sum()
    lanes = np.where(thread < 32, stay[:32].sum(), stay[32:].sum())
    for _ in SEEDS:  # the last to end, or to come, is another one every time
        words = device.zeros(64, np.uint32)
        module.launch("some_leave", ONE, threads(64), [words])
        np.testing.assert_array_equal(device.download(words), stay * (count + 1000 * lanes))
        words = device.zeros(64, np.uint32)
        module.launch("half_leave", ONE, threads(64), [words])
        np.testing.assert_array_equal(device.download(words), (thread >= 32) * 32)


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


AHEAD = """
extern "C" __global__ void kernel(unsigned *words) {
    __shared__ unsigned turn[2];
    unsigned lane = threadIdx.x %% 32, warp = threadIdx.x / 32, sum = 0;
    for (unsigned round = 0; round < 4; round++) {
        if (threadIdx.x == 0) turn[0] = round;
        __syncthreads();
        sum += turn[0] * (warp + 1);
        %s;
    }
    words[threadIdx.x] = sum + lane;
}
"""


@pytest.mark.parametrize("kernel", [MISSING, AHEAD], ids=["missing", "ahead"])
def test_missing_barrier_shows_in_the_seeds(kernel):
    assert len(outcomes(kernel % "__syncthreads()")) == 1
    assert len(outcomes(kernel % "")) > 1


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


def test_slices_are_arrays_of_the_device(device, module):
    words = device.upload(np.arange(192, dtype=np.uint32).reshape(2, 96))
    module.launch("reverse", ONE, threads(96), [words[1]])
    np.testing.assert_array_equal(device.download(words)[1], np.arange(96, 192)[::-1])
    np.testing.assert_array_equal(device.download(words)[0], np.arange(96))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "sum"}, "no kernel sum; there are reverse, total"),
        ({"block": threads(129)}, "blocks of 129 threads, 128 at most"),
        ({"grid": (1, 0, 1)}, "grid"),
        ({"shared_bytes": 48 * 1024 + 1}, "shared memory"),
        ({"count": 7}, "argument 2 of kernel total: int for a value of type i4"),
        ({"count": np.int64(7)}, "int64 for a value of type i4"),
        ({"count": np.uint32(7)}, "uint32 for a value of type i4"),
        ({"words": np.zeros(9, np.uint32)}, "no array of the device"),
        ({"words": "float32"}, "float32 for a pointer to u4"),
        ({"words": "uint64"}, "uint64 for a pointer to u4"),
        ({"words": "strided"}, "not contiguous"),
        ({"words": "other"}, "another device"),
        ({"more": [np.int32(1)]}, "has 3 parameters, not 4"),
    ],
)
def test_launch_is_refused(device, module, change, message):
    words = {
        "uint64": device.zeros(9, np.uint64),
        "float32": device.zeros(9, np.float32),
        "strided": device.zeros(18, np.uint32)[::2],
        "other": HostDevice().zeros(9, np.uint32),
    }
    given = change.get("words", device.zeros(9, np.uint32))
    given = words[given] if isinstance(given, str) else given
    total = device.zeros(1, np.uint64)
    arguments = [given, total, change.get("count", np.int32(9)), *change.get("more", [])]
    with pytest.raises(LaunchError, match=message):
        module.launch(
            change.get("kernel", "total"),
            change.get("grid", ONE),
            change.get("block", threads(128)),
            arguments,
            change.get("shared_bytes", 0),
        )


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


def test_memory_is_counted():
    device = HostDevice(memory_bytes=1000)
    held = device.zeros(100, np.uint32)
    view = held[10:20]
    assert device.free_bytes() == 600
    with pytest.raises(MemoryError, match="800 bytes asked for, 600 of the device's 1000"):
        device.empty(100, np.uint64)
    del held
    assert device.free_bytes() == 600
    del view
    assert device.free_bytes() == 1000
    device.memory_bytes = 10
    assert device.free_bytes() == 10


def test_arrays_of_the_device_are_no_arrays_of_the_host(device):
    array = device.zeros(4, np.int64)
    with pytest.raises(TypeError):
        array + 1
    with pytest.raises(TypeError):
        np.concatenate([array, array])
    with pytest.raises(TypeError):
        device.download(np.zeros(4))


def test_device_answers_what_the_engine_asks(device, module):
    asked = {name for name in vars(Device) if not name.startswith("_")}
    assert asked <= set(dir(device))
    for name in asked - {"description"}:
        wanted = inspect.signature(getattr(Device, name)).parameters
        assert list(inspect.signature(getattr(HostDevice, name)).parameters) == list(wanted), name
    wanted = inspect.signature(Module.launch).parameters
    assert list(inspect.signature(type(module).launch).parameters) == list(wanted)


def test_error_of_the_compiler_names_the_line(device):
    with pytest.raises(CompileError, match=r"kernels.cu:2:.*__unknown"):
        device.module_from_text('extern "C" __global__ void k(int *x) {\n*x = __unknown(3); }')


def test_same_seed_same_order():
    order = """
    extern "C" __global__ void kernel(unsigned *words) {
        words[threadIdx.x] = atomicAdd(words + 95, 1u);
    }
    """
    actual = outcomes(order)
    assert len(actual) == len(SEEDS)
    assert actual == outcomes(order)
