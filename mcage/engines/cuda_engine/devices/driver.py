"""What NVIDIA's driver says of this machine, asked directly: it answers where CuPy is missing."""

import ctypes
import sys
from dataclasses import dataclass

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # of CUdevice_attribute
_NO_DEVICE = 100


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
        why = "it sees no device" if refused == _NO_DEVICE else f"CUDA error {refused}"
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
