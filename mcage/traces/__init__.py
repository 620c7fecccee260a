"""Recorded register traces: the model, its files, the bundled library, patterns of values."""

from mcage.traces.library import KERNELS, bundled_trace, open_trace
from mcage.traces.model import ALLOC, READ, RELEASE, WRITE, Kernel, Trace, validate_trace
from mcage.traces.patterns import (
    Patterns,
    TraceSummary,
    classify,
    compressible,
    first_block_fits,
    summarize_trace,
    wc_bytes,
)
from mcage.traces.storage import load_trace, save_trace
from mcage.traces.transforms import first_generations

__all__ = [
    "ALLOC",
    "KERNELS",
    "READ",
    "RELEASE",
    "WRITE",
    "Kernel",
    "Patterns",
    "Trace",
    "TraceSummary",
    "bundled_trace",
    "classify",
    "compressible",
    "first_block_fits",
    "first_generations",
    "load_trace",
    "open_trace",
    "save_trace",
    "summarize_trace",
    "validate_trace",
    "wc_bytes",
]
