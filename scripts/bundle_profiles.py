"""Regenerate the bundled profiles of 32-lane traces from the bundled traces of 64 lanes.

    python scripts/bundle_profiles.py

Each wavefront becomes two warps, one for each half of its lanes, in entries of 32 components, as
NVIDIA's slices have them; a write that reaches no lane of a warp is left out of it. No more windows
are open at once than such a slice keeps. Nothing of this was recorded on an NVIDIA GPU: registers,
instructions and times are those of AMD's compiler and of the simulated HD 7770.
"""

import lzma
from pathlib import Path

import numpy as np

from mcage.geometry import NVIDIA
from mcage.traces import ALLOC, KERNELS, WRITE, Trace, bundled_trace
from mcage.traces.library import PROFILES
from mcage.traces.model import ALLOC_COLUMNS, EVENT_COLUMNS
from mcage.traces.profiles import Profile, profile_text
from mcage.traces.profiles.characterize import characterize
from mcage.traces.profiles.synthesize import synthesize

BUNDLE = Path(__file__).parents[1] / "mcage" / "data" / "profiles"
ABOUT = {
    "derived": "not recorded on NVIDIA hardware",
    "warps": "halves of the wavefronts of a simulated AMD HD 7770",
}
LANES = NVIDIA.components


def main() -> None:
    BUNDLE.mkdir(parents=True, exist_ok=True)
    for kernel, name in zip(KERNELS, PROFILES, strict=True):
        path = BUNDLE / f"{name}.json.xz"
        text = profile_text(profile_of_halves(bundled_trace(kernel), name))
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        print(f"{path.stat().st_size:>10,}  {name}")


def profile_of_halves(trace: Trace, name: str) -> Profile:
    """Profile of the warps that are the halves of a trace's wavefronts."""
    whole = characterize(halved(trace))
    limited = whole.model_copy(
        update={
            "name": name,
            "source": {**whole.source, **ABOUT},
            "kernels": tuple(
                kernel.model_copy(
                    update={"open_windows": min(kernel.open_windows, NVIDIA.max_windows)}
                )
                for kernel in whole.kernels
            ),
        }
    )
    # With fewer windows at once, a pass is another: its statistics are those of a drawn trace.
    drawn = characterize(synthesize(limited))
    return limited.model_copy(update={"statistics": drawn.statistics})


def halved(trace: Trace) -> Trace:
    """The trace with two windows of 32 lanes for each window of 64."""
    events = np.repeat(np.arange(len(trace.kind)), 2)
    half = np.tile(np.arange(2), len(trace.kind))
    mask = trace.exec_mask[events] >> (half * LANES).astype(np.uint64) & NVIDIA.all_lanes
    kept = (trace.kind[events] != WRITE) | (mask != 0)
    events, half, mask = events[kept], half[kept], mask[kept]
    columns = {
        column.attribute: getattr(trace, column.attribute)[events] for column in EVENT_COLUMNS
    }
    columns["exec_mask"] = mask
    columns["slot"] = (2 * columns["slot"] + half).astype(np.uint16)
    written = columns["kind"] == WRITE
    halves = trace.values.reshape(-1, LANES)
    rows, row = np.unique(2 * columns["value"][written] + half[written], return_inverse=True)
    columns["value"] = np.where(written, 0, columns["value"]).astype(np.int32)
    columns["value"][written] = row
    windows = np.repeat(np.arange(trace.windows), 2)
    columns |= {
        column.attribute: getattr(trace, column.attribute)[windows] for column in ALLOC_COLUMNS
    }
    columns["alloc_event"] = np.flatnonzero(columns["kind"] == ALLOC).astype(np.uint32)
    columns["alloc_wavefront"] = (
        2 * columns["alloc_wavefront"] + np.tile(np.arange(2), trace.windows)
    ).astype(np.uint32)
    return Trace(
        name=f"{trace.name} in halves",
        source=trace.source,
        kernels=trace.kernels,
        cycles=trace.cycles,
        values=halves[rows],
        geometry=NVIDIA,
        **columns,
    )


if __name__ == "__main__":
    main()
