"""Regenerate the bundled traces from folders of recorded ones.

    python scripts/bundle_traces.py [--sdk FOLDER] [--modern FOLDER] [--nvidia FOLDER]

``--sdk`` names a folder of `<benchmark>-cu<compute unit>-simd<SIMD>.h5`, of which the slice
cu0-simd0 of each kernel of 2011 goes into the package; ``--modern`` one that
``record_modern_kernels.py`` has written, ``--nvidia`` one that it has written with ``--slice
nvidia``. Traces go in whole, under the names of mcage's suites.
"""

import argparse
import lzma
from dataclasses import replace
from pathlib import Path

from mcage.traces import KERNELS, load_trace
from mcage.traces.library import MODERN
from mcage.traces.storage import trace_bytes

BUNDLE = Path(__file__).parents[1] / "mcage" / "data" / "traces"
ARCHITECTURES = {"gcn": "gfx900", "cdna2": "gfx90a", "rdna3": "gfx1100", "nvidia": "nvidia"}
MOST_BYTES = 38_400_000
"""A wheel has 40 MB at most."""


def bundle(name: str, recorded: Path) -> None:
    """Put a trace into the package."""
    content = trace_bytes(replace(load_trace(recorded), name=name), effort=0)
    path = BUNDLE / f"{name}.h5.xz"
    path.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    print(f"{path.stat().st_size:>10,}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Regenerate the bundled traces.")
    parser.add_argument("--sdk", type=Path, help="folder of recorded kernels of 2011")
    parser.add_argument("--modern", type=Path, help="folder of today's kernels, recorded")
    parser.add_argument("--nvidia", type=Path, help="folder of today's kernels on that slice")
    folders = parser.parse_args()
    BUNDLE.mkdir(parents=True, exist_ok=True)
    for name in KERNELS if folders.sdk else ():
        bundle(name, folders.sdk / f"{name}-cu0-simd0.h5")
    for slice_name, names in MODERN.items():
        folder = folders.nvidia if slice_name == "nvidia" else folders.modern
        for name in names if folder else ():
            kernel = name.partition(".")[0]
            bundle(name, folder / f"{kernel}.{ARCHITECTURES[slice_name]}.h5")
    total = sum(path.stat().st_size for path in BUNDLE.glob("*.xz"))
    print(f"{total:>10,}  in all")
    if total > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES:,} bytes: too much for the package")


if __name__ == "__main__":
    main()
