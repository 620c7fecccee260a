"""Why a device cannot be used, and what would help."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcage.engines.cuda_engine.devices.errors import causes, first_line
from mcage.errors import pip_install

CACHE_REMEDY = "name a folder that can be written in CUPY_CACHE_DIR"

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
