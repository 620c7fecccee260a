"""Which engine computes, and why that one."""

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcage.errors import UserError
from mcage.plain_text import one_line, shortened

if TYPE_CHECKING:
    from mcage.engines.interface import Engine

ENGINES = ("auto", "numpy", "numba", "cuda")


def select_engine(
    name: str = "auto", devices: Sequence[int] | None = None, threads: int = 1
) -> "tuple[Engine, str]":
    """Engine called ``name`` and the reason for the choice.

    Parameters
    ----------
    name : str
        One of `ENGINES`. ``auto`` is ``cuda`` on the devices that can be used, else ``numba``.
    devices : sequence of int, optional
        Devices of the ``cuda`` engine, which they ask for; by default all of the machine.
    threads : int
        Threads of the host that will use the engine at once.

    Raises
    ------
    UserError
        If there is none of that name, or it was asked for and one of its devices cannot be used.
    """
    if name not in ENGINES:
        raise UserError(f"engine {shortened(name)} is unknown; choose from {', '.join(ENGINES)}")
    if devices is not None and name not in ("auto", "cuda"):
        raise UserError(f"--devices is for the engine 'cuda', not for {name!r}")
    if name == "numpy":
        from mcage.engines.numpy_engine import NumpyEngine

        return NumpyEngine(), "asked for"
    if name == "numba":
        from mcage.engines.numba_engine import NumbaEngine

        return NumbaEngine(), "asked for"

    if name == "cuda" or devices is not None:
        return _cuda(devices, threads), "asked for"
    return _whatever_answers(threads)


def engine_of(engine: "Engine | str") -> "Engine":
    """Engine itself, or the engine of a name as `select_engine` takes it.

    Raises
    ------
    UserError
        As `select_engine`.
    """
    return select_engine(engine)[0] if isinstance(engine, str) else engine


def _cuda(devices: Sequence[int] | None, threads: int) -> "Engine":
    """The engine on all of the devices that are asked for."""
    from mcage.engines.cuda_engine import CudaEngine
    from mcage.engines.cuda_engine.opening import open_devices

    return CudaEngine(open_devices(devices), threads)


def _whatever_answers(threads: int) -> "tuple[Engine, str]":
    """The engine on the devices that can be used, or the CPU engine if none can."""
    from mcage.engines.cuda_engine import CudaEngine
    from mcage.engines.cuda_engine.devices import NoDeviceError
    from mcage.engines.cuda_engine.opening import ask_devices, in_words

    try:
        devices = ask_devices()
    except NoDeviceError as error:
        from mcage.engines.numba_engine import NumbaEngine

        return NumbaEngine(), f"the CPU engine; no GPU: {error.why}"
    left_out = f"; left out: {in_words(devices.refused)}" if devices.refused else ""
    return CudaEngine(devices.usable, threads), f"a GPU answers{left_out}"


def usable_devices() -> tuple[int, ...]:
    """Numbers of the CUDA devices that can be used; none where there is no GPU or no CuPy."""
    from mcage.engines.cuda_engine.devices import NoDeviceError
    from mcage.engines.cuda_engine.opening import ask_devices

    try:
        return tuple(device.number for device in ask_devices().usable)
    except NoDeviceError:
        return ()


def device_of(engine: "Engine") -> str:
    """Device on which an engine computes, as results record it."""
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
    if not all(number.isascii() and number.isdigit() and len(number) < 5 for number in numbers):
        raise UserError(
            f"--devices {one_line(text)}: must be numbers separated by commas, such as 0,1"
        )
    devices = tuple(int(number) for number in numbers)
    if len(set(devices)) < len(devices):
        raise UserError(f"--devices {text}: gives a device twice")
    return devices
