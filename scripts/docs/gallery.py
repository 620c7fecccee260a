"""Draw the figures of the README's gallery, and that of the page on getting started.

They are figures of reports, of the results files whose commands stand beside them:

    mcage sweep --instances 10000 --out results/sweep.h5
    mcage gpu gating --instances 2000 --out results/gating.h5
    python scripts/docs/gallery.py results/sweep.h5 results/gating.h5 ../mcage-first/sum.h5
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from mcage.report.folder import write_report

FIGURES = {
    "sweep": {"survival": "gallery-survival", "energy-life": "gallery-energy-life"},
    "gating": {"margin-age": "gallery-margin-age"},
    "sum": {"survival": "getting-started"},
}
"""By results file, the figure of its report and its name in ``docs/figures``."""

PICTURES = Path(__file__).parents[2] / "docs" / "figures"
PIXELS = 1600
"""Width."""
COLOURS = 128
"""As many as do not show, and make a quarter of the bytes."""


def main() -> None:
    for results in map(Path, sys.argv[1:]):
        with TemporaryDirectory() as folder:
            write_report([results], report := Path(folder, "report"))
            for figure, name in FIGURES[results.stem].items():
                drawn = Image.open(report / f"{figure}.png").convert("RGB")
                smaller = drawn.resize((PIXELS, round(PIXELS * drawn.height / drawn.width)))
                smaller.quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)
                print(PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
