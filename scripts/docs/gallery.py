"""Draw the figures of the README's gallery, and that of the page on getting started.

They are figures of reports, of the results files whose commands stand beside them:

    mcage sweep --instances 10000
    python scripts/docs/gallery.py results/sweep.h5 ../mcage-first/sum.h5

Beside them, ``gallery.json`` says for each picture which bytes it has, and what the same figure of
a few instances showed when it was drawn. A test draws that figure again: where it shows anything
else, the picture has to be drawn again, too.
"""

import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.text import Text
from PIL import Image

from mcage import run_sweep
from mcage.report.figures.canvas import WIDTHS_MM, Plot
from mcage.report.folder import ReportOptions, figures_of, write_report
from mcage.report.presentation import sheet_of
from mcage.results.reader import open_results, read_header
from mcage.spec import SweepSpec

FIGURES = {
    "gallery-survival": ("sweep", "survival"),
    "getting-started": ("sum", "survival"),
}
"""By name in ``docs/figures``, the results file and the figure of its report."""

PICTURES = Path(__file__).parents[2] / "docs" / "figures"
RECORD = PICTURES / "gallery.json"
PIXELS = 1600
"""Width."""
COLOURS = 128
"""As many as do not show, and make a quarter of the bytes."""

INSTANCES = 6
"""Of the figures that are described."""
POINTS = 5
"""Points of a curve that are described."""


def few_instances(results: str, folder: Path) -> Path:
    """Results of the same spec with a few instances, and of a single kernel."""
    path = folder / f"{results}.h5"
    workload = {"kernels": ["QuasiRandomSequence"], "generations": 1}
    return run_sweep(SweepSpec(instances=INSTANCES, workload=workload), path, "numba")


def description(path: Path, name: str) -> dict[str, Any]:
    """All words of a figure of a results file, and of each of its curves some points and a colour.

    Parameters
    ----------
    path : Path
        The results file.
    name : str
        Name of the figure in a report.
    """
    with open_results(path) as results:
        header = read_header(path)
        figure = next(of for of in figures_of(header, results) if of.name == name)
        assert isinstance(figure, Plot), figure
        (drawn,) = figure.pages(sheet_of(header, results, WIDTHS_MM[-1]))
        drawn.figure.draw_without_rendering()  # which names the places on the axes
        artists = {artist.get_gid(): artist for artist in drawn.figure.findobj()}
        curves = []
        for series in (series for panel in drawn.panels for series in panel.series):
            at = np.linspace(0, series.x.size - 1, min(POINTS, series.x.size)).astype(int)
            numbers = [series.x[at].tolist(), series.y[at].tolist()]
            curves.append([series.label, artists[series.gid].get_color(), numbers])
        words = {text.get_text() for text in drawn.figure.findobj(Text)}
        return {"words": sorted(words), "caption": drawn.caption, "curves": curves}


def digest(picture: Path) -> str:
    """What tells the bytes of a picture from others."""
    return hashlib.sha256(picture.read_bytes()).hexdigest()


def main() -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for results in map(Path, sys.argv[1:]):
        figures = {name: of[1] for name, of in FIGURES.items() if of[0] == results.stem}
        with TemporaryDirectory() as folder:
            options = ReportOptions(figures=tuple(figures.values()))
            write_report([results], report := Path(folder, "report"), options)
            few = few_instances(results.stem, Path(folder))
            for name, figure in figures.items():
                drawn = Image.open(report / f"{figure}.png").convert("RGB")
                smaller = drawn.resize((PIXELS, round(PIXELS * drawn.height / drawn.width)))
                picture = PICTURES / f"{name}.png"
                smaller.quantize(COLOURS).save(picture, optimize=True)
                record[name] = {"digest": digest(picture), "figure": description(few, figure)}
                print(picture)
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
