"""Which engine computes, and why that one."""

import platform
from collections.abc import Sequence

from mcage.engines.interface import Engine
from mcage.errors import UserError

ENGINES = ("auto", "numpy", "numba", "cuda")


def select_engine(
    name: str = "auto", devices: Sequence[int] | None = None, threads: int = 1
) -> tuple[Engine, str]:
    """Engine called ``name`` and the reason for the choice.

    Parameters
    ----------
    name : str
        One of `ENGINES`. ``auto`` is ``cuda`` if a device answers, else ``numba``.
    devices : sequence of int, optional
        Devices of the ``cuda`` engine, which they ask for; by default all of the machine.
    threads : int
        Threads of the host that will use the engine at once.

    Raises
    ------
    UserError
        If there is none of that name, or it was asked for and cannot run here.
    """
    if name not in ENGINES:
        raise UserError(f"engine {name!r} is unknown; choose from {', '.join(ENGINES)}")
    if devices is not None and name not in ("auto", "cuda"):
        raise UserError(f"--devices is for the engine 'cuda', not for {name!r}")
    if name == "numpy":
        from mcage.engines.reference import ReferenceEngine

        return ReferenceEngine(), "asked for"
    if name == "numba":
        from mcage.engines.native import NativeEngine

        return NativeEngine(), "asked for"

    from mcage.engines.cuda.cupy_device import NoDeviceError, open_devices
    from mcage.engines.cuda.engine import CudaEngine

    asked_for = name == "cuda" or devices is not None
    try:
        return (
            CudaEngine(open_devices(devices), threads),
            "asked for" if asked_for else "a GPU answers",
        )
    except NoDeviceError as error:
        if asked_for:
            raise
        from mcage.engines.native import NativeEngine

        return NativeEngine(), f"the CPU engine; no GPU: {error.why}"


def device_of(engine: Engine) -> str:
    """What an engine computes on, as results record it."""
    device: str = getattr(engine, "device", platform.machine())
    return device


def parse_devices(text: str | None) -> tuple[int, ...] | None:
    """Devices as ``--devices`` gives them: numbers separated by commas.

    Raises
    ------
    UserError
        If they are no such numbers, or one is given twice.
    """
    if text is None:
        return None
    numbers = text.split(",")
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise UserError(f"--devices {text}: must be numbers separated by commas, such as 0,1")
    devices = tuple(int(number) for number in numbers)
    if len(set(devices)) < len(devices):
        raise UserError(f"--devices {text}: gives a device twice")
    return devices
