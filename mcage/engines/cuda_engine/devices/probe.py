"""Does a device compile and run a kernel? Only then is it given work."""

import numpy as np

from mcage.engines.cuda_engine.devices.device import Device
from mcage.engines.cuda_engine.devices.errors import DeviceError
from mcage.engines.cuda_engine.programs import PROBE

_THREADS = 64


def probe(device: Device) -> None:
    """Compile a small kernel, run it, and look at its results.

    Raises
    ------
    Exception
        Whatever the device raises where it does not answer; DeviceError if its results are wrong.
    """
    numbers = np.arange(_THREADS, dtype=np.int32)
    doubled = device.empty(numbers.shape, np.int32)
    module = device.module(*PROBE)
    module.launch("probe", (1, 1, 1), (_THREADS, 1, 1), [device.upload(numbers), doubled])
    if not np.array_equal(device.download(doubled), 2 * numbers):
        raise DeviceError("its test kernel computed wrong numbers")
