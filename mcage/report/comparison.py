"""Results files compared case by case: on the same dies die by die, and otherwise mean by mean."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report import tables
from mcage.report.cases import Condition, axes_of, lives_of, places_where, points_of
from mcage.results.axes import (
    CASE,
    Axis,
    Point,
    find_point,
    identity,
    label_of,
    named_axes,
    said,
    without_label,
)
from mcage.results.differences import Difference, keys_of, refuse_unmeant
from mcage.results.header import OLDEST_STUDY, Header, header_class
from mcage.results.measures import Measure
from mcage.results.reader import open_results, read_header
from mcage.stats.estimates import CONFIDENCE, DASH, Estimate, Floats, plus_minus, with_bounds
from mcage.stats.paired import (
    ApartMeans,
    Outliving,
    PairedMeans,
    compare_apart,
    compare_means,
    outliving,
)


@dataclass(frozen=True)
class Line:
    """A quantity under two cases.

    Parameters
    ----------
    key, name : str
        Its name for programs and for people, with the unit.
    scale : float
        What makes a value that of the name's unit, such as 100 for percent of a fraction.
    means : PairedMeans or ApartMeans
        Its means.
    """

    key: str
    name: str
    scale: float
    means: PairedMeans | ApartMeans


@dataclass(frozen=True)
class Comparison:
    """Differences between two cases on the same dies.

    Lives are compared on all dies. Quantities that only a working slice has are compared on the
    dies that worked at all in both cases.

    Parameters
    ----------
    first, second : str
        Labels of the cases.
    instances : int
        Dies.
    horizon_years : float
        End of the simulated time.
    outliving : Outliving
        How often each case outlives the other.
    lines : list of Line
        The measures of the study that are compared, and those that are known by epoch also at the
        end of the last epoch that the die survives in both cases (``..._at_equal_age``).
    """

    first: str
    second: str
    instances: int
    horizon_years: float
    outliving: Outliving
    lines: list[Line]

    @property
    def means(self) -> dict[str, PairedMeans | ApartMeans]:
        """Means of the lines by key."""
        return {line.key: line.means for line in self.lines}


def compare(
    results: xr.Dataset, first: str, second: str, names: Mapping[str, str] | None = None
) -> Comparison:
    """Compare two cases of a results file.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    first, second : str
        Cases, as `mcage.results.axes.find_point` finds them.
    names : mapping of str to str, optional
        Names of techniques for people, which the cases then are called by.

    Raises
    ------
    UserError
        A name means no case or several, or both mean the same.
    """
    points, axes = points_of(results), axes_of(results)
    places = find_point(points, first, axes), find_point(points, second, axes)
    if places[0] == places[1]:
        raise UserError(
            f"{first!r} and {second!r} are both {said(points[places[0]])!r}: two are needed"
        )
    case, other = (results.isel(case=place) for place in places)
    lives, other_lives = lives_of(case), lives_of(other)
    shown = named_axes(axes, points)
    titles = [label_of(points[at], shown, names) if names else said(points[at]) for at in places]
    return Comparison(
        first=titles[0],
        second=titles[1],
        instances=lives.years.size,
        horizon_years=lives.horizon_years,
        outliving=outliving(lives.years, lives.died, other_lives.years, other_lives.died),
        lines=measured_lines(case, other, paired=True),
    )


def measured_lines(case: xr.Dataset, other: xr.Dataset, paired: bool) -> list[Line]:
    """Compare two cases in the measures that their study compares.

    Parameters
    ----------
    case, other : xarray.Dataset
        Cases of the same study.
    paired : bool
        Whether instances are compared one by one; they must be the same. Then what is known by
        epoch is compared at equal age, too, where both have the same epochs.
    """
    compare = compare_means if paired else compare_apart
    horizon = float(case["epoch_end_years"][-1]) if "epoch_end_years" in case else np.nan
    lines, aged = [], []
    for measure in compared_measures(case):
        first, second = (
            measure.of({name: of[name].values for name in measure.variables})
            for of in (case, other)
        )
        means = compare(first, second, within=measure.within(horizon))
        lines.append(Line(measure.key, measure.name, measure.scale, means))
        if measure.by_epoch and paired:
            aged += _at_equal_age(measure, *measure.by_epoch, case, other)
    return [*lines, *aged]


def _at_equal_age(
    measure: Measure, name: str, place: int, case: xr.Dataset, other: xr.Dataset
) -> list[Line]:
    """A measure at the last end of an epoch that a die survives in both cases."""
    ends, other_ends = case["epoch_end_years"].values, other["epoch_end_years"].values
    if not np.array_equal(ends, other_ends):
        return []
    lived = np.minimum(case["life_years"].values, other["life_years"].values)
    first, second = (_at_age(of[name].values[..., place], ends, lived) for of in (case, other))
    means = compare_means(first, second)
    words = measure.name.replace("at the end of life", "at equal age")
    return [Line(f"{measure.key}_at_equal_age", words, measure.scale, means)]


def compared_measures(results: xr.Dataset) -> list[Measure]:
    """Measures that a study compares; of none, all its variables are compared."""
    measures = header_class(str(results.attrs.get("study", OLDEST_STUDY))).measures
    return [measure for measure in measures if measure.compared]


def compare_in_file(
    path: Path, first: str, second: str, names: Mapping[str, str] | None = None
) -> Comparison:
    """Compare two cases of a results file, as `compare`.

    Raises
    ------
    UserError
        Also if the file is missing, foreign, damaged or of a newer mcage.
    """
    with open_results(path) as results:
        try:
            return compare(results, first, second, names)
        except UserError as error:
            raise UserError(f"{path}: {error}") from error


def _at_age(epoch_values: Floats, ends_years: Floats, age_years: Floats) -> Floats:
    """Values at the last end of an epoch that is not after an age: [instance].

    NaN where no epoch ends before.
    """
    epoch = np.searchsorted(ends_years, age_years, side="right") - 1
    values: Floats = epoch_values[np.arange(epoch.size), np.maximum(epoch, 0)]
    return np.where(epoch >= 0, values, np.nan)


# The table of a comparison: a line for each quantity of two cases, and what one gains.

NOTE = "dVth, spill rate, energy: on dies that worked at all under A and B"
"""Variables that the quantities of sweeps need."""

NOTE_ON_STUDIES = "lives are counted up to the horizon"
"""Variables that the quantities of other studies need."""


@dataclass(frozen=True)
class Pair:
    """Two cases as lines of a table.

    Parameters
    ----------
    case : str
        What both are called; empty if the title says it.
    lines : sequence of Line
        Their quantities.
    outliving : Outliving, optional
        How often each outlives the other, where they have the same dies.
    file : Path, optional
        File of the second, where several files are compared with the first.
    """

    case: str
    lines: Sequence[Line]
    outliving: Outliving | None = None
    file: Path | None = None


def table_of(comparison: Comparison) -> tables.ResultTable:
    """Table of two cases of sweeps: a line for each quantity, and how often each outlives."""
    return pairs_table(
        f"A: {comparison.first}\nB: {comparison.second}\n"
        + f"{comparison.instances} instances, horizon {comparison.horizon_years:g} years",
        [Pair("", comparison.lines, comparison.outliving)],
        NOTE,
    )


def pairs_table(title: str, pairs: Sequence[Pair], note: str = "") -> tables.ResultTable:
    """Table with a line for each quantity of some pairs of cases.

    Parameters
    ----------
    title : str
        What A and B are.
    pairs : sequence of Pair
        Pairs that have a line at least.
    note : str
        What must be known of the quantities.
    """
    lines = [(pair, line) for pair in pairs for line in pair.lines]
    caption = f"{CONFIDENCE:.0%} intervals"
    if any(isinstance(line.means, PairedMeans) for _, line in lines):
        caption += (
            ", die by die; common dies: as many times more dies would be needed if A and B had "
            "dies of their own"
        )
    of_lives = [pair for pair in pairs if pair.outliving is not None]
    return tables.ResultTable(
        title=title,
        caption=f"{caption}; {note}" if note else caption,
        columns=(
            *_columns_of([pair for pair, _ in lines]),
            tables.Column(
                "quantity",
                "mean over instances",
                tuple(tables.Cell(line.name, line.key) for _, line in lines),
                primary=True,
                justify="left",
            ),
            tables.Column("dies", "instances", tuple(_dies(line.means) for _, line in lines)),
            *(
                _column(key, heading, [line for _, line in lines], plus_minus)
                for key, heading in (("a", "A"), ("b", "B"), ("difference", "A - B"))
            ),
            _column("ratio", "A / B", [line for _, line in lines], with_bounds),
            tables.Column(
                "variance_reduction",
                "common\ndies",
                tuple(_gain(line.means) for _, line in lines),
            ),
        ),
        below=(_lives_table(of_lives),) if of_lives else (),
    )


def _columns_of(pairs: Sequence[Pair]) -> tuple[tables.Column, ...]:
    """Columns that say which pair a line is of, if there are several pairs."""
    files = [pair.file for pair in pairs if pair.file is not None]
    labels = [pair.case for pair in pairs]
    named = [{"case": label} for label in labels]
    return (
        *(tables.file_column(files) if len(set(files)) > 1 else ()),
        *((tables.column(named, "case", "case", groups=True),) if any(labels) else ()),
    )


def _column(
    key: str, heading: str, lines: Sequence[Line], write: Callable[[Estimate, float], str]
) -> tables.Column:
    """Column of estimates, each in the unit of its line."""
    attribute = {"a": "first", "b": "second"}.get(key, key)
    cells = []
    for line in lines:
        estimate: Estimate = getattr(line.means, attribute)
        scale = 1.0 if key == "ratio" else line.scale
        cells.append(tables.Cell(write(estimate, scale), *vars(estimate).values()))
    return tables.Column(key, heading, tuple(cells), primary=key != "ratio")


def _dies(means: PairedMeans | ApartMeans) -> tables.Cell:
    if isinstance(means, PairedMeans):
        return tables.Cell(str(means.dies), means.dies)
    text = f"{means.first_dies} and {means.second_dies}"
    return tables.Cell(text, text)


def _gain(means: PairedMeans | ApartMeans) -> tables.Cell:
    if isinstance(means, ApartMeans) or np.isnan(means.variance_reduction):
        return tables.Cell(DASH, None)
    return tables.Cell(f"× {means.variance_reduction:.3g}", means.variance_reduction)


def _lives_table(pairs: Sequence[Pair]) -> tables.ResultTable:
    """Table of how often each case outlives the other."""
    lives = [vars(pair.outliving) for pair in pairs if pair.outliving is not None]
    share = partial(tables.column, lives, write=lambda of: with_bounds(of, 100.0))
    return tables.ResultTable(
        title="Share of the instances",
        caption="p: sign test of the instances of which one lives longer; small if A and B can "
        "hardly be equally good",
        columns=(
            *_columns_of(pairs),
            share("first", "A lives\nlonger [%]", primary=True),
            share("second", "B lives\nlonger [%]", primary=True),
            share("together", "dead at the\nsame age [%]"),
            share("unknown", "both reach the\nhorizon [%]"),
            share("first_of_decided", "A, where one\nlives longer [%]"),
            tables.column(lives, "p_value", "p", "{:.2g}".format, primary=True),
        ),
    )


# Results files compared case by case: on the same dies where seeds match, otherwise apart.

OF_INSTANCES = "of the instances"
"""Name of what an instance has whatever the case."""

LISTED = 6
"""Cases that a title names of those that only one file has; `FileComparison` has all."""


@dataclass(frozen=True)
class FileComparison:
    """Cases that two results files have in common, compared.

    Parameters
    ----------
    first, second : str
        Paths of the files.
    study : str
        Study of both.
    seeds : tuple of int
        Their seeds.
    instances : tuple of int
        Number of instances that are compared, of each file.
    paired : bool
        Whether instances are compared one by one: seeds are equal, so that instance i has the same
        random numbers in both.
    differences : list of Difference
        In what the specs differ, besides cases and instances.
    only_first, only_second : list of str
        Cases that one file has alone.
    pairs : list of Pair
        Cases that both have.
    """

    first: str
    second: str
    study: str
    seeds: tuple[int, int]
    instances: tuple[int, int]
    paired: bool
    differences: list[Difference]
    only_first: list[str]
    only_second: list[str]
    pairs: list[Pair]


@dataclass(frozen=True)
class _Case:
    """A case of a file: by which it is selected and named, and its part of the file."""

    point: Point
    part: xr.Dataset

    @property
    def label(self) -> str:
        """The case for people."""
        return said(self.point) or OF_INSTANCES


def compare_files(
    first: Path, second: Path, allowed: Sequence[str] = (), where: Sequence[Condition] = ()
) -> FileComparison:
    """Compare the cases that two files have in common.

    Parameters
    ----------
    first, second : Path
        Results files of the same study.
    allowed : sequence of str
        Keys of the specs, or sections, that are meant to differ.
    where : sequence of Condition
        What cases must fulfil.

    Raises
    ------
    UserError
        The files hold other studies, their specs differ in what is not allowed, they have no case
        or no instance in common; or a file cannot be read.
    """
    headers = read_header(first), read_header(second)
    try:
        differences = _checked(headers, allowed)
    except UserError as error:
        raise UserError(f"{first} and {second}: {error}") from error
    paired = headers[0].seed == headers[1].seed
    with ExitStack() as files:
        opened = [files.enter_context(open_results(path)) for path in (first, second)]
        if paired:
            opened = on_common_instances(opened, (first, second))
        cases = [_cases(results) for results in opened]
        common = [key for key in cases[0] if key in cases[1]]
        if not common:
            theirs = [", ".join(case.label for case in of.values()) for of in cases]
            raise UserError(f"{first} and {second} have no case in common: {'; '.join(theirs)}")
        if where:
            common = _selected(common, cases[0], where, axes_of(opened[0]))
        compare = _pair if compared_measures(opened[0]) else _study_pair
        pairs = [
            compare(cases[0][key].label, cases[0][key].part, cases[1][key].part, paired)
            for key in common
        ]
        return FileComparison(
            first=str(first),
            second=str(second),
            study=headers[0].study,
            seeds=(headers[0].seed, headers[1].seed),
            instances=(opened[0].sizes["instance"], opened[1].sizes["instance"]),
            paired=paired,
            differences=differences,
            only_first=[case.label for key, case in cases[0].items() if key not in cases[1]],
            only_second=[case.label for key, case in cases[1].items() if key not in cases[0]],
            pairs=[pair for pair in pairs if pair.lines],
        )


def _checked(headers: tuple[Header, Header], allowed: Sequence[str]) -> list[Difference]:
    """In what the specs differ, if all of it is allowed."""
    first, second = headers
    if first.study != second.study:
        raise UserError(f"they hold different studies, {first.study} and {second.study}")
    differences = first.differences(second)
    refuse_unmeant(differences, allowed, keys_of(first.spec_toml, second.spec_toml))
    return differences


def on_common_instances(opened: Sequence[xr.Dataset], paths: Sequence[Path]) -> list[xr.Dataset]:
    """Results files with the instances that all of them hold.

    Raises
    ------
    UserError
        There are none.
    """
    ids = [results["instance"].values for results in opened]
    common = reduce(partial(np.intersect1d, assume_unique=True), ids)
    if not common.size:
        raise UserError(f"{' and '.join(map(str, paths))} hold no instance in common")
    return [
        results if common.size == of.size else results.isel(instance=np.searchsorted(of, common))
        for results, of in zip(opened, ids, strict=True)
    ]


Key = frozenset[tuple[str, str | float]]
"""Values of a case on its axes, by which two files have it in common."""


def _cases(results: xr.Dataset) -> dict[Key, _Case]:
    """Cases of a file; those of other studies are places of the dimensions of its variables."""
    axes, points = axes_of(results), points_of(results)
    if compared_measures(results):
        along = [CASE] if CASE in results.dims else [axis.name for axis in axes]
        indices = np.ndindex(*(results.sizes[dim] for dim in along))
        return {
            identity(point, axes): _Case(point, results.isel(dict(zip(along, place, strict=True))))
            for point, place in zip(points, indices, strict=True)
        }
    parts: dict[Key, tuple[Point, dict[str, xr.DataArray]]] = {}
    for name, array in results.data_vars.items():
        if "instance" not in array.dims or "flag_values" in array.attrs:
            continue
        dims = [str(dim) for dim in array.dims if dim not in ("instance", "age")]
        for place in np.ndindex(tuple(results.sizes[dim] for dim in dims)):
            values = array.isel(dict(zip(dims, place, strict=True)))
            point: dict[str, str | float] = {dim: values[dim].item() for dim in dims}
            if CASE in dims:
                point = {CASE: said(point), **without_label(points[place[dims.index(CASE)]])} | {
                    dim: value for dim, value in point.items() if dim != CASE
                }
            key = identity(point, axes) | {(dim, point[dim]) for dim in dims if dim != CASE}
            arrays = parts.setdefault(key, (point, {}))[1]
            arrays[str(name)] = values.drop_vars(dims)
    return {key: _Case(point, xr.Dataset(arrays)) for key, (point, arrays) in parts.items()}


def _selected(
    keys: Sequence[Key],
    cases: Mapping[Key, _Case],
    where: Sequence[Condition],
    axes: Sequence[Axis],
) -> list[Key]:
    """Cases that fulfil all conditions; some cases have fewer keys than others."""
    known = {axis.key: axis.name for axis in axes}
    names = {known.get(condition.key, condition.key) for condition in where}
    with_names = [key for key in keys if names <= set(cases[key].point)]
    chosen = with_names or [max(keys, key=lambda key: len(cases[key].point))]
    places = places_where(where, [cases[key].point for key in chosen], axes)
    return [chosen[place] for place in places]


def _pair(label: str, case: xr.Dataset, other: xr.Dataset, paired: bool) -> Pair:
    """Two cases of a study that compares measures, and the lives of sweeps."""
    lines = measured_lines(case, other, paired)
    if not paired or "life_years" not in case:
        return Pair(label, lines)
    lives, others = lives_of(case), lives_of(other)
    return Pair(label, lines, outliving(lives.years, lives.died, others.years, others.died))


def _study_pair(label: str, case: xr.Dataset, other: xr.Dataset, paired: bool) -> Pair:
    return Pair(label, study_lines(case, other, paired))


def study_lines(case: xr.Dataset, other: xr.Dataset, paired: bool) -> list[Line]:
    """Compare all numbers that each instance has, those with ages at the last age.

    Parameters
    ----------
    case, other : xarray.Dataset
        Numbers of two cases: [instance], or [instance, age].
    paired : bool
        Whether instances are compared one by one; they must be the same.
    """
    lines = []
    for name, array in case.data_vars.items():
        if name in other:
            first, second = _at_last_age(array), _at_last_age(other[name])
            means = compare_means(first, second) if paired else compare_apart(first, second)
            lines.append(Line(str(name), _name_of(array), 1.0, means))
    return lines


def _at_last_age(array: xr.DataArray) -> Floats:
    chosen = array.isel(age=-1) if "age" in array.dims else array
    return np.asarray(chosen.values, np.float64)


def _name_of(array: xr.DataArray) -> str:
    units = str(array.attrs.get("units", "1"))
    at = f" at {float(array['age'][-1]):g} years" if "age" in array.dims else ""
    name = str(array.attrs.get("long_name", array.name))
    return f"{name}{at}" + (f" [{units}]" if units != "1" else "")


def pairs_of(comparisons: Sequence[FileComparison]) -> list[Pair]:
    """Lines of the table of some comparisons with the same first file."""
    return [
        Pair(pair.case, pair.lines, pair.outliving, Path(of.second))
        for of in comparisons
        for pair in of.pairs
    ]


def title_of(comparisons: Sequence[FileComparison]) -> str:
    """Compared quantities, their instances, and the differences of the specs."""
    first = comparisons[0]
    lines = [f"A: {first.first}"]
    for of in comparisons:
        lines.append(f"B: {of.second}")
        counts = of.instances
        if of.paired:
            lines.append(f"  {counts[0]} instances of both, one by one (seed {of.seeds[0]})")
        else:
            lines.append(
                f"  not the same dies (seeds {of.seeds[0]} and {of.seeds[1]}): {counts[0]} and "
                f"{counts[1]} instances, compared by their means"
            )
        lines += [f"  differs: {difference}" for difference in of.differences]
        for name, alone in (("A", of.only_first), ("B", of.only_second)):
            if alone:
                more = len(alone) - LISTED
                others = f", and {more} more" if more > 0 else ""
                lines.append(f"  only in {name}: {', '.join(alone[:LISTED])}{others}")
    return "\n".join(lines)


def as_json(comparison: FileComparison) -> dict[str, Any]:
    """Comparison as plain values: quantities by their keys."""
    from mcage.stats.estimates import plain

    fields: dict[str, Any] = plain(comparison)
    for pair, of in zip(fields["pairs"], comparison.pairs, strict=True):
        del pair["file"]
        pair["lines"] = lines_by_key(of.lines)
    return fields


def lines_by_key(lines: Sequence[Line]) -> dict[str, Any]:
    """Lines as plain values by their keys."""
    from mcage.stats.estimates import plain

    return {line.key: {"name": line.name} | plain(line.means) for line in lines}
