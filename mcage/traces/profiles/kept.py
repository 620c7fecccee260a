"""The trace of a profile: drawn once, and then kept on disk."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.files.disk_cache import kept_on_disk
from mcage.geometry import SliceGeometry
from mcage.traces.model import COLUMNS, Kernel, Trace
from mcage.traces.profiles.profile import read_profile
from mcage.traces.profiles.synthesizing.synthesize import synthesize
from mcage.version import code_digest

SEED = 0
"""Seed of the traces that are named like profiles."""


def trace_of_profile(path: Path) -> Trace:
    """Draw the trace of a profile, or take it from the disk.

    Parameters
    ----------
    path : Path
        File of the profile.

    Raises
    ------
    UserError
        The file is no profile.
    """
    content = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    key = f"trace of profile {content} {SEED} {code_digest()} {np.__version__}"
    arrays: dict[str, Any] = kept_on_disk(
        key, lambda: _arrays(synthesize(read_profile(path), SEED))
    )
    about = json.loads(arrays.pop("about").tobytes())
    kernels = tuple(Kernel(*kernel) for kernel in about.pop("kernels"))
    geometry = SliceGeometry(**about.pop("geometry"))
    return Trace(**about, **arrays, kernels=kernels, geometry=geometry)


def _arrays(trace: Trace) -> dict[str, NDArray[Any]]:
    columns = {column.attribute: getattr(trace, column.attribute) for column in COLUMNS}
    about = {
        "name": trace.name,
        "source": trace.source,
        "cycles": trace.cycles,
        "kernels": [
            [getattr(kernel, field.name) for field in fields(kernel)] for kernel in trace.kernels
        ],
        "geometry": trace.geometry.described(),
    }
    return {**columns, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)}
