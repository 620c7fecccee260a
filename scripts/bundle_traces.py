"""Regenerate the bundled traces from a folder of recorded ones.

    python scripts/bundle_traces.py FOLDER

FOLDER holds `<benchmark>-cu<compute unit>-simd<SIMD>.h5`; the slice cu0-simd0 of each kernel goes
into the package, whole, recompressed, under the kernel's name.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from mcage.traces import KERNELS, load_trace, save_trace

BUNDLE = Path(__file__).parents[1] / "mcage" / "data" / "traces"
MOST_BYTES = 15_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description="Regenerate the bundled traces.")
    parser.add_argument("folder", type=Path, help="folder of recorded traces")
    folder = parser.parse_args().folder
    BUNDLE.mkdir(parents=True, exist_ok=True)
    total = 0
    for kernel in KERNELS:
        path = BUNDLE / f"{kernel}.h5"
        save_trace(replace(load_trace(folder / f"{kernel}-cu0-simd0.h5"), name=kernel), path)
        total += path.stat().st_size
        print(f"{path.stat().st_size:>10,}  {kernel}")
    print(f"{total:>10,}  in all")
    if total > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES:,} bytes: too much for the package")


if __name__ == "__main__":
    main()
