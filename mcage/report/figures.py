"""Figures of a results file: the share of slices that still work, against age."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mcage.files.atomic import make_ready, whole_file
from mcage.files.kinds import FIGURES, kind_of_name
from mcage.plain_text import visible
from mcage.report.cases import Setting, lives_of
from mcage.report.notes import note_on_caveats
from mcage.results.reader import open_results, read_header
from mcage.stats.estimates import CONFIDENCE
from mcage.stats.survival import CaseLives, kaplan_meier

COLOURS = {  # Okabe and Ito's, which the colour-blind tell apart
    "baseline": "#000000",
    "rc+rar": "#D55E00",
    "rrcd": "#0072B2",
    "rrcd+pg": "#56B4E9",
    "rrcd+rc+rar": "#009E73",
    "gr-guard": "#CC79A7",
    "disable": "#E69F00",
}
OTHER_COLOURS = ("#999999", "#8B4513", "#F0E442", "#666666")
"""Colours of techniques that are not named above, in the order of the file."""

CAVEAT_COLUMNS = 50
"""Characters of a line under a panel."""

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "mcage",
    # Names of techniques and kernels are no mathematics, whatever signs they have.
    "text.parse_math": False,
}

NEVER_WORK = 0.99
"""Share dead on arrival above which a case is named, not drawn: its curve lies on the axis."""

COLUMNS = 3
"""Number of panels beside each other."""


def check_figure_path(path: Path) -> None:
    """Refuse a figure that could not be written.

    Raises
    ------
    UserError
        There is no such folder, the suffix names no format, or a file of another kind is there.
    """
    make_ready(path, kind_of_name(path, list(FIGURES)))


def draw_survival_of_file(results_path: Path, path: Path) -> None:
    """Draw survival curves of all cases of a results file, with a panel for each setting.

    Parameters
    ----------
    results_path : Path
        Results file.
    path : Path
        Figure: .png, .pdf or .svg.

    Raises
    ------
    UserError
        The results file is missing, foreign or damaged; the figure cannot be written.
    """
    check_figure_path(path)
    with open_results(results_path) as results, matplotlib.rc_context(STYLE):
        panels = settings_of(results)
        columns = min(COLUMNS, len(panels))
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(1.2 + 2.7 * columns, 1.1 + 2.3 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        colours = colours_of([visible(str(name)) for name in results["technique"].values])
        for axes, (setting, cases) in zip(grid.flat, panels.items(), strict=False):
            draw_survival(axes, cases, colours)
            axes.set_title(in_words(setting))
            axes.label_outer()
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        name_curves(figure)
        figure.suptitle(
            f"Slices that still work: {results.sizes['instance']:,} instances, "
            f"{CONFIDENCE:.0%} bands",
            fontsize=9.5,
        )
        if caveats := note_on_caveats(read_header(results_path)):
            lines = textwrap.fill(visible(caveats), CAVEAT_COLUMNS * columns)
            figure.supxlabel(lines, fontsize=6, x=0.01, horizontalalignment="left")
        save(figure, path)


def settings_of(results: xr.Dataset) -> dict[Setting, dict[str, CaseLives]]:
    """Lives of all cases, by setting and then by technique, in the order of the file."""
    panels: dict[Setting, dict[str, CaseLives]] = {}
    for number in range(results.sizes["case"]):
        case = results.isel(case=number)
        technique = visible(str(case["technique"].item()))
        panels.setdefault(Setting.of(case), {})[technique] = lives_of(case)
    return panels


def colours_of(techniques: Sequence[str]) -> dict[str, str]:
    """Colour of each technique."""
    others = [name for name in dict.fromkeys(techniques) if name not in COLOURS]
    return COLOURS | {
        name: OTHER_COLOURS[number % len(OTHER_COLOURS)] for number, name in enumerate(others)
    }


def draw_survival(axes: Axes, cases: dict[str, CaseLives], colours: dict[str, str]) -> None:
    """Draw Kaplan-Meier curves with their bands, and name techniques whose slices never work.

    Parameters
    ----------
    axes : Axes
        Axes to draw on.
    cases : dict of str to CaseLives
        Lives by technique.
    colours : dict of str to str
        Colours by technique.
    """
    never = []
    for name, lives in cases.items():
        if float(np.mean(lives.years == 0)) > NEVER_WORK:
            never.append(name)
        else:
            draw_curve(axes, lives, colours[name], name)
    if never:
        percent = 100 * min(float(np.mean(cases[name].years == 0)) for name in never)
        words = f"{', '.join(never)}:\n{percent:.4g} % dead on arrival"
        axes.text(0.97, 0.97, words, transform=axes.transAxes, ha="right", va="top", fontsize=7)
    horizon = max(lives.horizon_years for lives in cases.values())
    axes.set(xlim=(0, horizon), ylim=(0, 102), xlabel="age (years)")
    axes.set_ylabel("slices that still work (%)")


def name_curves(figure: Figure) -> None:
    """Add a legend for the curves of all panels."""
    lines: dict[str, Artist] = {}
    for axes in figure.axes:
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True):
            lines.setdefault(name, line)
    if lines:
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4)


def draw_curve(
    axes: Axes, lives: CaseLives, colour: str, label: str | None = None, **line: Any
) -> None:
    """Draw a Kaplan-Meier curve with its band; further arguments are of matplotlib's lines."""
    curve = kaplan_meier(lives.years, lives.died)
    years = np.concatenate([[0.0], curve.years, [lives.horizon_years]])
    alive, lower, upper = (
        100 * np.concatenate([[1.0], part, part[-1:] if part.size else [1.0]])
        for part in (curve.survival, curve.lower, curve.upper)
    )
    style: dict[str, Any] = {"linewidth": 1.2, **line}
    axes.step(years, alive, where="post", color=colour, label=label, **style)
    axes.fill_between(years, lower, upper, step="post", color=colour, alpha=0.25, linewidth=0)


def in_words(setting: Setting) -> str:
    """Write a setting as a title."""
    return visible(f"{setting.environment} {setting.voltages}, {setting.scenario}")


def save(figure: Figure, path: Path) -> None:
    """Write a figure, all or nothing, in the format that its suffix names.

    Raises
    ------
    UserError
        It cannot be written.
    """
    form = path.suffix.removeprefix(".").lower()
    # What would differ from run to run, or from one matplotlib to the next, is left out.
    undated = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with whole_file(path, kind_of_name(path, list(FIGURES))) as stream:
        figure.savefig(stream, format=form, dpi=200, metadata=undated[form])
