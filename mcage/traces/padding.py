"""Warps of 32 lanes in registers of 64: a trace may be padded so, but must not be in silence."""

import warnings

import numpy as np

from mcage.geometry import SLICE
from mcage.traces.model import WRITE, Trace

HALF = SLICE.components // 2


class PaddedTraceWarning(UserWarning):
    """A trace looks like one of narrower warps, padded."""


def uses_lower_half_only(trace: Trace) -> bool:
    """Whether no write reaches the upper 32 lanes, or none leaves a value there."""
    masks = trace.exec_mask[trace.kind == WRITE]
    if not (masks >> np.uint64(HALF)).any():
        return True
    return not trace.values[:, HALF:].any() and bool(trace.values[:, :HALF].any())


def warn_of_padding(trace: Trace) -> None:
    """Warn of a trace that looks like warps of 32 lanes padded to 64.

    The warning is a `PaddedTraceWarning`; the command line prints it in one line.
    """
    if uses_lower_half_only(trace):
        warnings.warn(
            f"trace {trace.name!r} writes the lower {HALF} of {SLICE.components} lanes only, like "
            f"warps of {HALF} lanes padded to {SLICE.components}: a padded register is neither "
            "constant nor delta, so that hardly any write is compressible; a geometry for "
            f"{HALF} lanes is not offered yet",
            PaddedTraceWarning,
            stacklevel=3,
        )
