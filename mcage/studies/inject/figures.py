"""Figures of injections: outcomes by bit and register, wrong answers against age, and as images."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.plain_text import visible
from mcage.report.cases import NamedCase, cases_in, named_cases
from mcage.report.figures import canvas
from mcage.report.figures.canvas import (
    GREY,
    PERCENT,
    SMALL,
    CasePart,
    StyledFigure,
    in_style,
    inches,
    save,
)
from mcage.report.figures.curves import CurveFigure
from mcage.stats.estimates import wilson
from mcage.studies.inject.outcomes import DETECTED, NOT_RUN, SILENT, Fate, are_known
from mcage.studies.inject.spec import InjectSpec
from mcage.tracing.emulation.arithmetic import as_bits

if TYPE_CHECKING:
    from mcage.studies.inject.study import InjectStudy

AGES = 61
"""Points of a curve against age."""

OUTCOMES: Mapping[str, tuple[Fate, ...]] = {
    "masked": (Fate.MASKED,),
    "wrong, tolerable": (Fate.TOLERABLE,),
    "wrong, beyond": (Fate.SDC,),
    "detected": DETECTED,
}
"""Which fates each curve counts."""


def of_flips(results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """Outcome of flips by what was hit, a panel for each case, at the last age."""
    for what in ("bit", "register", "instruction"):
        if (variable := f"flip_{what}") not in results:
            continue  # a file of an earlier version
        plot = CurveFigure(
            f"outcome-by-{what}",
            f"Outcome of flips by {what}, {PERCENT} intervals",
            f"Shares of the flips by the {what} that was hit, with Wilson's intervals; slices that "
            "are not in use are left out. Of compressed values, of which many lanes depend on one "
            "cell, and of check bits, no bit is shown; of several cells, it is that of the one "
            "that was drawn. Instructions are those that have left the value, by their place in "
            "the file's list: `mcage show --by instruction` prints them.",
            what,
            "flips (%)",
            shape="points",
            y_limits=(0.0, 103.0),
            worth="the largest share",
            unit=" %",
        )
        panels = []
        for case, of in zip(named_cases(results), cases_in(results), strict=True):
            fate = of["fate"].transpose("instance", "age").values[:, -1]
            hit = of[variable].values
            shown = ~np.isin(fate, NOT_RUN) & (hit >= 0)
            title = f"{case.conditions}: {case.name}"
            panels += [
                (NamedCase(case.places, outcome, title, ""), _shares(hit[shown], of_fate))
                for outcome, fates in OUTCOMES.items()
                for of_fate in (np.isin(fate[shown], fates),)
            ]
        yield plot.of_cases(panels)


def _shares(hit: NDArray[np.integer], happens: NDArray[np.bool_]) -> Iterator[CasePart]:
    """Share in which something happens, at each place that was hit."""
    places = np.unique(hit)
    if not places.size:
        yield CasePart(None, why="no place is shown")
        return
    curve = _curve(places.astype(np.float64), [happens[hit == place] for place in places])
    yield CasePart(curve, worth=float(curve.y.max()))


def _curve(x: NDArray[np.float64], happens: Sequence[NDArray[np.bool_]]) -> canvas.Series:
    """Share in which something happens, at each place, in percent."""
    share = np.array([each.mean() for each in happens])
    lower, upper = wilson(share, np.array([float(len(each)) for each in happens]))
    return canvas.Series("", x, 100 * share, 100 * lower, 100 * upper)


WRONG = {
    "silently wrong before any detection": "silent_years",
    "detected, by an error or a test": "told_years",
}


def of_slices(results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """Wrong answers of slices against their age, and detections."""
    plot = CurveFigure(
        "wrong-by-age",
        f"Wrong answers against age, {PERCENT} bands",
        "Share of the slices that have given a silently wrong answer by an age before any "
        "detection, and of those with a detection by then: of an error, or by a test. "
        "Wilson's bands.",
        "age (years)",
        "slices (%)",
        y_limits=(0.0, 103.0),
        worth="the last share",
        unit=" %",
    )
    last = float(results["age"].values[-1])
    if not last:
        why = "All slices are looked at when they are new."
        yield canvas.AbsentFigure(plot.name, plot.title, why)
        return
    ages = np.linspace(0.0, last, AGES)

    def parts(case: xr.Dataset) -> Iterator[CasePart]:
        known = are_known(case["fate"].transpose("instance", "age").values)
        for panel, variable in WRONG.items():
            if not known.any():
                yield CasePart(None, panel, "not known")
                continue
            curve = _curve(ages, list(case[variable].values[known] <= ages[:, None]))
            yield CasePart(curve, panel, worth=float(curve.y[-1]))

    cases = zip(named_cases(results), cases_in(results), strict=True)
    yield plot.of_cases((name, parts(case)) for name, case in cases)


# Wrong outputs as images: what a run should have left in memory, what it left, and where.

QUANTILES = (0.25, 0.5, 0.9)
"""Which of the wrong outputs are drawn, by their number of wrong elements."""

WRONG_COLOUR = "#D55E00"
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


def draw_wrong_outputs(spec: InjectSpec, engine: str, results: Path, picture: Path) -> None:
    """Draw outputs of a few silently wrong runs into a file, from few wrong elements to many.

    Parameters
    ----------
    spec : InjectSpec
        The spec of the results.
    engine : str
        Name of the engine that repeats the runs.
    results, picture : Path
        The results file, and the file of the picture.

    Raises
    ------
    UserError
        No run is silently wrong in one of its outputs, or the picture cannot be written.
    """
    from mcage.engines import select_engine
    from mcage.results.reader import open_results
    from mcage.studies.inject.study import InjectStudy

    study = InjectStudy(spec, *select_engine(engine))
    dims = ("case", "instance", "age")
    with open_results(results) as opened:
        fate, count = (opened[name].transpose(*dims).values for name in ("fate", "wrong_elements"))
        places = np.argwhere(np.isin(fate, SILENT) & (count > 0))
        if not len(places):
            raise UserError(
                "--picture: no run is silently wrong in one of its outputs; nothing to draw"
            )
        places = places[np.argsort([count[tuple(place)] for place in places], kind="stable")]
        chosen = dict.fromkeys(int(share * (len(places) - 1)) for share in QUANTILES)
        draw([_picture(study, opened, places[number].tolist()) for number in chosen], picture)


def _picture(study: "InjectStudy", results: xr.Dataset, place: Sequence[int]) -> Picture:
    case, number, age = place
    instance = int(results["instance"].values[number])
    ran = study.rerun(case, instance, age)
    assert ran is not None, "a run that was wrong is right when it is repeated"
    right, wrong = study.kernel.reruns.outputs, study.kernel.reruns.outputs_of(ran)
    name = max(right, key=lambda each: int(_differ(right[each], wrong[each]).sum()))
    label = visible(str(results["case"].values[case]))
    title = f"injection {instance}: {visible(name)}"
    if results.sizes["age"] > 1:
        title += f", {results['age'].values[age]:g} years"
    return Picture(label, title, _image(right[name]), _image(wrong[name]))


def _differ(right: NDArray[Any], wrong: NDArray[Any]) -> NDArray[np.bool_]:
    """Which elements differ, NaNs of other bits among them."""
    return np.asarray(as_bits(right) != as_bits(wrong))


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
    differs = _differ(right, wrong)
    parts = (
        ("without faults", right, "gray"),
        ("with faults", wrong, "gray"),
        (f"wrong: {differs.sum():,} of {differs.size:,}", None, ""),
    )
    for axes, (title, values, colours) in zip(row, parts, strict=True):
        if values is None:
            axes.imshow(differs, cmap=ListedColormap(["#f4f4f4", WRONG_COLOUR]), vmin=0, vmax=1)
            y, x = np.nonzero(differs)
            if len(x) <= _FEW:  # a single element is smaller than a dot of print
                axes.scatter(x, y, s=18, facecolors="none", edgecolors=WRONG_COLOUR, linewidths=0.6)
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
