"""Which engine computes, and why that one."""

from mcage.engines.interface import Engine
from mcage.errors import UserError

ENGINES = ("auto", "numpy", "numba")


def select_engine(name: str = "auto") -> tuple[Engine, str]:
    """Engine called ``name`` and the reason for the choice.

    Raises
    ------
    UserError
        If there is none of that name.
    """
    if name == "numpy":
        from mcage.engines.reference import ReferenceEngine

        return ReferenceEngine(), "asked for"
    if name in ("auto", "numba"):
        from mcage.engines.native import NativeEngine

        return NativeEngine(), "asked for" if name == "numba" else "the CPU engine; no other here"
    raise UserError(f"engine {name!r} is unknown; choose from {', '.join(ENGINES)}")
