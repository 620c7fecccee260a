"""The front of cases on shared dies: what may count, its numbers, its table, its figure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from mcage.costs.energy import area, protection_area
from mcage.errors import UserError
from mcage.plain_text import shown, visible
from mcage.protection.policy import protection
from mcage.random import stream
from mcage.report import tables
from mcage.report.cases import Condition, axes_of
from mcage.report.comparison import on_common_instances
from mcage.report.presentation import chosen_cases
from mcage.results.axes import (
    Axis,
    Point,
    Value,
    identity,
    label_of,
    named_axes,
    said,
    without_label,
)
from mcage.results.differences import keys_of, refuse_unmeant
from mcage.results.header import Header
from mcage.results.measures import Case, Measure, available
from mcage.results.reader import open_results, read_header
from mcage.results.variable import Better
from mcage.spec.cost_constants import Technology
from mcage.spec.sections import costs_of
from mcage.stats.estimates import (
    CONFIDENCE,
    DASH,
    Estimate,
    Floats,
    known_name,
    life,
    percent,
    plus_minus,
)
from mcage.stats.pareto import Integers, dominators, front, front_shares, group_means
from mcage.techniques import TECHNIQUES

STREAM = "pareto.resamples"
"""Name of the random numbers that draw dies."""

DIES = ("faults", "registers.geometry")
"""Keys of the spec, and sections, without which instances of the same id are not the same die."""

RESAMPLES = 1000
"""How often dies are drawn with replacement, unless the user says otherwise."""

LIKELY = 1.0 - CONFIDENCE
"""Probability from which a case is shown to people unasked."""


# Objectives of cases: measures, variables and numbers of their study, and the area.

DIRECTIONS: dict[str, Better] = {"min": "less", "max": "more"}
"""Better direction, by the word that follows a colon."""


@lru_cache(maxsize=1024)
def added_area(technique: str, guard: str, technology: Technology) -> float:
    """Area of what a technique and its protection add, as a fraction of that of the slice.

    Parameters
    ----------
    technique, guard : str
        Technique and protection as files have them, such as ``rrcd`` and ``ecp1``.
    technology : Technology
        Constants of the components.

    Returns
    -------
    float
        NaN where nobody knows: of a technique that does not ship with mcage, whose module is not
        imported because a file names it.
    """
    if technique not in TECHNIQUES:
        return math.nan
    added = sum(protection_area(protection(guard), technology, technology.geometry).values())
    return area(TECHNIQUES[technique], technology).overhead + added / technology.slice.area_mm2


@lru_cache(maxsize=8)
def _technology(spec_toml: str) -> Technology:
    return costs_of(spec_toml).of_technology


def _area(case: Case) -> float:
    """Area that the technique of a case adds; NaN where constants are of another slice."""
    # Where constants are of another slice, no slice of any case has a power either.
    parts = (case, case.along("case"))
    if not any(np.isfinite(part["conventional_power_mw"]).any() for part in parts):
        return math.nan
    return added_area(str(case["technique"]), str(case["protection"]), _technology(case.spec_toml))


AREA = Measure(
    "area",
    "area added [% of the slice]",
    ("technique", "protection", "conventional_power_mw"),
    _area,
    kind="number",
    better="less",
)
"""Further costs of a case, where its technique and the constants of its costs are known."""


def _is_mean(measure: Measure) -> bool:
    """Whether a measure is a mean over instances, which can be resampled."""
    is_other = measure.estimator is not None or measure.quantile is not None
    return measure.kind in ("mean", "share") and not is_other


def _measures(header: Header) -> list[Measure]:
    """Measures of a file that are objectives: means of which less, or more, is better."""
    labels = [coordinate.variable.name for coordinate in header.coordinates]
    names = [*labels, *(variable.name for variable in header.variables)]
    measures = [measure for measure in header.measures if measure.better and _is_mean(measure)]
    return list(available([*measures, AREA], names))


def _numbers(header: Header) -> Iterator[Measure]:
    """Numbers of each case of a file, and of each instance of it."""
    better = {axis.name: axis.better for axis in header.axes}
    labels = [coordinate.variable for coordinate in header.coordinates]
    for variable in (*header.variables, *labels):
        dims = {*variable.dims} - {"instance"}
        if dims and dims <= {*header.case_dims} and variable.dtype != "text" and not variable.flags:
            yield Measure(
                variable.name,
                variable.long_name + f" [{variable.units}]" * (variable.units != "1"),
                kind="mean" if "instance" in variable.dims else "number",
                scale=1.0,
                better=better.get(variable.name, ""),
            )


def _known(header: Header) -> dict[str, Measure]:
    """All objectives of a file by key."""
    measures = _measures(header)
    # A variable is none beside the measure that is its mean; and ages of which quantiles are
    # estimated have no mean, since they may lie beyond the horizon.
    means = (m for m in measures if m.values is None)
    quantiles = (m for m in header.measures if m.quantile is not None)
    taken = {name for m in (*means, *quantiles) for name in m.variables}
    taken |= {measure.key for measure in measures}
    numbers = [number for number in _numbers(header) if number.key not in taken]
    return {objective.key: objective for objective in (*measures, *numbers)}


def objective(header: Header, text: str) -> Measure:
    """Objective as it is named on the command line: ``NAME``, ``NAME:min`` or ``NAME:max``.

    Parameters
    ----------
    header : Header
        Header of a results file.
    text : str
        Key of an objective or its beginning, if only one key begins so; after a colon, which of
        two values is better.

    Returns
    -------
    Measure
        A mean over instances, or a number of the case; always with a direction.

    Raises
    ------
    UserError
        There is no such objective, several are meant, or it is not known what is better.
    """
    name, colon, direction = text.partition(":")
    known = _known(header)
    if colon and direction not in DIRECTIONS:
        raise UserError(f"--objective {shown(text)}: after the colon, min or max is needed")
    name = known_name(name.strip(), known)
    meant = [name] if name in known else [key for key in known if name and key.startswith(name)]
    if len(meant) != 1:
        others = [m.key for m in header.measures if not _is_mean(m)]
        why = "there are several such" if meant else "there is no such"
        if name and not meant and any(key.startswith(name) for key in others):
            why = "is no mean over instances, as which objectives are resampled"
        raise UserError(
            f"--objective {shown(text)}: {why}; choose from {', '.join(meant or known)}"
        )
    chosen = known[meant[0]]
    if direction:
        return replace(chosen, better=DIRECTIONS[direction])
    if not chosen.better:
        raise UserError(
            f"--objective {shown(text)}: say what is better, {chosen.key}:min or {chosen.key}:max"
        )
    return chosen


def default_objectives(header: Header) -> Sequence[str]:
    """Keys of the objectives of a study; none of one with a single case."""
    if not header.case_dims:
        return ()
    return header.objectives or [measure.key for measure in _measures(header)]


def objectives(header: Header, texts: Sequence[str]) -> tuple[Measure, ...]:
    """Objectives of these names, at least two; if there are none, those of the study.

    Parameters
    ----------
    header : Header
        Header of a results file.
    texts : sequence of str
        As `objective` takes them. By default those that the class of the header names, or else all
        measures of the study that are objectives.

    Raises
    ------
    UserError
        As `objective`; or one stands twice, or alone, or the study has a single case, or no two
        measures with a direction.
    """
    if not header.case_dims:
        raise UserError(f"the study {shown(header.study)} has a single case: a front is of several")
    default = default_objectives(header)
    if not texts and len(default) < 2:
        raise UserError(
            f"the study {shown(header.study)} has no two measures of which is known what is "
            f"better: say two with --objective NAME:min or NAME:max, of {', '.join(_known(header))}"
        )
    chosen = tuple(objective(header, text) for text in texts or default)
    keys = [of.key for of in chosen]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise UserError(f"--objective {twice}: is given twice")
    if len(chosen) < 2:
        raise UserError(
            f"--objective {keys[0]}: a front needs two objectives or more; for one, sort the table "
            "of mcage show"
        )
    return chosen


# The numbers of a front.


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
        Its values on the axes of its study.
    horizon_years : float
        End of the simulated time; NaN where results have no ages.
    instances : int
        Instances.
    worked : int
        Those that worked at all; NaN of studies without lives.
    objectives : dict of str to Estimate
        Each objective by its key; without bounds (NaN) what does not depend on instances.
    on_front : bool
        Whether no other case dominates it, by the values.
    front_probability : float
        Share of the resamples in which no other case dominates it.
    dominated_by : str
        Label of the case on the front that dominates it and is there most often; empty if it is on
        the front itself, or has no value of some objective.
    dominator : Point, optional
        That case.
    """

    file: Path
    label: str
    point: Point
    horizon_years: float
    instances: int
    worked: float
    objectives: dict[str, Estimate]
    on_front: bool
    front_probability: float
    dominated_by: str
    dominator: Point | None

    def as_line(self) -> dict[str, Any]:
        """Its fields, with its values on the axes beside the others."""
        line: dict[str, Any] = {}
        for name, value in vars(self).items():
            line |= dict(self.point) if name == "point" else {name: value}
        del line["dominator"]
        return line | {"file": str(self.file)}


@dataclass(frozen=True)
class Front:
    """Cases of results files, and which of them no other dominates.

    Parameters
    ----------
    objectives : tuple of Measure
        By what.
    axes : tuple of Axis
        What cases may differ by.
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

    objectives: tuple[Measure, ...]
    axes: tuple[Axis, ...]
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
        """Population of the numbers: how many instances, and of how many chips."""
        chips = f" of {self.groups:,} chips" if self.groups < self.instances else ""
        return f"{self.instances:,} instances per case{chips}"

    def as_json(self) -> dict[str, Any]:
        """The front as plain values."""
        from mcage.stats.estimates import plain

        fields: dict[str, Any] = plain(
            {name: of for name, of in vars(self).items() if name not in ("objectives", "axes")}
            | {"designs": [design.as_line() for design in self.designs]}
        )
        named = [{"key": o.key, "name": o.name, "better": o.better} for o in self.objectives]
        return {"objectives": named} | fields


def front_of_files(
    paths: Sequence[Path],
    names: Sequence[str] = (),
    where: Sequence[Condition] = (),
    allowed: Sequence[str] = (),
    resamples: int = 1000,
) -> Front:
    """The front of the cases of results files whose dies are the same.

    Parameters
    ----------
    paths : sequence of Path
        Results files of a study, at least one.
    names : sequence of str
        By what cases are compared, as `objectives` takes it.
    where : sequence of Condition
        What cases must fulfil.
    allowed : sequence of str
        Keys of the specs, or sections, that are meant to differ from file to file.
    resamples : int
        How often dies are drawn with replacement.

    Raises
    ------
    UserError
        A file cannot be read, files are of several studies, dies are not shared, specs differ in
        what is not allowed, there is no such objective, or no case has a value of it.
    """
    if twice := next((path for path in paths if list(paths).count(path) > 1), None):
        raise UserError(f"{twice}: is named twice")
    headers = {path: read_header(path) for path in paths}
    differs = _checked(headers, allowed)
    chosen = objectives(headers[paths[0]], names)
    with ExitStack() as files:
        opened = [files.enter_context(open_results(path)) for path in paths]
        opened = on_common_instances(opened, paths)
        cases = [
            case
            for (path, header), results in zip(headers.items(), opened, strict=True)
            for case in _values_of_cases(path, header, results, where, chosen)
        ]
        ids = opened[0]["instance"].values
        declared = {axis.name: axis for axis in axes_of(opened[0])}
    axes = tuple(declared.get(of, Axis(of, of)) for of in without_label(cases[0].point))
    _require_shared(cases, axes, differs)
    differ = tuple(f"{path}: {of}" for path, differences in differs.items() for of in differences)
    for of, values in zip(chosen, zip(*(case.values for case in cases), strict=True), strict=True):
        if np.isnan(np.array(values)).all():
            raise UserError(
                f"{', '.join(map(str, paths))}: {of.key}: no case has a value of it; choose other "
                "objectives with --objective"
            )
    groups = ids // max(header.dependent_instances for header in headers.values())
    seed = headers[paths[0]].seed
    return replace(_front(cases, chosen, axes, groups, seed, resamples), differs=differ)


def fronts_of(header: Header, results: xr.Dataset) -> dict[str, Front] | str:
    """Fronts of the cases of a file by the objectives of its study, one for each scenario.

    Parameters
    ----------
    header : Header
        Its header.
    results : xarray.Dataset
        Its results, or some of its cases or instances.

    Returns
    -------
    dict of str to Front, or str
        Fronts by scenario, of which others have other dies; or why there is none, in a sentence.
    """
    chosen, axes = objectives(header, ()), axes_of(results)
    cases = list(_values_of_cases(Path(), header, results, (), chosen))
    known = [
        not np.isnan(np.array(of)).all()
        for of in zip(*(case.values for case in cases), strict=True)
    ]
    if sum(known) < 2:
        unknown = ", ".join(of.title for of, is_it in zip(chosen, known, strict=True) if not is_it)
        return f"No case has a value of: {unknown}."
    chosen = tuple(of for of, is_it in zip(chosen, known, strict=True) if is_it)
    by_scenario: dict[str, list[_Values]] = {}
    for case in cases:
        values = [of for of, is_it in zip(case.values, known, strict=True) if is_it]
        of_scenario = by_scenario.setdefault(str(case.point.get("scenario", "")), [])
        of_scenario.append(case._replace(values=values))
    groups = results["instance"].values // header.dependent_instances
    several = len(by_scenario) > 1
    return {
        scenario * several: _front(of, chosen, axes, groups, header.seed, RESAMPLES)
        for scenario, of in by_scenario.items()
    }


def _front(
    cases: "Sequence[_Values]",
    chosen: tuple[Measure, ...],
    axes: tuple[Axis, ...],
    groups: Integers,
    seed: int,
    resamples: int,
) -> Front:
    """The front of cases whose instances are the same dies; `groups` of them are independent."""
    samples = [np.array(of) for of in zip(*(case.values for case in cases), strict=True)]
    horizon = max(case.horizon_years for case in cases)
    estimates = [_estimates(o, of, groups, horizon) for o, of in zip(chosen, samples, strict=True)]
    # As the front knows objectives, less is better of all.
    signs = [-1.0 if of.better == "more" else 1.0 for of in chosen]
    signed = [sign * of for sign, of in zip(signs, samples, strict=True)]
    points = np.stack(
        [sign * value for sign, (value, _, _) in zip(signs, estimates, strict=True)], axis=1
    )
    shares = front_shares(signed, groups, resamples, stream(seed, STREAM, 0))
    on_front, dominator = front(points), dominators(points, shares)
    designs = tuple(
        Design(
            file=case.path,
            label=said(case.point),
            point=without_label(case.point),
            horizon_years=case.horizon_years,
            instances=len(groups),
            worked=case.worked,
            objectives={
                o.key: Estimate(*(float(bound[place]) for bound in bounds))
                for o, bounds in zip(chosen, estimates, strict=True)
            },
            on_front=bool(on_front[place]),
            front_probability=float(shares[place]),
            dominated_by=said(best.point) if best else "",
            dominator=best and best.point,
        )
        for place, case in enumerate(cases)
        for best in (cases[dominator[place]] if dominator[place] >= 0 else None,)
    )
    return Front(chosen, axes, designs, len(groups), len(np.unique(groups)), resamples)


def _checked(headers: Mapping[Path, Header], allowed: Sequence[str]) -> dict[Path, tuple[str, ...]]:
    """In what the spec of each file differs from that of the first.

    Raises
    ------
    UserError
        Studies differ, dies are not shared, or a difference is not allowed.
    """
    first, *others = headers
    differs: dict[Path, tuple[str, ...]] = {first: ()}
    for other in others:
        pair = headers[first], headers[other]
        if pair[0].study != pair[1].study:
            studies = " and ".join(shown(header.study) for header in pair)
            raise UserError(f"{first} and {other} hold the studies {studies}: a front is of one")
        if pair[0].seed != pair[1].seed:
            raise UserError(
                f"{first} and {other} share no dies: their seeds are {pair[0].seed} and "
                f"{pair[1].seed}"
            )
        differences = pair[0].differences(pair[1])
        for of in differences:
            if any(f".{key}." in f".{of.key}." for key in DIES):
                raise UserError(f"{first} and {other} share no dies: the specs differ in {of}")
        try:
            refuse_unmeant(differences, allowed, keys_of(*(of.spec_toml for of in pair)))
        except UserError as error:
            raise UserError(f"{first} and {other}: {error}") from error
        differs[other] = tuple(map(str, differences))
    return differs


class _Values(NamedTuple):
    """Objectives of a case of a file on the common instances.

    ``values`` has those of each objective, float64[instance]; of numbers of the case, float64.
    """

    path: Path
    point: Mapping[str, Value]
    horizon_years: float
    worked: float
    values: list[Floats]


def _values_of_cases(
    path: Path,
    header: Header,
    results: xr.Dataset,
    where: Sequence[Condition],
    chosen: Sequence[Measure],
) -> Iterator[_Values]:
    """Read the cases of a file that take part."""
    needed = {name: of.key for of in chosen for name in of.variables}
    lacking = [name for name in needed if name not in results.variables]
    if lacking:
        raise UserError(f"{path}: {needed[lacking[0]]}: the file lacks {', '.join(lacking)}")
    lives = {"life_years"} & set(results.variables)
    try:
        for point, case in chosen_cases(results, header.case_dims, {*needed, *lives}, where):
            worked = int((case["life_years"] > 0).sum()) if lives else math.nan
            values = [of.of(case.further(**{of.axis: -1}) if of.axis else case) for of in chosen]
            yield _Values(path, point, case.horizon_years, worked, values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _require_shared(
    cases: Sequence[_Values], axes: Sequence[Axis], differs: Mapping[Path, tuple[str, ...]]
) -> None:
    """Refuse cases of several scenarios, which have other dies; and a case that stands twice."""
    points = [case.point for case in cases]
    scenarios = dict.fromkeys(str(of["scenario"]) for of in points if "scenario" in of)
    if len(scenarios) > 1:
        raise UserError(
            f"cases of the scenarios {', '.join(scenarios)} share no dies; choose one of them: "
            f"--where scenario={next(iter(scenarios))}"
        )
    holder: dict[tuple[frozenset[tuple[str, Value]], tuple[str, ...]], Path] = {}
    for path, point, *_ in cases:
        key = identity(point, axes), differs[path]
        if (other := holder.setdefault(key, path)) != path:
            raise UserError(f"{other} and {path} both hold the case {visible(said(point))!r}")


def _estimates(
    objective: Measure, values: Floats, groups: Integers, horizon_years: float
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
    title = f"{on_front:,} of {count:,} cases on the front, {result.population}"
    horizons = [of.horizon_years for of in result.designs if not math.isnan(of.horizon_years)]
    if horizons:
        title += f", horizon {tables.span(horizons)} years"
    better = "; ".join(
        f"{o.key}{f' at the last {o.axis}' * bool(o.axis)}: {o.better} is better"
        for o in result.objectives
    )
    lines = [design.as_line() | {"on_front": int(design.on_front)} for design in designs]
    if len(result.files) == 1:
        lines = [{key: of for key, of in line.items() if key != "file"} for line in lines]
    caption = (
        f"{CONFIDENCE:.0%} intervals; {better}; on the front: no other case is as good in all of "
        f"it and better in some of it; probability: share of {result.resamples:,} resamples of the "
        "instances in which it is so"
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
            *(
                # Lines are in the order of their probability, in which groups are torn apart.
                replace(column, groups=column.groups and len(set(column.cells)) == 1)
                for column in tables.columns_of_cases(result.axes, lines)
                if column.key not in {objective.key for objective in result.objectives}
            ),
            *(_column(objective, designs) for objective in result.objectives),
            tables.column(lines, "on_front", "on the\nfront", lambda of: "yes" if of else DASH),
            tables.column(lines, "front_probability", "probability", percent, primary=True),
            *([_dominators(result, names)] if everything else []),
        ),
    )


def _column(objective: Measure, designs: Sequence[Design]) -> tables.Column:
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
    return tables.Column(
        objective.key, objective.name.replace(" [", "\n["), tuple(cells), primary=True
    )


def _dominators(result: Front, names: Mapping[str, str]) -> tables.Column:
    """Column that says which case dominates each."""
    shown = named_axes(result.axes, [design.point for design in result.designs])
    cells = tuple(
        tables.Cell(
            label_of(d.dominator, shown, names) if d.dominator else DASH, d.dominated_by or None
        )
        for d in result.designs
    )
    return tables.Column("dominated_by", "dominated by", cells, justify="left")
