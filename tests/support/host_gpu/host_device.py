"""A device for CUDA kernels where there is no GPU: a host compiler, and fibers for threads.

    device = HostDevice(seed=7)
    words = device.upload(np.arange(64, dtype=np.uint32))
    module = device.module("sum.cu", {"WARPS": 2})          # a file of kernels/
    module = device.module_from_text('extern "C" __global__ ...', {})
    module.launch("sum", (1, 1, 1), (64, 1, 1), [words, np.int32(64)])
    device.download(words)

It answers what `mcage.engines.cuda_engine.devices.Device` asks, and finds what a GPU may
hide. The order of blocks and of the threads that can run is drawn from ``seed``, so that a missing
barrier gives results that differ from seed to seed; with ``races=True`` it is an error by itself.
Shared memory and ``empty`` arrays begin with poison. A `LaunchError` says kernel, block and thread
of: a barrier or an operation of a warp that threads reach from different places, or that some never
reach; memory outside every array, read or written; writes beyond dynamic shared memory; an index
outside an array whose size the compiler knows; a misaligned access; a shift by the width or more;
overflow of signed integers; a failed ``assert``. So does one of an array of another thread, or of
another batch before its end: nothing orders their work.

With ``ptx=True`` the kernels are what NVRTC makes of the source with the options of the engine and
of CuPy: its PTX, line by line (`ptx.py`), in place of the source by the host's compiler. All of the
above is told of lines of PTX; what the types of C++ tell is lost: shifts, overflow, the sizes of
arrays but those in shared memory.

Not simulated: threads that wait for each other through memory (a thread runs until its next
barrier or operation of its warp; so such a wait never ends), blocks that run at the same time
(each runs to its end before the next), fast approximate mathematics (``__expf`` is ``expf``).
"""

import ctypes
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np

from host_gpu.compiler import HEADERS, compile_kernels, compile_ptx
from host_gpu.memory import DeviceArray, Memory, Stacks
from host_gpu.ptx import translate
from mcage.engines.cuda_engine.devices import NVRTC_OPTIONS
from mcage.version import KERNELS, kernel_text

_MOST_THREADS = 1024
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_BLOCK = (1024, 1024, 64)
_MOST_SHARED_BYTES = 48 * 1024  # more must be asked for before a launch
_STACK_BYTES = 256 * 1024
OPTIONS_OF_CUPY = ("-ftz=true", "--device-as-default-execution-space")
"""What CuPy 14 adds to those of a `RawModule`."""

# Fibers live in the libraries' own variables and share their stacks: one launch at a time.
_launching = threading.Lock()
_stacks = None


class LaunchError(Exception):
    """A launch that a GPU would refuse, or a kernel that did what it must not do."""


class HostDevice:
    """A device whose kernels run on the host.

    Parameters
    ----------
    seed : int
        Of the order in which threads and blocks run, and of what unwritten memory holds.
    memory_bytes : int
        Memory of the device; may be set at any time. Arrays beyond it raise MemoryError.
    architecture : int
        Compute capability times 10: ``__CUDA_ARCH__`` is ten times this.
    races : bool
        Whether every access to memory is looked at, which takes many times longer: threads that
        touch the same memory without a barrier between them are an error, also where the order in
        which they happen to run hides it. Votes and shuffles are no barriers of memory.
    ptx : bool, optional
        Whether kernels are NVRTC's PTX for the architecture; by default as `everywhere_ptx` says.
    cuda : int, optional
        Version of CUDA whose NVRTC that is; by default the newest that is installed.

    Attributes
    ----------
    everywhere_ptx : bool
        What devices do that are not told.
    everywhere_architecture : int
        Architecture of devices that are not told.
    nvrtc_options : tuple of str
        Options of NVRTC but the architecture and the constants.
    """

    everywhere_ptx = False
    everywhere_architecture = 90
    nvrtc_options = (*NVRTC_OPTIONS, *OPTIONS_OF_CUPY)

    def __init__(
        self,
        seed: int = 0,
        memory_bytes: int = 2**30,
        architecture: int | None = None,
        races: bool = False,
        ptx: bool | None = None,
        cuda: int | None = None,
    ):
        self.seed = seed
        self.races = races
        self.architecture = architecture or self.everywhere_architecture
        self.ptx = self.everywhere_ptx if ptx is None else ptx
        self.cuda = cuda
        self.launches = 0
        self.batches = self.most_batches = 0
        self._counting = threading.Lock()
        self._of_thread = threading.local()
        self._memory = Memory(memory_bytes, seed)

    @property
    def description(self):
        """Name of the device."""
        return f"host compiler in place of a GPU (sm_{self.architecture})"

    @property
    def memory_bytes(self):
        """Memory of the device, used or not."""
        return self._memory.total_bytes

    @memory_bytes.setter
    def memory_bytes(self, total):
        self._memory.total_bytes = total

    def free_bytes(self):
        """Memory that may be asked for."""
        return max(0, self._memory.total_bytes - self._memory.used_bytes)

    @contextmanager
    def working(self):
        """While the thread computes a batch."""
        with self._counting:
            self.batches += 1
            self.most_batches = max(self.most_batches, self.batches)
        before, stream = self._stream, Stream()
        self._of_thread.stream = stream
        try:
            yield
        finally:
            stream.ended = True
            self._of_thread.stream = before
            with self._counting:
                self.batches -= 1

    @property
    def _stream(self):
        """What orders the work of a thread, in a batch or beside all batches, and no other."""
        return self._of_thread.__dict__.setdefault("stream", Stream())

    def use(self, stream):
        """Let the thread's work be that of a `Stream` from now on."""
        self._of_thread.stream = stream

    def upload(self, array):
        """Copy of an array on the device."""
        return self._upload(array, self._stream)

    def _upload(self, array, stream):
        copy = self._memory.allocate(np.shape(array), np.asarray(array).dtype, stream)
        copy[...] = array
        return copy

    def upload_together(self, *arrays):
        """Copies of some arrays; apart, so that what is beyond each of them is found."""
        return tuple(map(self.upload, arrays))

    def upload_table(self, array):
        """Copy of an array that stays, for all streams."""
        return self._upload(array, None)

    def empty_table(self, shape, dtype):
        """Array that stays, for all streams."""
        return self._memory.allocate(shape, dtype)

    def zeros(self, shape, dtype):
        """Array of zeros on the device."""
        array = self._memory.allocate(shape, dtype, self._stream)
        array.view(np.ndarray)[...] = 0
        return array

    def empty(self, shape, dtype):
        """Array on the device, filled with poison."""
        return self._memory.allocate(shape, dtype, self._stream)

    def download(self, array):
        """Copy of an array of the device."""
        if not isinstance(array, DeviceArray):
            raise TypeError("not an array of the device")
        self.check(array, "an array that is downloaded", contiguous=False)
        return np.array(array.view(np.ndarray))

    def begin_download(self, array):
        """Let an array travel; here it is there at once."""
        return Arrived(self.download(array))

    def address(self, array):
        """Address of an array of the device, for tables of arrays; the array must be kept."""
        address, _ = self.check(array, "an array whose address is asked for")
        return address

    def module(self, source: str, constants: Mapping[str, int]):
        """Kernels of the file ``source`` of `kernels/`, compiled with ``-D`` constants."""
        if self.ptx:
            return self._load(kernel_text(source, constants), source, KERNELS, {})
        path = KERNELS / source
        return self._load(path.read_text(encoding="utf-8"), path, KERNELS, constants)

    def module_from_text(self, text: str, constants: Mapping[str, int] | None = None):
        """Kernels of a source that is not in a file."""
        return self._load(text, "kernels.cu", ".", constants or {})

    def module_from_ptx(self, ptx: str, name: str = "kernels.ptx"):
        """Kernels of PTX; raises PtxError where it has something that is not known."""
        return HostModule(self, _library_of_ptx(ptx, name, self.architecture, self.races))

    def ptx_of(self, text: str, name: str, constants: Mapping[str, int]):
        """PTX of a source that includes nothing: by the options of the engine and of CuPy."""
        defined = (f"-D{key}={value}" for key, value in constants.items())
        options = (*self.nvrtc_options, *defined)
        return compile_ptx(text, name, options, self.architecture, self.cuda)

    def _load(self, text, name, folder, constants):
        if self.ptx:
            return self.module_from_ptx(self.ptx_of(text, name, constants), f"{name}.ptx")
        library = compile_kernels(text, name, folder, constants, self.architecture, self.races)
        return HostModule(self, library)

    def check(self, array, what, contiguous=True):
        """Address of an array that a kernel may use, and where it is allocated."""
        if not isinstance(array, DeviceArray):
            raise LaunchError(f"{what} is no array of the device: {type(array).__name__}")
        if contiguous and not array.flags.c_contiguous:
            raise LaunchError(f"{what} is not contiguous")
        address = array.__array_interface__["data"][0]
        allocation = self._memory.find(address, array.nbytes)
        if allocation is None:
            raise LaunchError(f"{what} is an array of another device")
        stream = allocation.stream
        if stream is not None and stream is not self._stream and not stream.ended:
            raise LaunchError(f"{what} is of another batch or thread, whose work may not be done")
        return address, allocation

    def where(self, address):
        """An address that a kernel must not use, in words."""
        if _stacks.holds(address):
            return f"in a stack: a thread needs more than {_STACK_BYTES} bytes of its own"
        return self._memory.near(address)


@dataclass(frozen=True, eq=False)
class Arrived:
    """A download that is done."""

    array: np.ndarray

    def result(self):
        """The copy."""
        return self.array


@dataclass(eq=False)
class Stream:
    """Where the work of a batch is done in order, or that of a thread beside all batches.

    Attributes
    ----------
    ended : bool
        Whether the batch has ended, and with it all of its work: others may use its arrays.
    """

    ended: bool = False


@cache
def _library_of_ptx(ptx, name, architecture, races):
    return compile_kernels(translate(ptx, name), name, HEADERS, {}, architecture, races)


class HostModule:
    """Compiled kernels of one source under one set of constants."""

    def __init__(self, device, library):
        self._device = device
        self._path = library
        self._library = ctypes.CDLL(str(library))
        self._kernels = {}
        text = ctypes.create_string_buffer(4096)
        while self._library.host_gpu_describe(len(self._kernels), text):
            name, most_threads, *types = text.value.decode().split()
            self._kernels[name] = len(self._kernels), int(most_threads), types

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence,
        shared_bytes: int = 0,
    ):
        """Run a kernel to its end; raises LaunchError."""
        if kernel not in self._kernels:
            raise LaunchError(f"no kernel {kernel}; there are {', '.join(self._kernels)}")
        number, most_threads, types = self._kernels[kernel]
        _check_sizes(kernel, grid, block, most_threads, shared_bytes)
        pointers, values, allocations = self._arguments(kernel, types, arguments)
        device = self._device
        device.launches += 1
        message = ctypes.create_string_buffer(4096)
        launch = _Launch(
            kernel=number,
            grid=(ctypes.c_uint * 3)(*grid),
            block=(ctypes.c_uint * 3)(*block),
            shared_bytes=shared_bytes,
            seed=(device.seed * 1_000_003 + device.launches) % 2**64,
            arguments=pointers,
            message=ctypes.addressof(message),
            message_bytes=len(message),
            finds_races=device.races,
        )
        global _stacks
        with _launching:
            _stacks = _stacks or Stacks(_MOST_THREADS, _STACK_BYTES)
            launch.stacks, launch.stack_bytes = _stacks.address, _stacks.size_bytes
            completed = self._library.host_gpu_launch(ctypes.byref(launch))
        del values
        if not completed:
            text = re.sub(r"\+0x[0-9a-f]+", self._line, message.value.decode())
            if launch.faulted:
                text += f": {device.where(launch.fault_address or 0)}"
            raise LaunchError(text)
        for allocation in allocations:
            damage = allocation.damage()
            if damage:
                raise LaunchError(f"kernel {kernel}: {damage}")

    def _line(self, place):
        """Line of the source at a place of the library, where a tool tells; otherwise the place."""
        program = shutil.which("addr2line")
        if not program:
            return place[0]
        command = [program, "-e", str(self._path), hex(int(place[0], 16) - 1)]
        return subprocess.run(command, capture_output=True, encoding="utf-8").stdout.strip()

    def _arguments(self, kernel, types, arguments):
        """Pointers to the arguments, the values pointed to, and the arrays' allocations."""
        if len(arguments) != len(types):
            raise LaunchError(f"kernel {kernel} has {len(types)} parameters, not {len(arguments)}")
        values, allocations = [], []
        for place, (argument, expected) in enumerate(zip(arguments, types, strict=True)):
            what = f"argument {place} of kernel {kernel}"
            of_64_bits = expected == "V8" and isinstance(argument, DeviceArray)
            if expected.startswith("*") or of_64_bits:
                address, allocation = self._device.check(argument, what)
                if not of_64_bits and not _alike(argument.dtype, expected[1:]):
                    raise LaunchError(f"{what}: {argument.dtype} for a pointer to {expected[1:]}")
                values.append(ctypes.c_void_p(address))
                allocations.append(allocation)
            else:
                if not isinstance(argument, np.generic) or not _is_value(argument, expected):
                    given = getattr(argument, "dtype", type(argument).__name__)
                    raise LaunchError(f"{what}: {given} for a value of type {expected}")
                values.append((ctypes.c_char * argument.nbytes).from_buffer_copy(argument))
        pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        return pointers, values, allocations


class _Launch(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_uint),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("seed", ctypes.c_uint64),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("stacks", ctypes.c_void_p),
        ("stack_bytes", ctypes.c_uint64),
        ("message", ctypes.c_void_p),
        ("message_bytes", ctypes.c_uint64),
        ("fault_address", ctypes.c_void_p),
        ("faulted", ctypes.c_uint),
        ("finds_races", ctypes.c_uint),
    )


def _code(dtype):
    """A type as the library describes it: kind and bytes."""
    return f"{dtype.kind}{dtype.itemsize}"


def _is_value(argument, expected):
    """Whether a value is of a type; structures take what has their size."""
    if expected[0] == "V":
        return argument.nbytes == int(expected[1:]) and argument.dtype.kind != "f"
    return _code(argument.dtype) == expected


def _alike(dtype, expected):
    """Whether an array's elements are what a pointer points to, be it signed or not.

    Structures may lie in arrays of what they are made of.
    """
    kind, size_bytes = expected[0], int(expected[1:])
    if kind == "V":
        return size_bytes % dtype.itemsize == 0
    return dtype.itemsize == size_bytes and (dtype.kind in "biu") == (kind in "biu")


def _check_sizes(kernel, grid, block, most_threads, shared_bytes):
    threads = int(np.prod(block))
    for name, sizes, most in (("grid", grid, _MOST_BLOCKS), ("block", block, _MOST_BLOCK)):
        if len(sizes) != 3 or any(
            not 0 < size <= limit for size, limit in zip(sizes, most, strict=True)
        ):
            raise LaunchError(f"kernel {kernel}: {name} {sizes} is not within 1..{most}")
    if threads > most_threads:
        raise LaunchError(f"kernel {kernel}: blocks of {threads} threads, {most_threads} at most")
    if not 0 <= shared_bytes <= _MOST_SHARED_BYTES:
        raise LaunchError(f"kernel {kernel}: {shared_bytes} bytes of shared memory")
