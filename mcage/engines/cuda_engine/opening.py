"""Which devices of this machine can be used: the one place that imports CuPy."""

import ctypes
import importlib.util
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mcage.concurrency import device_sharers
from mcage.engines.cuda_engine import LEAST_BYTES
from mcage.engines.cuda_engine.devices import (
    CupyDevice,
    Device,
    DeviceError,
    NoDeviceError,
    causes,
    first_line,
)
from mcage.engines.cuda_engine.programs import PROBE
from mcage.errors import UserError, pip_install

# Why a device cannot be used, and what would help.

CACHE_REMEDY = "name a folder that can be written in CUPY_CACHE_DIR"

_NO_HEADERS = "Failed to find CUDA headers"
_OUT_OF_MEMORY = 2
_INSUFFICIENT_DRIVER = 35
_UNAVAILABLE = 46
_NO_DEVICE = 100
_NO_BINARY = 209


@dataclass(frozen=True)
class Refusal:
    """A device that is not used.

    Attributes
    ----------
    number : int
        Of the device, as the driver counts.
    why : str
        In a few words.
    remedy : str
        What would help, if anything is known to.
    """

    number: int
    why: str
    remedy: str = ""


def in_words(refusals: Sequence[Refusal]) -> str:
    """Devices and reasons, those with the same reason together."""
    numbers: dict[str, list[str]] = {}
    for refusal in refusals:
        numbers.setdefault(refusal.why, []).append(str(refusal.number))
    return "; ".join(
        f"device{'s' if len(which) > 1 else ''} {', '.join(which)}: {why}"
        for why, which in numbers.items()
    )


def reason(cupy: Any, error: BaseException) -> tuple[str, str]:
    """Why, and what would help, by an error of CuPy.

    Parameters
    ----------
    cupy : module
        CuPy.
    error : Exception
        What it raised.
    """
    chain = causes(error)
    first = chain[-1]
    text = first_line(first)
    if any("libnvrtc" in str(cause) for cause in chain):
        remedy = pip_install(extra(cuda_major(cupy)))
        return "CuPy finds no NVRTC, which compiles kernels", remedy
    if any(_NO_HEADERS in str(cause) for cause in chain):
        remedy = f"{pip_install(extra(cuda_major(cupy)))}, or name CUDA's folder in CUDA_PATH"
        return "CuPy finds no CUDA headers, without which it compiles nothing", remedy
    status = getattr(first, "status", None)
    if isinstance(first, MemoryError) or status == _OUT_OF_MEMORY:
        return f"its memory is full ({text})", ""
    if status == _INSUFFICIENT_DRIVER:
        return _driver(cupy)
    if status == _NO_DEVICE:
        return "the driver shows no device", ""
    if status == _UNAVAILABLE:
        return f"another program uses it alone ({text})", ""
    if status == _NO_BINARY:
        remedy = f"a newer CUDA would know it: {pip_install(extra(13))}"
        return f"CuPy's compiler does not know cards that new ({text})", remedy
    if of_files(first):
        return f"CuPy cannot keep compiled kernels ({text})", CACHE_REMEDY
    return f"it does not answer ({text})", ""


def of_files(error: BaseException) -> bool:
    """Whether a file is the matter: of CuPy's, those of its cache."""
    return isinstance(error, OSError) and error.filename is not None


def cuda_major(cupy: Any) -> int:
    """CUDA for which CuPy is built, such as 13."""
    return int(cupy.cuda.runtime.runtimeGetVersion()) // 1000


def extra(major: int) -> str:
    """Extra that brings CuPy with NVRTC."""
    return f"cuda{major}"


def _driver(cupy: Any) -> tuple[str, str]:
    version = int(cupy.cuda.runtime.driverGetVersion())
    if not version:
        return "CuPy finds no NVIDIA driver", ""
    needs = cuda_major(cupy)
    why = f"the driver is for CUDA {version // 1000}.{version % 1000 // 10}, CuPy for CUDA {needs}"
    remedy = f"a newer driver, or pip uninstall cupy-cuda{needs}x and {pip_install(extra(12))}"
    return why, remedy if needs > 12 else "a newer driver"


# Answers of NVIDIA's driver, asked directly: it answers where CuPy is missing.

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # of CUdevice_attribute
_NO_DEVICE_OF_DRIVER = 100


@dataclass(frozen=True)
class Card:
    """One device.

    Attributes
    ----------
    name : str
        Card.
    compute_capability : str
        Such as ``9.0``.
    memory_bytes : int
        All of its memory.
    """

    name: str
    compute_capability: str
    memory_bytes: int


@dataclass(frozen=True)
class Driver:
    """The driver and its devices.

    Attributes
    ----------
    cuda_version : str or None
        CUDA up to which programs run, such as ``13.0``; None without a driver.
    cards : tuple of Card
        In the order of their numbers.
    problem : str or None
        Why there are none.
    """

    cuda_version: str | None
    cards: tuple[Card, ...]
    problem: str | None = None


def ask_driver() -> Driver:
    """Version and devices; what is wrong if there are none."""
    try:
        cuda = ctypes.CDLL(_LIBRARY)
    except OSError:
        return Driver(None, (), f"no NVIDIA driver ({_LIBRARY} is not there)")
    number = ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(number))
    version = f"{number.value // 1000}.{number.value % 1000 // 10}"
    refused = cuda.cuInit(0)
    if refused:
        why = "it sees no device" if refused == _NO_DEVICE_OF_DRIVER else f"CUDA error {refused}"
        return Driver(version, (), f"the driver does not start: {why}")
    cuda.cuDeviceGetCount(ctypes.byref(number))
    if not number.value:
        return Driver(version, (), "the driver sees no device")
    return Driver(version, tuple(_card(cuda, device) for device in range(number.value)))


def _card(cuda: ctypes.CDLL, number: int) -> Card:
    device = ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), number)
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, len(name), device)
    memory = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    capability = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        capability.append(str(value.value))
    return Card(name.value.decode(), ".".join(capability), memory.value)


LEAST_CUPY = (14, 1)
"""CuPy before frees an array whose pool is gone while the array is in use."""

LEAST_CAPABILITY = (7, 5)
"""Compute capability from which on the kernels are tested; NVRTC 13 knows no older cards."""

_PROBE_THREADS = 64


@dataclass(frozen=True)
class Devices:
    """Devices that were asked.

    Attributes
    ----------
    usable : tuple of CupyDevice
        Those that have compiled and run a kernel.
    refused : tuple of Refusal
        The others.
    """

    usable: tuple[CupyDevice, ...]
    refused: tuple[Refusal, ...]

    def raise_if_refused(self) -> None:
        """Raise NoDeviceError if a device cannot be used."""
        if self.refused:
            remedies = self._remedies
            if self.usable:
                numbers = ",".join(str(device.number) for device in self.usable)
                remedies = [*remedies, f"--devices {numbers} does without"]
            raise NoDeviceError(in_words(self.refused), "; ".join(remedies))

    @property
    def refused_in_words(self) -> str:
        """Devices that cannot be used, why not, and what would help."""
        return "; ".join(filter(None, [in_words(self.refused), *self._remedies]))

    @property
    def _remedies(self) -> list[str]:
        return list(dict.fromkeys(device.remedy for device in self.refused if device.remedy))


def open_devices(numbers: Sequence[int] | None = None) -> tuple[CupyDevice, ...]:
    """Devices by number, every one usable; by default all that the machine shows.

    Raises
    ------
    NoDeviceError
        If CuPy is missing or does not start, or one of the devices cannot be used.
    UserError
        If there is no device of that number.
    """
    devices = ask_devices(numbers)
    devices.raise_if_refused()
    return devices.usable


def ask_devices(numbers: Sequence[int] | None = None) -> Devices:
    """Devices by number, those that can be used and those that cannot; by default all.

    Raises
    ------
    NoDeviceError
        If CuPy is missing or does not start, or no device can be used.
    UserError
        If there is no device of that number.
    """
    cupy = _import_cupy()
    count = _count(cupy)
    chosen = range(count) if numbers is None else numbers
    for number in chosen:
        if not 0 <= number < count:
            known = "device 0 only" if count == 1 else f"devices 0 ... {count - 1}"
            raise UserError(f"--devices: there is no device {number}; this machine has {known}")
    with ThreadPoolExecutor(max(1, len(chosen))) as pool:  # each waits for its card
        asked = list(pool.map(partial(_open, cupy), chosen))
    devices = Devices(
        tuple(answer for answer in asked if isinstance(answer, CupyDevice)),
        tuple(answer for answer in asked if isinstance(answer, Refusal)),
    )
    if not devices.usable:
        devices.raise_if_refused()
    return devices


def _import_cupy() -> Any:
    if importlib.util.find_spec("cupy") is None:
        raise NoDeviceError(
            "CuPy is not installed",
            f"{pip_install(extra(13), extra(12))}, as the driver's version of CUDA",
        )
    try:
        import cupy
    except Exception as error:  # whatever a broken installation raises
        cause = error.__cause__ or error
        remedy = CACHE_REMEDY if of_files(cause) else ""
        raise NoDeviceError(f"CuPy does not start ({first_line(cause)})", remedy) from error
    version = tuple(map(int, re.findall(r"\d+", cupy.__version__)[:2]))
    if version < LEAST_CUPY:
        least = ".".join(map(str, LEAST_CUPY))
        raise NoDeviceError(
            f"CuPy is {cupy.__version__}, and {least} is needed", pip_install(extra(13), extra(12))
        )
    return cupy


def _count(cupy: Any) -> int:
    """Devices that the driver shows, none of them opened."""
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NoDeviceError(*reason(cupy, error)) from error
    if count == 0:
        raise NoDeviceError("the driver shows no device")
    return count


def _open(cupy: Any, number: int) -> CupyDevice | Refusal:
    """A device that has compiled and run a kernel, or why it cannot be used."""
    try:
        device = CupyDevice(cupy, number)
        if device.capability < LEAST_CAPABILITY:
            return Refusal(number, _too_old(device))
        _probe(device)
        free = device.free_bytes() // device_sharers()
    except Exception as error:  # CUDA's, CuPy's, NVRTC's, or those of its cache on disk
        return Refusal(number, *reason(cupy, error))
    if free < LEAST_BYTES:
        return Refusal(number, _too_full(free))
    return device


def _probe(device: Device) -> None:
    """Compile a small kernel, run it, and look at its results.

    Raises
    ------
    Exception
        Whatever the device raises where it does not answer; DeviceError if its results are wrong.
    """
    numbers = np.arange(_PROBE_THREADS, dtype=np.int32)
    doubled = device.empty(numbers.shape, np.int32)
    module = device.module(*PROBE)
    module.launch("probe", (1, 1, 1), (_PROBE_THREADS, 1, 1), [device.upload(numbers), doubled])
    if not np.array_equal(device.download(doubled), 2 * numbers):
        raise DeviceError("its test kernel computed wrong numbers")


def _too_old(device: CupyDevice) -> str:
    has, needed = (".".join(map(str, pair)) for pair in (device.capability, LEAST_CAPABILITY))
    return f"{device.card} has compute capability {has}, and {needed} is needed"


def _too_full(free_bytes: int) -> str:
    sharers = device_sharers()
    each = f" for each of {sharers} processes" if sharers > 1 else ""
    return (
        f"{free_bytes / 2**30:.1f} GiB of its memory are free{each}, and "
        f"{LEAST_BYTES / 2**30:.1f} are needed"
    )
