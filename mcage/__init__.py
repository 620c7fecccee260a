"""mcage: Monte Carlo aging and fault analyzer for GPU register files.

The names of the public interface are loaded when they are first used, so that importing the
package costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Gating": "mcage.techniques",
    "Placement": "mcage.techniques",
    "PlacementProgram": "mcage.techniques.programs",
    "Storage": "mcage.techniques",
    "SweepSpec": "mcage.spec",
    "Technique": "mcage.techniques",
    "Trace": "mcage.traces",
    "load_trace": "mcage.traces",
    "open_results": "mcage.results.reader",
    "open_trace": "mcage.traces",
    "replay": "mcage.studies.single_replay",
    "run_sweep": "mcage.sweep.run",
    "save_trace": "mcage.traces",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mcage' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
