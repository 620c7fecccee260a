"""Which devices of this machine can be used: the one place that imports CuPy."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcage.engines.cuda_engine.devices.cupy_device import CupyDevice
from mcage.engines.cuda_engine.devices.device import Device
from mcage.engines.cuda_engine.devices.errors import DeviceError, NoDeviceError, first_line
from mcage.engines.cuda_engine.devices.refusal import (
    CACHE_REMEDY,
    Refusal,
    extra,
    in_words,
    of_files,
    reason,
)
from mcage.engines.cuda_engine.engine import LEAST_BYTES
from mcage.engines.cuda_engine.programs import PROBE
from mcage.errors import UserError, pip_install

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
    asked = [_open(cupy, number) for number in chosen]
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
        free = device.free_bytes()
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
    return (
        f"{free_bytes / 2**30:.1f} GiB of its memory are free, and {LEAST_BYTES / 2**30:.1f} are "
        "needed"
    )
