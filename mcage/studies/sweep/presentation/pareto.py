"""The front of the cases of sweeps on shared dies: its numbers, its table."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.plain_text import shown, visible
from mcage.random import stream
from mcage.report import tables
from mcage.report.cases import Condition, axes_of, points_of, selected_cases
from mcage.report.notes import caveats_of
from mcage.results.axes import (
    Axis,
    Point,
    Value,
    differing,
    identity,
    label_of,
    said,
    without_label,
)
from mcage.results.differences import keys_of, refuse_unmeant
from mcage.results.header import Header
from mcage.results.reader import open_results, read_header
from mcage.spec.sections import costs_of
from mcage.stats.estimates import CONFIDENCE, DASH, Estimate, Floats, life, percent, plus_minus
from mcage.stats.pareto import Integers, dominators, front, front_shares, group_means
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.objectives import Objective
from mcage.studies.sweep.presentation.summary import columns_of_cases

if TYPE_CHECKING:
    from mcage.report.figures.canvas import ReportFigure

STREAM = "pareto.resamples"
"""Name of the random numbers that draw dies."""

DIES = ("faults", "registers.geometry")
"""Keys of the spec, and sections, without which instances of the same id are not the same die."""

DRAWN = ("area", "energy_saving_of_all")
"""Objectives along the axes of the figure, where the user names none."""

LIKELY = 1.0 - CONFIDENCE
"""Probability from which a case is shown to people unasked."""


@dataclass(frozen=True)
class Design:
    """A case among others on the same dies.

    Parameters
    ----------
    file : Path
        Its results file.
    label : str
        Its label.
    point : Point
        Its values on the axes of a sweep.
    horizon_years : float
        End of the simulated time.
    instances, worked : int
        Instances, and those that worked at all.
    objectives : dict of str to Estimate
        Each objective by its key; without bounds (NaN) what does not depend on instances.
    on_front : bool
        Whether no other case dominates it, by the values.
    front_probability : float
        Share of the resamples in which no other case dominates it.
    dominated_by : str
        Label of the case on the front that dominates it and is there most often; empty if it is on
        the front itself, or has no value of some objective.
    """

    file: Path
    label: str
    point: Point
    horizon_years: float
    instances: int
    worked: int
    objectives: dict[str, Estimate]
    on_front: bool
    front_probability: float
    dominated_by: str

    def as_line(self) -> dict[str, Any]:
        """Its fields, with its values on the axes beside the others."""
        line: dict[str, Any] = {}
        for name, value in vars(self).items():
            line |= dict(self.point) if name == "point" else {name: value}
        return line | {"file": str(self.file)}


@dataclass(frozen=True)
class Front:
    """Cases of results files, and which of them no other dominates.

    Parameters
    ----------
    objectives : tuple of Objective
        By what.
    designs : tuple of Design
        All cases, in the order of the files.
    instances, groups : int
        Instances of each case, and how many groups of them are independent: chips, where slices
        share dies, else instances.
    resamples : int
        Number of resamples.
    differs : tuple of str
        In what the specs differ, of several files.
    """

    objectives: tuple[Objective, ...]
    designs: tuple[Design, ...]
    instances: int
    groups: int
    resamples: int
    differs: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the cases."""
        return tuple(dict.fromkeys(design.file for design in self.designs))

    @property
    def population(self) -> str:
        """Of how many dies numbers are."""
        chips = f" of {self.groups:,} chips" if self.groups < self.instances else ""
        return f"{self.instances:,} instances per case{chips}"

    def as_json(self) -> dict[str, Any]:
        """The front as plain values."""
        from mcage.stats.estimates import plain

        fields: dict[str, Any] = plain(
            {name: value for name, value in vars(self).items() if name != "objectives"}
            | {"designs": [design.as_line() for design in self.designs]}
        )
        named = [{"key": o.key, "name": o.name, "better": o.better} for o in self.objectives]
        return {"objectives": named} | fields


def front_of_files(
    paths: Sequence[Path],
    objectives: tuple[Objective, ...],
    where: Sequence[Condition] = (),
    allowed: Sequence[str] = (),
    resamples: int = 1000,
) -> Front:
    """The front of the cases of results files whose dies are the same.

    Parameters
    ----------
    paths : sequence of Path
        Results files of sweeps, at least one.
    objectives : tuple of Objective
        By what cases are compared, at least two.
    where : sequence of Condition
        What cases must fulfil.
    allowed : sequence of str
        Keys of the specs, or sections, that are meant to differ from file to file.
    resamples : int
        How often dies are drawn with replacement.

    Raises
    ------
    UserError
        A file cannot be read or is of no sweep, dies are not shared, specs differ in what is not
        allowed, or no case has a value of some objective.
    """
    if twice := next((path for path in paths if list(paths).count(path) > 1), None):
        raise UserError(f"{twice}: is named twice")
    headers = {path: read_header(path) for path in paths}
    differs = _checked(headers, allowed)
    with ExitStack() as files:
        opened = {path: files.enter_context(open_results(path)) for path in paths}
        ids = _common_ids(opened)
        parts = {path: _part(path, results, ids, where) for path, results in opened.items()}
        _require_shared(parts, differs)
        samples = [_samples(parts, objective) for objective in objectives]
        worked = np.concatenate(
            [(part["life_years"].values > 0).sum(axis=1) for part in parts.values()]
        )
    group = max(header.dependent_instances for header in headers.values())
    groups = ids // group
    of_cases = [
        (path, point, float(part["epoch_end_years"][-1]))
        for path, part in parts.items()
        for point in points_of(part)
    ]
    horizon = max(horizon for _, _, horizon in of_cases)
    estimates = [
        _estimates(o, of, groups, horizon) for o, of in zip(objectives, samples, strict=True)
    ]
    signed = [o.sign * of for o, of in zip(objectives, samples, strict=True)]
    points = np.stack(
        [o.sign * value for o, (value, _, _) in zip(objectives, estimates, strict=True)], axis=1
    )
    seed = headers[paths[0]].seed
    shares = front_shares(signed, groups, resamples, stream(seed, STREAM, 0))
    on_front, dominator = front(points), dominators(points, shares)
    designs = tuple(
        Design(
            file=path,
            label=said(point),
            point=without_label(point),
            horizon_years=horizon_years,
            instances=len(ids),
            worked=int(worked[place]),
            objectives={
                o.key: Estimate(*(float(bound[place]) for bound in bounds))
                for o, bounds in zip(objectives, estimates, strict=True)
            },
            on_front=bool(on_front[place]),
            front_probability=float(shares[place]),
            dominated_by=said(of_cases[dominator[place]][1]) if dominator[place] >= 0 else "",
        )
        for place, (path, point, horizon_years) in enumerate(of_cases)
    )
    differ = tuple(f"{path}: {of}" for path, differences in differs.items() for of in differences)
    return Front(objectives, designs, len(ids), len(np.unique(groups)), resamples, differ)


def _checked(headers: Mapping[Path, Header], allowed: Sequence[str]) -> dict[Path, tuple[str, ...]]:
    """In what the spec of each file differs from that of the first.

    Raises
    ------
    UserError
        Dies are not shared, or a difference is not allowed.
    """
    first, *others = headers
    for path, header in headers.items():
        if header.study != "sweep":
            raise UserError(f"{path} holds the study {shown(header.study)}: a front is of sweeps")
    differs: dict[Path, tuple[str, ...]] = {first: ()}
    for other in others:
        pair = headers[first], headers[other]
        if pair[0].seed != pair[1].seed:
            raise UserError(
                f"{first} and {other} share no dies: their seeds are {pair[0].seed} and "
                f"{pair[1].seed}"
            )
        differences = pair[0].differences(pair[1])
        for of in differences:
            if any(f"{of.key}.".startswith(f"{key}.") for key in DIES):
                raise UserError(f"{first} and {other} share no dies: the specs differ in {of}")
        try:
            refuse_unmeant(differences, allowed, keys_of(*(of.spec_toml for of in pair)))
        except UserError as error:
            raise UserError(f"{first} and {other}: {error}") from error
        differs[other] = tuple(map(str, differences))
    return differs


def _common_ids(opened: Mapping[Path, xr.Dataset]) -> Integers:
    """Ids of the instances that all files hold, rising."""
    first, *others = opened
    ids: Integers = opened[first]["instance"].values
    for other in others:
        ids = np.intersect1d(ids, opened[other]["instance"].values, assume_unique=True)
        if not ids.size:
            raise UserError(f"{first} and {other} share no dies: no instance is in both")
    return ids


def _part(path: Path, results: xr.Dataset, ids: Integers, where: Sequence[Condition]) -> xr.Dataset:
    """Cases and instances of a file that take part."""
    try:
        part = selected_cases(results, where)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    if ids.size < part.sizes["instance"]:
        part = part.isel(instance=np.searchsorted(part["instance"].values, ids))
    return part


def _require_shared(
    parts: Mapping[Path, xr.Dataset], differs: Mapping[Path, tuple[str, ...]]
) -> None:
    """Refuse cases of several scenarios, which have other dies; and a case that stands twice."""
    scenarios = dict.fromkeys(
        name for part in parts.values() for name in part["scenario"].values.tolist()
    )
    if len(scenarios) > 1:
        raise UserError(
            f"cases of the scenarios {', '.join(scenarios)} share no dies; choose one of them: "
            f"--where scenario={next(iter(scenarios))}"
        )
    holder: dict[tuple[frozenset[tuple[str, Value]], tuple[str, ...]], Path] = {}
    for path, part in parts.items():
        for point in points_of(part):
            key = identity(point, axes_of(part)), differs[path]
            if (other := holder.setdefault(key, path)) != path:
                raise UserError(f"{other} and {path} both hold the case {visible(said(point))!r}")


def _samples(parts: Mapping[Path, xr.Dataset], objective: Objective) -> Floats:
    """Values of an objective: float64[case, instance], or [case]."""
    values = np.concatenate(
        [
            objective.values(part, costs_of(part.attrs["spec"]).of_technology)
            for part in parts.values()
        ]
    )
    if np.isnan(values).all():
        raise UserError(
            f"{', '.join(map(str, parts))}: {objective.key}: no case has a value of it; choose "
            "other objectives with --objective"
        )
    return values


def _estimates(
    objective: Objective, values: Floats, groups: Integers, horizon_years: float
) -> tuple[Floats, Floats, Floats]:
    """Value of an objective in each case, and its bounds: NaN where there are none."""
    if values.ndim == 1:
        return values, np.full_like(values, np.nan), np.full_like(values, np.nan)
    return group_means(values, groups, objective.within(horizon_years))


# The table of a front, for people and for programs.


def table_of(result: Front, names: Mapping[str, str], everything: bool) -> tables.ResultTable:
    """Table of the cases of a front.

    Parameters
    ----------
    result : Front
        The front.
    names : mapping of str to str
        Names of techniques for people, as `mcage.report.cases.names_for` returns them.
    everything : bool
        Whether it has all cases in the order of the files; otherwise those that may be on the
        front, the most probable first.
    """
    designs = list(result.designs)
    if not everything:
        designs = [d for d in designs if d.on_front or d.front_probability >= LIKELY]
        designs.sort(key=lambda design: -design.front_probability)
    count, on_front = len(result.designs), sum(design.on_front for design in result.designs)
    horizon = tables.span([design.horizon_years for design in result.designs])
    title = (
        f"{on_front:,} of {count:,} cases on the front, {result.population}, horizon {horizon} "
        "years"
    )
    better = "; ".join(f"{o.key}: {o.better} is better" for o in result.objectives)
    caption = (
        f"{CONFIDENCE:.0%} intervals; {better}; on the front: no other case is as good in all of "
        f"it and better in some of it; probability: share of {result.resamples:,} resamples of the "
        "dies in which it is so"
    )
    if len(designs) < count:
        caption += (
            f"; {count - len(designs):,} cases with less than {percent(LIKELY)} are left out, "
            "--all shows them"
        )
    return tables.ResultTable(
        title="\n".join([title, *(f"  differs: {of}" for of in result.differs)]),
        caption=caption,
        columns=(
            *tables.file_column([d.file for d in designs] if len(result.files) > 1 else ()),
            *(
                # Lines are in the order of their probability, in which groups are torn apart.
                replace(column, groups=column.groups and len(set(column.cells)) == 1)
                for column in columns_of_cases([design.as_line() for design in designs])
            ),
            *(_column(objective, designs) for objective in result.objectives),
            tables.numbers(
                "on_front",
                "on the\nfront",
                [int(design.on_front) for design in designs],
                lambda here: "yes" if here else DASH,
            ),
            tables.numbers(
                "front_probability",
                "probability",
                [design.front_probability for design in designs],
                percent,
                primary=True,
            ),
            *_dominators(designs, names, everything),
        ),
    )


def _column(objective: Objective, designs: Sequence[Design]) -> tables.Column:
    """Column of an objective."""
    cells = []
    for design in designs:
        of = design.objectives[objective.key]
        if objective.form == "age":
            text = life(of, design.horizon_years)
        elif np.isnan(of.lower) and not np.isnan(of.value):
            text = f"{of.value * objective.scale:.4g}"
        else:
            text = plus_minus(of, objective.scale)
        cells.append(tables.Cell(text, *vars(of).values()))
    return tables.Column(objective.key, objective.heading, tuple(cells), primary=True)


def _dominators(
    designs: Sequence[Design], names: Mapping[str, str], everything: bool
) -> tuple[tables.Column, ...]:
    """Column that says which case dominates each, where there are such."""
    if not everything:
        return ()
    cells = tuple(
        tables.Cell(tables.renamed(d.dominated_by, names) or DASH, d.dominated_by or None)
        for d in designs
    )
    return (tables.Column("dominated_by", "dominated by", cells, justify="left"),)


# The figure of a front.


def figure_of(result: Front, names: Mapping[str, str], x: str = "", y: str = "") -> "ReportFigure":
    """Draw the cases of a front by two objectives, on the width of a page.

    Parameters
    ----------
    result, names
        As of `table_of`.
    x, y : str
        Keys of the objectives along the axes; by default area and energy, or else the first.
    """
    from mcage.report.figures.canvas import WIDTHS_MM, Sheet
    from mcage.report.figures.pareto import Axis as Scale
    from mcage.report.figures.pareto import draw

    designs = result.designs
    several = differing(SweepHeader.axes, [design.point for design in designs])
    beside = [axis for axis in several if axis.named == "differing" and not axis.derived]
    there = {objective.key: objective for objective in result.objectives}
    y = y or next(key for key in (DRAWN[1], *there) if key in there and key != x)
    x = x or next(key for key in (DRAWN[0], *there) if key in there and key != y)
    axes = []
    for objective in (there[y], there[x]):
        bounds = [
            objective.scale
            * np.array([getattr(d.objectives[objective.key], bound) for d in designs])
            for bound in ("value", "lower", "upper")
        ]
        axes.append(Scale(f"{objective.name}, {objective.better} is better", *bounds))
    headers = [read_header(path) for path in result.files]
    caveats = dict.fromkeys(
        visible(line) for header in headers for line in caveats_of(header, heeds_dies=True)
    )
    shown = tuple(names.values())
    return draw(
        axes,
        [_series(design, beside, names) for design in designs],
        np.array([design.front_probability for design in designs]),
        np.array([design.on_front for design in designs]),
        [f"{design.point['vdd_volts']:g} V" for design in designs],
        Sheet(max(WIDTHS_MM), result.population, tuple(caveats), names=shown),
    )


def _series(design: Design, beside: Sequence[Axis], names: Mapping[str, str]) -> str:
    """Technique of a case for people, and what else tells it from others."""
    technique = str(design.point["technique"])
    others = label_of(design.point, beside)
    return visible(f"{names.get(technique, technique)} {others}".strip())
