"""Wrong outputs as images: what a run should have left in memory, what it left, and where."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.plain_text import visible
from mcage.report.figures.canvas import GREY, SMALL, StyledFigure, in_style, inches, save
from mcage.results.reader import open_results
from mcage.studies.inject.kernel import bits_of
from mcage.studies.inject.outcomes import SILENT
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.inject.study import InjectStudy

QUANTILES = (0.25, 0.5, 0.9)
"""Which of the wrong outputs are drawn, by their number of wrong elements."""

WRONG = "#D55E00"
"""Colour of wrong elements."""

_FEW = 64
_WIDTH_MM, _ROW_MM = 180.0, 52.0
_MOST_SIDE = 4096


@dataclass(frozen=True, eq=False)
class Picture:
    """An output of a run that is silently wrong.

    Attributes
    ----------
    case, title : str
        The case; which injection, and which output.
    right, wrong : array of two dimensions
        What it should hold, and what it holds.
    """

    case: str
    title: str
    right: NDArray[Any]
    wrong: NDArray[Any]


def draw_file(spec: InjectSpec, engine: str, results: Path, picture: Path) -> None:
    """Draw outputs of a few silently wrong runs of a results file into a file.

    Parameters
    ----------
    spec : InjectSpec
        The spec of the results.
    engine : str
        Name of the engine that repeats the runs.
    results, picture : Path
        The results file, and the file of the picture.
    """
    study = InjectStudy(spec, *select_engine(engine))
    with open_results(results) as opened:
        draw(pictures_of(study, opened), picture)


def pictures_of(study: InjectStudy, results: xr.Dataset) -> list[Picture]:
    """Outputs of a few silently wrong runs, which are repeated, from few wrong elements to many.

    Parameters
    ----------
    study : InjectStudy
        The study that has computed the results.
    results : xarray.Dataset
        Its results.

    Raises
    ------
    UserError
        No run is silently wrong in one of its outputs.
    """
    dims = ("case", "instance", "age")
    fate, count = (results[name].transpose(*dims).values for name in ("fate", "wrong_elements"))
    places = np.argwhere(np.isin(fate, SILENT) & (count > 0))
    if not len(places):
        raise UserError(
            "--picture: no run is silently wrong in one of its outputs; nothing to draw"
        )
    places = places[np.argsort([count[tuple(place)] for place in places], kind="stable")]
    chosen = dict.fromkeys(int(share * (len(places) - 1)) for share in QUANTILES)
    return [_picture(study, results, places[number].tolist()) for number in chosen]


def _picture(study: InjectStudy, results: xr.Dataset, place: Sequence[int]) -> Picture:
    case, number, age = place
    instance = int(results["instance"].values[number])
    ran = study.rerun(case, instance, age)
    assert ran is not None, "a run that was wrong is right when it is repeated"
    right, wrong = study.kernel.reruns.outputs, study.kernel.reruns.outputs_of(ran)
    name = max(right, key=lambda each: int((bits_of(right[each]) != bits_of(wrong[each])).sum()))
    label = visible(str(results["case"].values[case]))
    title = f"injection {instance}: {visible(name)}"
    if results.sizes["age"] > 1:
        title += f", {results['age'].values[age]:g} years"
    return Picture(label, title, _image(right[name]), _image(wrong[name]))


def _image(values: NDArray[Any]) -> NDArray[Any]:
    """An output as an image: its own two dimensions, or rows that make it about square."""
    if values.ndim == 2 and max(values.shape) <= 16 * min(values.shape):
        return values
    flat = values.reshape(-1)
    width = min(_MOST_SIDE, 1 << (int(np.sqrt(flat.size)).bit_length() - 1))
    height = -(-flat.size // width)
    padded = np.zeros(width * height, flat.dtype)
    padded[: flat.size] = flat
    return padded.reshape(height, width)


@in_style
def draw(pictures: Sequence[Picture], path: Path) -> None:
    """Draw outputs side by side, a row for each run.

    Parameters
    ----------
    pictures : sequence of Picture
        At least one.
    path : Path
        File, whose suffix names the format.

    Raises
    ------
    UserError
        It cannot be written.
    """
    size = inches(_WIDTH_MM), inches(_ROW_MM * len(pictures))
    figure: Figure = StyledFigure(figsize=size, layout="constrained")
    axes = figure.subplots(len(pictures), 3, squeeze=False)
    for row, picture in zip(axes, pictures, strict=True):
        _draw_row(row, picture)
    figure.suptitle(
        "; ".join(dict.fromkeys(picture.case for picture in pictures)), fontsize="medium"
    )
    save(figure, path)


def _draw_row(row: Sequence[Axes], picture: Picture) -> None:
    right, wrong = picture.right, picture.wrong
    finite = right[np.isfinite(right)].astype(np.float64)
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    differs = bits_of(right) != bits_of(wrong)
    parts = (
        ("without faults", right, "gray"),
        ("with faults", wrong, "gray"),
        (f"wrong: {differs.sum():,} of {differs.size:,}", None, ""),
    )
    for axes, (title, values, colours) in zip(row, parts, strict=True):
        if values is None:
            image = differs.reshape(right.shape)
            axes.imshow(image, cmap=ListedColormap(["#f4f4f4", WRONG]), vmin=0, vmax=1)
            y, x = np.nonzero(image)
            if len(x) <= _FEW:  # a single element is smaller than a dot of print
                axes.scatter(x, y, s=18, facecolors="none", edgecolors=WRONG, linewidths=0.6)
        else:
            axes.imshow(
                np.where(np.isfinite(values), values, high).astype(np.float64),
                cmap=colours,
                vmin=low,
                vmax=high if high > low else low + 1,
            )
        axes.set_title(title)
        axes.set_xticks([])
        axes.set_yticks([])
    row[0].set_ylabel(picture.title, fontsize=SMALL, color=GREY)
