"""The figures of a sweep, in the order in which a report shows them."""

import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import nan

import numpy as np
import xarray as xr

from mcage.aging.nbti import nbti_model
from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.lifetime import DVTH_BIN_EDGES_MV, TRANSISTORS, WRITE_KINDS
from mcage.plain_text import visible
from mcage.plugins import is_plugin
from mcage.replays.most_stressed import DutyCycles
from mcage.report import cases
from mcage.report.figures import canvas, distributions, lives
from mcage.report.figures.canvas import CasePart
from mcage.report.figures.curves import CurveFigure
from mcage.report.notes import note_on_code
from mcage.spec import SweepSpec
from mcage.spec.sections import aging_of
from mcage.stats.estimates import Floats, mean
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.plan import SweepPlan
from mcage.studies.sweep.study import Sweep
from mcage.version import running_code


@dataclass(frozen=True)
class FigureKind:
    """A figure of sweeps.

    Parameters
    ----------
    variables : tuple of str
        Variables of the file that it needs.
    of_case : callable
        What it shows of a case, whose variables have been read.
    plot : callable
        The figure without panels, for results with these attributes and coordinates.
    """

    variables: tuple[str, ...]
    of_case: Callable[[xr.Dataset], Iterable[CasePart]]
    plot: Callable[[xr.Dataset], canvas.Plot]


def draw(header: SweepHeader, results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """All figures of a sweep, one by one."""
    yield from of_lives(results)
    yield from replayed_figures(header, results)


def of_lives(results: xr.Dataset) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """Figures of what the file holds.

    Variables are read figure by figure and case by case. What is kept of a case does not grow with
    the number of instances beyond `mcage.report.figures.lives.MOST_STEPS`.
    """
    named = cases.named_cases(results)
    for kind in KINDS:
        plot = kind.plot(results)
        if missing := [name for name in kind.variables if name not in results]:
            why = f"It needs {', '.join(missing)}, which these results lack."
            yield canvas.AbsentFigure(plot.name, plot.title, why)
            continue
        others = [name for name in results.data_vars if name not in kind.variables]
        read = (case.load() for case in cases.cases_in(results.drop_vars(others)))
        yield plot.of_cases((of, kind.of_case(case)) for of, case in zip(named, read, strict=True))


def _horizon(results: xr.Dataset) -> float:
    ends = results.get("epoch_end_years")
    return nan if ends is None else float(ends.values[-1])


BANDS = ", and 5 to 95 % of the slices"
"""End of the titles of figures with bands of quantiles."""

NO_SLICE = "no slice works"
"""Why a case has no curve."""


def _ends(case: xr.Dataset) -> Iterator[CasePart]:
    names = {int(cause): name for cause, name in cases.CAUSES.items()}
    return lives.dead(cases.lives_of(case), names, case["epoch_end_years"].values)


# Threshold shifts.

AGES = 120
"""Ages, the denser the earlier, at which quantiles are computed besides the ends of epochs."""

ROOM = 0.1
"""Part of the horizon that a number below the axis needs; of epochs that end closer, the last."""


def _shifts_of_cells(case: xr.Dataset) -> Iterator[CasePart]:
    """Cumulative shares of the sampled cells, whose last bin counts those above it, too."""
    counts = case["dvth_histogram"].transpose("transistor", "dvth_bin").values
    for transistor, of_bins in zip(TRANSISTORS, counts, strict=True):
        if not of_bins.sum():
            yield CasePart(None, transistor, NO_SLICE)
            continue
        last = int(np.flatnonzero(of_bins).max()) + 1
        shares = 100 * np.append(0.0, np.cumsum(of_bins[:last])) / of_bins.sum()
        series = canvas.Series("", DVTH_BIN_EDGES_MV[: last + 1].astype(np.float64), shares)
        yield CasePart(series, transistor, worth=float(shares[1]))


CELLS = CurveFigure(
    "dvth-cells",
    "Threshold shifts of cells",
    "Share of 128 random cells of each slice that worked at all whose transistor has shifted "
    "by no more than the value of the axis, by NBTI at the end of the slice's life or at the "
    "horizon, counted in bins of 1 mV.",
    "threshold shift of a sampled cell (mV)",
    "cells with at most this shift (%)",
    shape="distribution",
    y_limits=(0.0, 103.0),
    worth="the share shifted by less than 1 mV",
    unit=" %",
)


def _worst_shifts(case: xr.Dataset) -> Iterator[CasePart]:
    worst = case["max_dvth_mv"].max("transistor").values
    if np.isnan(worst).all():
        yield CasePart(None, why=NO_SLICE)
    else:
        yield distributions.of_shares(distributions.share_curve(worst))


WORST = CurveFigure(
    "dvth-worst",
    f"Threshold shift of the worst cell of each slice, {canvas.PERCENT} bands",
    "Share of the slices that worked at all whose largest NBTI threshold shift, of both "
    "transistors at the end of the life or at the horizon, is no more than the value of the "
    f"axis, with pointwise {canvas.PERCENT} bands after Wilson. Ages differ where lives end "
    "early.",
    "threshold shift of the slice's worst cell (mV)",
    "slices with at most this shift (%)",
    shape="distribution",
    y_limits=(0.0, 103.0),
    worth="the median shift of the worst cell",
    unit=" mV",
)


def _shifts_by_age(case: xr.Dataset) -> Iterator[CasePart]:
    """Quantiles of the shift of the worst cell among the slices that live until an age."""
    ends, years = case["epoch_end_years"].values, case["life_years"].values
    if not years.any():
        yield CasePart(None, why=NO_SLICE)
        return
    reached = case["epoch_max_dvth_mv"].max("transistor").transpose("epoch", "instance").values
    reached = np.concatenate([np.zeros((1, years.size)), reached])
    borders = np.concatenate([[0.0], ends])
    root, _ = growth_between(aging_of(case.attrs["spec"]).model)
    spaced = ends[-1] * np.linspace(0.0, 1.0, AGES + 1) ** 2
    ages = np.unique(np.concatenate([spaced, ends, years.max(keepdims=True)]))
    ages = ages[ages <= years.max()]
    by_age = np.zeros((len(distributions.QUANTILES), ages.size))
    for place, age in enumerate(ages[1:], 1):
        epoch = int(np.searchsorted(ends, age))
        living = years >= age
        before, after = (np.power(mv[living], root) for mv in reached[epoch : epoch + 2])
        known_until = np.minimum(ends[epoch], years[living])
        passed = (age - borders[epoch]) / (known_until - borders[epoch])
        mv = np.power(before + (after - before) * passed, 1 / root)
        by_age[:, place] = np.quantile(mv, distributions.QUANTILES)
    low, middle, high = by_age
    known = np.isin(ages, [*borders, years.max()])
    counts = np.count_nonzero(years >= ends[:, None], axis=1)
    series = canvas.Series("", ages, middle, low, high, marks=known)
    apart = np.append(np.diff(ends), np.inf) >= ROOM * ends[-1]
    row = tuple(ends[apart].tolist()), tuple(counts[apart].tolist())
    yield CasePart(series, worth=float(middle[-1]), row=row)


def growth_between(model: str) -> tuple[float, str]:
    """Power of a shift that grows linearly under constant stress, and how to say it."""
    if is_plugin(model):  # of which a report runs no code; a straight line claims least
        return 1, f"the lines are straight: how the model {visible(model)} grows is not known here"
    root = nbti_model(model).root
    return (
        root,
        f"the power {root} of a shift grows linearly, as it does in the model {model} "
        "under constant stress",
    )


def _plot_by_age(results: xr.Dataset) -> CurveFigure:
    _, growth = growth_between(aging_of(results.attrs["spec"]).model)
    return CurveFigure(
        "dvth-age",
        f"Threshold shift of the worst cell against age, medians{BANDS}",
        "Largest NBTI threshold shift of a slice, of both transistors: median, and as a band the "
        "5 % and 95 % quantiles of the slices (no confidence interval). Slices count until they "
        "die; the numbers below say how many live until that age, so that later ages are those of "
        "survivors. The file has the shifts at the ends of epochs, where the markers stand, and at "
        f"death; between these, {growth}.",
        "age (years)",
        "shift of the worst cell (mV)",
        shape="line",
        x_limits=(0.0, _horizon(results)),
        shares_axes=False,
        rows_title="slices:",
        bands=BANDS,
        worth="the median shift at the end",
        unit=" mV",
    )


# Slowdown.


def _slowdowns(case: xr.Dataset) -> Iterator[CasePart]:
    """Slowdown by age of the slices that live until then: mean and quantiles, %."""
    ages, slower = cases.slowdown_by_age(case)
    years = case["life_years"].values
    living = [100 * slower[place, (years >= age) & (years > 0)] for place, age in enumerate(ages)]
    seen = [place for place, values in enumerate(living) if values.size]
    if not seen:
        yield CasePart(None, why=NO_SLICE)
        return
    middle = np.array([living[place].mean() for place in seen])
    low, high = (
        np.array([np.quantile(living[place], share) for place in seen])
        for share in (distributions.QUANTILES[0], distributions.QUANTILES[-1])
    )
    yield CasePart(canvas.Series("", ages[seen], middle, low, high), worth=float(middle[-1]))


SLOWDOWN = CurveFigure(
    "slowdown",
    f"Slowdown against age, means{BANDS}",
    "Extra execution time of the mixes of the slices that live until an age, as a fraction of "
    "the time that a conventional slice takes: of new slices, and at the ends of the epochs.",
    "age (years)",
    "slowdown (%)",
    shape="line",
    bands=BANDS,
    worth="the mean slowdown at the last age",
    unit=" %",
)


def _slowdowns_at_death(case: xr.Dataset) -> Iterator[CasePart]:
    """Last slowdown that is known of each slice that has died, by the cause."""
    _, slower = cases.slowdown_by_age(case)
    last = np.count_nonzero(~np.isnan(slower), axis=0) - 1  # it is NaN after death
    for number, cause in cases.CAUSES.items():
        here = np.flatnonzero((case["end_cause"].values == number) & (last >= 0))
        if here.size:
            values = slower[last[here], here]
            yield distributions.of_row(distributions.quantile_row("", values, 100), cause)


AT_DEATH = distributions.RowFigure(
    "slowdown-at-death",
    f"Slowdown at death by cause, {distributions.BAND} the slices",
    "Extra execution time in the epoch in which a slice dies, as a fraction of the time that a "
    "conventional slice takes: medians over the slices that the cause ends and of which the "
    "slowdown is known, when new of those dead on arrival, and as lines their 5 % and 95 % "
    "quantiles.",
    "slowdown in the epoch of death (%)",
    worth="the median",
)


# Where register writes go.

KINDS_OF_WRITES = {
    "regular": "stay in their home",
    "to_reliable": "redirected to a reliable entry",
    "to_faulty": "redirected to a faulty entry",
    "lds": "spilled to LDS or memory",
}


def _spills(case: xr.Dataset) -> Iterator[CasePart]:
    """Cumulative shares of the spill rates that are not zero, which a logarithmic axis has."""
    rates = case["spill_rate"].values
    if np.isnan(rates).all() or not (rates > 0).any():
        yield CasePart(None, why=NO_SLICE if np.isnan(rates).all() else "no slice spills")
        return
    curve = distributions.share_curve(rates, 100.0)
    seen = curve.x > 0
    columns = (of[seen] for of in (curve.x, curve.y, curve.lower, curve.upper) if of is not None)
    yield CasePart(canvas.Series("", *columns), worth=100 * float(np.nanmean(rates)))


SPILLS = CurveFigure(
    "spills",
    f"Spill rates of slices, {canvas.PERCENT} bands",
    "Share of the slices that worked at all whose spill rate is no more than that of the axis, "
    f"with pointwise {canvas.PERCENT} bands after Wilson. The spill rate is the share of the "
    "register writes of a life that go to the LDS or to memory; a curve begins at the smallest "
    "one above 0.",
    "spill rate (% of the register writes of a life)",
    "slices that spill at most this (% of those that worked)",
    shape="distribution",
    y_limits=(0.0, 103.0),
    x_scale="log",
    worth="the mean spill rate",
    unit=" %",
)


def _writes(case: xr.Dataset) -> Iterator[CasePart]:
    """Mean share of the writes of a life, by kind."""
    shares = case["write_share"].transpose("write_kind", "instance").values
    for kind, of_kind in zip(WRITE_KINDS, shares, strict=True):
        if np.isnan(of_kind).all():
            yield CasePart(None, KINDS_OF_WRITES[kind], NO_SLICE)
        elif (of_kind > 0).any():
            row = distributions.estimate_row("", mean(of_kind), 100)
            yield distributions.of_row(row, KINDS_OF_WRITES[kind])


WRITES = distributions.RowFigure(
    "writes",
    f"Kinds of register writes, {canvas.PERCENT} intervals",
    "Mean share of the register writes of a life by kind, over the slices that worked at all, "
    f"with {canvas.PERCENT} intervals (Student).",
    "share of the register writes of a life (%)",
    worth="the share",
    unit=" %",
    without="none of",
)


LIVES = ("end_cause", "life_years", "epoch_end_years")

KINDS = (
    FigureKind(
        LIVES,
        lambda case: [lives.alive(cases.lives_of(case))],
        lambda results: lives.survival(_horizon(results), "slices"),
    ),
    FigureKind(LIVES, _ends, lambda results: lives.causes(_horizon(results), "slices")),
    FigureKind(("dvth_histogram",), _shifts_of_cells, lambda _: CELLS),
    FigureKind(("max_dvth_mv",), _worst_shifts, lambda _: WORST),
    FigureKind(
        ("life_years", "epoch_max_dvth_mv", "epoch_end_years"), _shifts_by_age, _plot_by_age
    ),
    FigureKind(cases.SLOWDOWN_VARIABLES, _slowdowns, lambda _: SLOWDOWN),
    FigureKind(cases.SLOWDOWN_VARIABLES, _slowdowns_at_death, lambda _: AT_DEATH),
    FigureKind(("spill_rate",), _spills, lambda _: SPILLS),
    FigureKind(("write_share",), _writes, lambda _: WRITES),
)
"""Figures of a sweep, of what its file holds."""


def replayed_figures(
    header: SweepHeader, results: xr.Dataset
) -> Iterator[canvas.Plot | canvas.AbsentFigure]:
    """Figures that need the traces of the sweep, or why they cannot be drawn."""
    caveats: tuple[str, ...] = ()
    if not all(running_code().computes_as(code) for code in header.codes):
        caveats = (f"WARNING: replayed by other code; the file was {note_on_code(header)}",)
    try:
        plan = plan_of(header)
        kernels = f"{len(plan.traces)} kernel{'s' if len(plan.traces) > 1 else ''}"
        parts = {case: _duties(plan, case.identity) for case in _techniques(results)}
    except UserError as error:
        why = f"It cannot be drawn again: {visible(str(error))}."
        for plot in (BITS, REGISTERS):
            yield canvas.AbsentFigure(plot.name, plot.title, why)
        return
    for plot in (BITS, REGISTERS):
        replayed = replace(plot, population=f"{kernels}, replayed without faults", caveats=caveats)
        yield replayed.of_cases((case, of[plot.name]) for case, of in parts.items())


def _techniques(results: xr.Dataset) -> Iterator[cases.NamedCase]:
    """Techniques of the cases, each with the places of all that have it."""
    places: dict[str, list[int]] = {}
    for case in cases.named_cases(results):
        places.setdefault(case.identity, []).extend(case.places)
    for technique, of in places.items():
        name = cases.names_in(results).get(technique, visible(technique))
        yield cases.NamedCase(tuple(of), name, "", technique)


def plan_of(header: SweepHeader) -> SweepPlan:
    """Plan of the sweep of a results file, to replay its kernels.

    Other code than that of the file may make it: see `mcage.report.notes.note_on_code`.

    No module of a user is imported because a file names it.

    Raises
    ------
    UserError
        The plan would not be that of the file: it has plug-ins, or its traces are not at hand, or
        these, its techniques or its model are others by now.
    """
    spec = SweepSpec.from_mapping(tomllib.loads(header.spec_toml))
    named = [*spec.techniques, spec.aging.model, str(spec.aging.pbti)]
    if plugins := [name for name in named if is_plugin(name)]:
        raise UserError(f"it needs user-defined code, {plugins[0]}, which no report imports")
    engine, _ = select_engine("numba", None)
    sweep = Sweep(spec, engine)
    if sweep.header.spec_digest != header.spec_digest:
        raise UserError("its traces, techniques or model are others by now")
    return sweep.plan


# Duty cycles by bit and by register, from the kernels of the spec on a slice without faults.

BITS_OF_COMPONENT = 32
STATES = ("'0' (stresses T0)", "'1' (stresses T1)")


def _duties(plan: SweepPlan, technique: str) -> dict[str, list[CasePart]]:
    """Replays of a technique for these figures; cached replays are not computed anew."""
    duties = plan.fault_free[technique].duties
    parts: dict[str, list[CasePart]] = {BITS.name: [], REGISTERS.name: []}
    for of_state, other, title in zip(
        (duties.at_zero, duties.at_one), (duties.at_one, duties.at_zero), STATES, strict=True
    ):
        by_entry = _by_entry(of_state, other, plan.geometry.entries)
        for name, shares in ((BITS.name, _by_bit(of_state, other)), (REGISTERS.name, by_entry)):
            # The last step is as long as the others.
            y = 100 * np.append(shares, shares[-1:])
            series = canvas.Series("", np.arange(y.size, dtype=float), y)
            parts[name].append(CasePart(series, title, worth=float(np.nanmax(y))))
    return parts


BITS = CurveFigure(
    "duty-bits",
    "Duty cycles by bit of a register",
    "Fraction of the time for which a cell holds '0' or '1', by the bit of the 32-bit "
    "component: mean over all cells of this bit that hold a value at any time, and over the "
    "kernels with equal weights. Cells that are off hold neither.",
    "bit of a component (0: least significant)",
    "mean duty cycle (% of the time)",
    y_limits=(0.0, 103.0),
    worth="the largest value of a curve",
    unit=" %",
)
REGISTERS = CurveFigure(
    "duty-registers",
    "Longest duty cycles by register",
    "Largest fraction of the time for which a single cell of a physical register holds "
    "'0' or '1': mean over the kernels with equal weights; a kernel that leaves the register "
    "unused counts as 0. Registers that no kernel uses have no value.",
    "physical register (entry of the slice)",
    "longest duty cycle (% of the time)",
    y_limits=(0.0, 103.0),
    worth="the largest value of a curve",
    unit=" %",
)


def _by_bit(of_state: DutyCycles, other: DutyCycles) -> Floats:
    """Mean duty cycle of each bit, over cells in use and kernels: float64[bits]."""
    means = np.zeros(BITS_OF_COMPONENT)
    for kernel, period in enumerate(of_state.period):
        cycles = of_state.cycles[kernel].reshape(-1, BITS_OF_COMPONENT)
        used = (cycles > 0) | (other.cycles[kernel].reshape(-1, BITS_OF_COMPONENT) > 0)
        held = cycles.sum(axis=0, dtype=np.float64)
        means += held / np.maximum(1, np.count_nonzero(used, axis=0)) / period
    return means / len(of_state.period)


def _by_entry(of_state: DutyCycles, other: DutyCycles, entries: int) -> Floats:
    """Longest duty cycle of a cell of each entry, mean over kernels; NaN where none uses it."""
    longest, of_other = (
        duties.cycles.reshape(len(duties.period), entries, -1).max(axis=2)
        for duties in (of_state, other)
    )
    used = ((longest > 0) | (of_other > 0)).any(axis=0)
    return np.where(used, (longest / of_state.period[:, None]).mean(axis=0), np.nan)
