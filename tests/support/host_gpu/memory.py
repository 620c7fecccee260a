"""Memory of a host device: arrays that fault where a GPU would be out of bounds."""

import ctypes
import itertools
import mmap
import random
import weakref
from dataclasses import dataclass

import numpy as np

POISON = (0x7F, 0xDB)
"""Bytes of memory that nobody has written: huge as a float; huge, or negative, as an integer."""
_MARK = 0xC3
_ALIGNMENT_BYTES = 16
_FORBIDDEN_BYTES = 16 * 2**20  # at either end of an array; addresses alone, no memory
_MAP_NORESERVE = 0x4000
_C = ctypes.CDLL(None, use_errno=True)
_C.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class DeviceArray(np.ndarray):
    """An array of the device; slices and views of it are arrays of the device as well.

    As on a GPU, what it holds is reached by kernels and by `HostDevice.download` alone: NumPy's
    functions and operators refuse.
    """

    __array_ufunc__ = None

    @property
    def __cuda_array_interface__(self):
        return self.__array_interface__

    def __array_function__(self, function, types, args, kwargs):
        raise TypeError(f"numpy.{function.__name__} of an array of the device: download it first")


@dataclass(frozen=True)
class Allocation:
    """Where an array lies: before and after it accesses fault, the slack of its pages is marked."""

    address: int
    size_bytes: int
    label: str
    stream: object

    def holds(self, address, size_bytes):
        """Whether all of that memory is inside."""
        end = self.address + self.size_bytes
        return self.address <= address and address + size_bytes <= end

    def damage(self):
        """What was written around the array, in words; None if nothing."""
        slack = self.address % mmap.PAGESIZE
        before = ctypes.string_at(self.address - slack, slack)
        written = before.lstrip(bytes([_MARK]))
        if written:
            return f"writes {len(written)} bytes before the array {self.label}"
        end = self.address + self.size_bytes
        after = ctypes.string_at(end, -end % mmap.PAGESIZE)
        if after.strip(bytes([_MARK])):
            return f"writes after the end of the array {self.label}"
        return None


class Memory:
    """Memory of one device, counted as a GPU's is."""

    def __init__(self, total_bytes, seed):
        self.total_bytes = total_bytes
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._allocations = {}

    @property
    def used_bytes(self):
        """Memory of the arrays that there are."""
        return sum(allocation.size_bytes for allocation in tuple(self._allocations.values()))

    def allocate(self, shape, dtype, stream=None):
        """Array filled with poison; for a stream, or for all."""
        dtype = np.dtype(dtype)
        elements = int(np.prod(shape, dtype=np.int64))
        size_bytes = elements * dtype.itemsize
        if size_bytes > self.total_bytes - self.used_bytes:
            raise MemoryError(
                f"{size_bytes} bytes asked for, {self.total_bytes - self.used_bytes} of the "
                f"device's {self.total_bytes} bytes are free"
            )
        page = mmap.PAGESIZE
        end = _FORBIDDEN_BYTES + -(-size_bytes // page) * page
        start = end - -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        mapping = _map(end + _FORBIDDEN_BYTES)
        whole = np.frombuffer(mapping, dtype=np.uint8)
        whole[_FORBIDDEN_BYTES:start] = whole[start + size_bytes : end] = _MARK
        whole[start : start + size_bytes] = self._random.choice(POISON)
        address = whole.ctypes.data
        _forbid(address, _FORBIDDEN_BYTES)
        _forbid(address + end, _FORBIDDEN_BYTES)
        array = whole[start : start + size_bytes].view(dtype).reshape(shape).view(DeviceArray)
        label = f"{dtype}{list(array.shape)}"
        # Not by address: another thread may have it again before the array's end is told.
        number = next(self._numbers)
        self._allocations[number] = Allocation(address + start, size_bytes, label, stream)
        weakref.finalize(mapping, self._allocations.pop, number).atexit = False
        return array

    def find(self, address, size_bytes):
        """The allocation that holds that memory; None if no array of the device does.

        The latest: of an array that has ended, the end may not have been told yet.
        """
        allocations = reversed(tuple(self._allocations.values()))
        return next((array for array in allocations if array.holds(address, size_bytes)), None)

    def near(self, address):
        """An address in words: how far from which array."""
        for allocation in tuple(self._allocations.values()):
            end = allocation.address + allocation.size_bytes
            if end <= address < end + _FORBIDDEN_BYTES:
                return f"{address - end} bytes after the end of the array {allocation.label}"
            if allocation.address - _FORBIDDEN_BYTES <= address < allocation.address:
                return f"{allocation.address - address} bytes before the array {allocation.label}"
        return f"{address:#x}, near no array of the device"


class Stacks:
    """Stacks of the fibers of one block, each over a page that faults."""

    def __init__(self, count, size_bytes):
        self.size_bytes = size_bytes
        self._mapping = _map(count * size_bytes)
        self.address = np.frombuffer(self._mapping, dtype=np.uint8).ctypes.data
        for number in range(count):
            _forbid(self.address + number * size_bytes, mmap.PAGESIZE)

    def holds(self, address):
        """Whether a stack that is too short gave this address."""
        return self.address <= address < self.address + len(self._mapping)


def _map(size_bytes):
    return mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)


def _forbid(address, size_bytes):
    if _C.mprotect(address, size_bytes, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
