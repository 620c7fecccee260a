"""The tables of a sweep: a line for each case; and of its lives, by age, by fit, and of chips."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.lifetime import EndCause
from mcage.report import tables
from mcage.report.cases import CAUSES, cases_in, lives_of, points_of
from mcage.report.presentation import Summary
from mcage.report.tables import ResultTable as Table
from mcage.results.axes import CASE
from mcage.results.measures import Case
from mcage.spec.cost_constants import Technology
from mcage.spec.sections import costs_of, faults_of
from mcage.stats.estimates import (
    CONFIDENCE,
    DASH,
    Bools,
    Estimate,
    life,
    mean,
    percent,
    proportion,
    with_bounds,
)
from mcage.stats.fits import Fit, fit_distributions
from mcage.stats.nested import FEWEST_DRAWS, mean_by_draw, quantile_by_draw, share_of_constants
from mcage.stats.survival import CaseLives, chip_lives, cumulative_incidence, failure_rate
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.measures import last_slowdown


@lru_cache(maxsize=8)
def technology_of(spec_toml: str) -> Technology:
    """Constants of the costs of a sweep, by the spec of its file."""
    return costs_of(spec_toml).of_technology


def few_worked(summary: Summary) -> bool:
    """Whether less than half of the slices worked, so that means over these are of the best."""
    return bool(0 < summary.worked < summary.instances / 2)


def added_to(case: Case) -> dict[str, Any]:
    """Content of a summary besides the measures of a case.

    ``label``, ``horizon_years``, ``worked`` (slices that worked at all), ``technology`` and
    ``nominal_vdd_volts`` (of the constants of the energy), ``end_cause_share`` (share of all lives
    by cause of death), ``too_slow`` (of slices that worked until they were too slow, the slowdown
    ``when_new`` and ``when_last_in_use``); of joint draws of constants, ``by_draw``.
    """
    technology, cause = technology_of(case.spec_toml), case["end_cause"]
    added = {
        "label": str(case[CASE]),
        "horizon_years": case.horizon_years,
        "worked": int(np.count_nonzero(case["life_years"] > 0)),
        "too_slow": {
            when: mean(slower[cause == EndCause.TOO_SLOW])
            for when, slower in (
                ("when_new", case["slowdown_new"]),
                ("when_last_in_use", last_slowdown(case)),
            )
        },
        "technology": technology,
        "nominal_vdd_volts": technology.nominal_vdd_volts,
        "end_cause_share": _shares_of_causes(cause),
    }
    return added | ({"by_draw": by_draw(case)} if "draw" in case else {})


def _shares_of_causes(cause: np.ndarray) -> dict[str, Estimate]:
    """Share of the lives that each cause has ended."""
    return {
        name: proportion(int(np.count_nonzero(cause == value)), cause.size)
        for value, name in CAUSES.items()
    }


def table_of(summaries: Sequence[Summary]) -> Table:
    """Table of the cases, with what draws of constants make uncertain below it.

    Its title says what all cases have in common.

    Parameters
    ----------
    summaries : sequence of Summary
        Cases, at least one, of a file or of several.

    Raises
    ------
    UserError
        The nominal Vdd of their technologies differs.
    """
    nominal_vdds = [f"{volts:g} V" for volts in {s.nominal_vdd_volts for s in summaries}]
    if len(nominal_vdds) > 1:
        raise UserError(f"technologies of {' and '.join(nominal_vdds)} need tables of their own")
    (nominal_vdd,) = nominal_vdds
    last = "energy saving" if _energy_is_known(summaries) else "slowdown"
    few = "in brackets, where less than half of them did; " * any(few_worked(s) for s in summaries)
    energy = (
        "; energy saving: against one at the same voltages, and at the technology's nominal "
        f"{nominal_vdd}"
    ) * _energy_is_known(summaries)
    of_all = (
        "; of all slices: those that are dead on arrival run as conventional ones at "
        f"{nominal_vdd}, and save nothing"
    ) * _counts_the_dead(summaries)
    drawn = [row for row in summaries if "by_draw" in row]
    return Table(
        title=_population(summaries),
        caption=f"{CONFIDENCE:.0%} intervals; dVth to {last}: means over the slices that worked at "
        f"all, which are not dead on arrival; {few}dVth: of the slice's worst cell; slowdown: "
        f"against a conventional slice{energy}{of_all}{_mixture(summaries)}",
        columns=(
            *tables.columns_of_cases(SweepHeader.axes, summaries),
            *_columns(summaries, nominal_vdd),
        ),
        below=(table_of_draws(drawn),) if drawn else (),
    )


def _population(lines: Sequence[Mapping[str, Any]], horizon: bool = True) -> str:
    """How many instances lines are of, and to which horizon."""
    counted = f"{tables.span([line['instances'] for line in lines])} instances per case"
    if not horizon:
        return counted
    return f"{counted}, horizon {tables.span([line['horizon_years'] for line in lines])} years"


def _mixture(summaries: Sequence[Summary]) -> str:
    """Caveat of a sweep whose cases have several files: energies on two curves."""
    if "file" not in summaries[0] or not _energy_is_known(summaries):
        return ""
    vdds_volts: dict[Technology, set[float]] = {}
    for summary in summaries:
        vdds_volts.setdefault(summary.technology, set()).add(summary.vdd_volts)
    notes = (technology.note_on_mixture(v) for technology, v in vdds_volts.items())
    return "".join(f"; {note}" for note in notes if note)


def _energy_is_known(summaries: Sequence[Summary]) -> bool:
    """Whether there are constants of the energy of the slice, as far as any slice worked."""
    worked = [summary for summary in summaries if summary.worked]
    return not worked or any(not math.isnan(s.energy_saving.value) for s in worked)


def _counts_the_dead(summaries: Sequence[Summary]) -> bool:
    """Whether the mean saving of all slices is another than that of those that worked."""
    return _energy_is_known(summaries) and any(s.worked < s.instances for s in summaries)


def _columns(summaries: Sequence[Summary], nominal_vdd: str) -> tuple[tables.Column, ...]:
    """Columns of the measures."""
    known, with_dead = _energy_is_known(summaries), _counts_the_dead(summaries)
    columns = []
    for measure in SweepHeader.measures:
        heading, primary = measure.heading.format(nominal=nominal_vdd), measure.primary
        if measure.key == "energy_saving_of_all" and not with_dead:
            heading = ""
        elif measure.key == "energy_saving_nominal":
            primary = not with_dead
        if measure.key.startswith("energy") and not known:
            heading = ""
        column = tables.measured(replace(measure, heading=heading, primary=primary), summaries)
        if measure.of_working:
            column = replace(column, cells=tuple(map(_in_brackets, column.cells, summaries)))
        columns.append(column)
    return (*columns, *_causes_of_death(summaries))


def _in_brackets(cell: tables.Cell, summary: Summary) -> tables.Cell:
    """Cell of a mean over the slices that worked: in brackets where these are few."""
    return replace(cell, text=f"({cell.text})") if few_worked(summary) else cell


def _causes_of_death(lines: Sequence[Summary]) -> tuple[tables.Column, ...]:
    """Columns of the causes of death: in words, and the share of each for programs."""
    keys = {name: f"ended_by_{name.replace(' ', '_')}" for name in CAUSES.values()}
    shares = [{keys[name]: share for name, share in of.end_cause_share.items()} for of in lines]
    return (
        tables.remarks("lives end by", list(map(_causes_in_words, lines))),
        *(tables.column(shares, key, "", _percent) for key in keys.values()),
    )


def _percent(share: Estimate) -> str:
    return percent(share.value)


def _causes_in_words(line: Summary) -> str:
    causes = sorted(line.end_cause_share.items(), key=lambda item: -item[1].value)
    slow = CAUSES[EndCause.TOO_SLOW]
    said = (
        f"{name} {percent(share.value)}{_how_slow(line) * (name == slow)}"
        for name, share in causes
        if share.value > 0
    )
    return ", ".join(said) or DASH


def _how_slow(line: Summary) -> str:
    """By what slices became too slow that worked until then; empty where there are none."""
    new, last = (100 * of.value for of in line.get("too_slow", {}).values() or (_NONE, _NONE))
    if math.isnan(last):
        return ""
    return f" ({new:.3g} % slower when new, {last:.3g} % when last in use)"


_NONE = Estimate(math.nan, math.nan, math.nan)


# Joint draws of constants: what the lot and what the constants make uncertain.

DRAWN = {
    "median_life_years": "median life\n[years]",
    "rmst_years": "RMST\n[years]",
    "max_dvth_mv": "largest dVth\n[mV]",
}
"""Numbers of a case over the draws of its constants, and their headings."""


def by_draw(case: Case) -> Summary:
    """A case over the draws of its constants.

    ``instances`` and ``draws`` (number of slices, and of the rows that they have their constants
    from), the parts of each of `DRAWN`, and ``share_of_life``, the share of the variance of the
    years before the horizon that the constants explain. The largest shifts are those of slices
    that worked at all; a median beyond the horizon is infinite.
    """
    draw, years, horizon = case["draw"], case["life_years"], case.horizon_years
    return Summary(
        label=str(case[CASE]),
        instances=years.size,
        draws=np.unique(draw).size,
        horizon_years=horizon,
        median_life_years=quantile_by_draw(years, case["end_cause"] != EndCause.CENSORED, draw),
        rmst_years=mean_by_draw(years, draw, within=(0.0, horizon)),
        max_dvth_mv=mean_by_draw(case["max_dvth_mv"].max(axis=1), draw),
        share_of_life=share_of_constants(years, draw),
    )


def table_of_draws(summaries: Sequence[Summary]) -> Table:
    """Table of cases with joint draws of constants."""
    first = summaries[0].by_draw
    per_draw = first.instances / first.draws
    caption = (
        f"lot: {CONFIDENCE:.0%} intervals, what another seed may change; constants: band in which "
        f"{CONFIDENCE:.0%} of further draws lie, without the lot\nshare: of the variance of life "
        "to the horizon among slices, what the constants explain"
    )
    if first.draws < FEWEST_DRAWS:
        caption += f"\nfewer than {FEWEST_DRAWS} draws give no band"
    if per_draw < 2:
        caption += "\nlot and constants cannot be separated without two slices of a draw"
    lines = [row | {"share_of_constants": row.by_draw.share_of_life} for row in summaries]
    return Table(
        title=f"{first.draws} draws of constants, {per_draw:.3g} slices of each, horizon "
        f"{tables.span([row.horizon_years for row in summaries])} years",
        caption=caption,
        columns=(
            *tables.columns_of_cases(SweepHeader.axes, lines, ()),
            *chain.from_iterable(_parts(lines, key, heading) for key, heading in DRAWN.items()),
            tables.column(lines, "share_of_constants", "share of\nconstants", _share, primary=True),
        ),
    )


def _parts(lines: Sequence[Any], key: str, heading: str) -> Iterator[tables.Column]:
    """Columns of a number: of the lot, and of the constants."""
    is_median = key == "median_life_years"
    for part, words, write in (("lot", "lot", life), ("band", "constants", _band)):
        cells = []
        for line in lines:
            of = getattr(line["by_draw"][key], part)
            text = write(of, line["horizon_years"])
            if part == "lot" and not is_median:
                text = with_bounds(of)
            cells.append(tables.Cell(text, *vars(of).values()))
        yield tables.Column(
            f"{key}_{words}", f"{heading}\n{words}", tuple(cells), primary=key == "rmst_years"
        )


def _band(band: Estimate, horizon_years: float) -> str:
    """Write the ends of a band, which may lie beyond the horizon."""
    if np.isnan(band.lower):
        return DASH
    ends = (band.lower, band.upper)
    low, high = (f"> {horizon_years:g}" if np.isinf(end) else f"{end:.2f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _share(share: Estimate) -> str:
    if np.isnan(share.value):
        return DASH
    if np.isnan(share.lower):
        return percent(share.value)
    return f"{share.value:.0%} [{share.lower:.0%}, {share.upper:.0%}]"


# Other tables of lives. What is said of a case is its point, and numbers; a table has a line for
# each age, or for each distribution.


def _of_cases(results: xr.Dataset, said_of: Callable[[CaseLives], dict[str, Any]]) -> list[Summary]:
    """Table of the lives of each case, in the order of the file."""
    return [
        Summary(
            point
            | {"label": lives.label, "instances": lives.years.size}
            | {"horizon_years": lives.horizon_years}
            | said_of(lives)
        )
        for point, lives in zip(points_of(results), map(lives_of, cases_in(results)), strict=True)
    ]


def _table(title: str, caption: str, lines: Sequence[Any], *columns: tables.Column) -> Table:
    """Table of lines, several of which may be of a case, which is named above them."""
    of_cases = tables.columns_of_cases(SweepHeader.axes, lines, ())
    named = (replace(column, groups=bool(column.heading)) for column in of_cases)
    return Table(title, caption, (*named, *columns))


def _by_age(lines: Sequence[Any]) -> tables.Column:
    return tables.column(lines, "age_years", "age\n[years]", "{:g}".format, primary=True)


def summarize_causes(results: xr.Dataset) -> list[Summary]:
    """Cumulative incidence of each cause of death in each case.

    Returns
    -------
    list of Summary
        ``years`` (0 and the ends of the epochs), ``dead_by`` (by cause, the share of all slices
        that have died of it up to and including each age), ``alive`` (the share after each age).
    """
    years = np.concatenate([[0.0], results["epoch_end_years"].values])

    def said_of(lives: CaseLives) -> dict[str, Any]:
        def dead(of_cause: Bools) -> list[Estimate]:
            curve = cumulative_incidence(lives.years, lives.died, of_cause, years)
            bands = zip(curve.share, curve.lower, curve.upper, strict=True)
            return [Estimate(*map(float, band)) for band in bands]

        return {
            "years": tuple(map(float, years)),
            "dead_by": {name: dead(lives.cause == cause) for cause, name in CAUSES.items()},
            "alive": [Estimate(1 - e.value, 1 - e.upper, 1 - e.lower) for e in dead(lives.died)],
        }

    return _of_cases(results, said_of)


def table_of_causes(summaries: Sequence[Summary]) -> Table:
    """Table with a line for each case and age; causes that end no life have no column."""
    lines = []
    for row in summaries:
        ending = {name: of for name, of in row.dead_by.items() if of[-1].value > 0}
        lines += [
            row
            | {"age_years": age, "alive": row.alive[place]}
            | {n: of[place] for n, of in ending.items()}
            for place, age in enumerate(row.years)
        ]
    causes = [name for name in CAUSES.values() if any(name in line for line in lines)]
    return _table(
        _population(summaries, horizon=False),
        f"Percent of all slices, up to and including that age; {CONFIDENCE:.0%} intervals; "
        f"{DASH}: ends no life of the case",
        lines,
        _by_age(lines),
        *(
            replace(
                tables.column(lines, name, f"dead by\n{name} [%]", _in_percent),
                key=f"dead_by_{name.replace(' ', '_')}",
            )
            for name in causes
        ),
        tables.column(lines, "alive", "alive\n[%]", _in_percent, primary=True),
    )


def _in_percent(share: Estimate) -> str:
    return with_bounds(share, 100.0)


def summarize_fits(results: xr.Dataset) -> list[Summary]:
    """Fit Weibull and lognormal distributions to the lives of each case: ``fits``."""
    return _of_cases(
        results,
        lambda of: {"fits": fit_distributions(of.years, of.died, of.horizon_years)},
    )


def table_of_fits(summaries: Sequence[Summary]) -> Table:
    """Table with a line for each distribution; a case without a fit says why there is none."""
    shown = [
        (row, of)
        for row in summaries
        for of in (row.fits if row.fits[0].parameters else row.fits[:1])
    ]
    fits = [fit for _, fit in shown]
    lines = [
        row
        | vars(fit)
        | fit.parameters
        | {"distribution": fit.distribution * bool(fit.parameters) or DASH}
        for row, fit in shown
    ]
    parameters = dict.fromkeys(name for fit in fits for name in fit.parameters)
    return _table(
        _population(summaries),
        f"Distributions of lives of slices that worked at all; {CONFIDENCE:.0%} intervals; "
        "A²: Anderson-Darling up to the horizon",
        lines,
        tables.column(lines, "distribution", "distribution"),
        tables.column(lines, "dead_on_arrival", "dead on\narrival [%]", _in_percent),
        tables.remarks("parameters", list(map(_parameters, fits)), primary=True),
        *(tables.column(lines, name, "", with_bounds) for name in parameters),
        tables.column(lines, "anderson_darling", "A²", _short("{:.3g}")),
        tables.column(lines, "p_value", "p", _short("{:.3f}"), primary=True),
        replace(tables.column(lines, "reason", "verdict"), key="verdict"),
    )


def _short(form: str) -> Callable[[float], str]:
    return lambda value: DASH if math.isnan(value) else form.format(value)


def _parameters(fit: Fit) -> str:
    written = (
        f"{name.removesuffix('_years')} {with_bounds(value)}"
        for name, value in fit.parameters.items()
    )
    return "\n".join(written) or DASH


def summarize_rates(results: xr.Dataset, ages_years: Sequence[float]) -> list[Summary]:
    """Failures by some ages in each case: ``rates``, a `FailureRate` for each.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    ages_years : sequence of float
        Ages above 0, within the horizon.

    Raises
    ------
    UserError
        An age lies outside.
    """
    horizon = float(results["epoch_end_years"][-1])
    for age in ages_years:
        if not 0.0 < age <= horizon:
            raise UserError(
                f"--rate-at {age:g}: the age must lie above 0 and within the horizon of "
                f"{horizon:g} years"
            )
    return _of_cases(results, lambda of: {"rates": [failure_rate(of, age) for age in ages_years]})


def table_of_rates(summaries: Sequence[Summary]) -> Table:
    """Table with a line for each case and age."""
    lines = [row | vars(rate) for row in summaries for rate in row.rates]
    return _table(
        _population(summaries, horizon=False),
        f"{CONFIDENCE:.0%} intervals; of a single slice, not of a GPU. Failed: dead by "
        "that age, or on arrival. Mean rate: of slices that worked at all, the constant failure "
        "rate that would leave as many of them alive at that age, -ln(1 - F) / age; FIT: failures "
        "in 1e9 hours of a slice",
        lines,
        _by_age(lines),
        tables.column(lines, "failed_ppm", "failed by then\n[ppm]", _whole, primary=True),
        tables.column(lines, "dead_on_arrival_ppm", "dead on arrival\n[ppm]", _whole),
        tables.column(lines, "mean_rate_fit", "mean rate\n[FIT]", _whole, primary=True),
    )


def _whole(estimate: Estimate) -> str:
    """Write an estimate of large numbers, whose bounds may be unknown."""
    if math.isnan(estimate.value):
        return DASH if math.isnan(estimate.lower) else f"> {_number(estimate.lower)}"
    return f"{_number(estimate.value)} [{_number(estimate.lower)}, {_number(estimate.upper)}]"


def _number(number: float) -> str:
    if math.isnan(number):
        return DASH
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


OF_CHIPS = {
    measure.key: replace(measure, primary=measure.form == "age")
    for measure in SweepHeader.measures
    if measure.key in ("b10_life_years", "median_life_years", "censored_share")
}
"""Columns for the lives of chips, as for those of slices."""


def summarize_chips(
    results: xr.Dataset, slices_per_chip: int | None = None, spare_slices: int = 0
) -> list[Summary]:
    """Summarize the lives of chips of several slices, some of which they can spare, in each case.

    Parameters
    ----------
    results : xarray.Dataset
        As `mcage.results.reader.open_results` returns it.
    slices_per_chip : int, optional
        Number of slices of a chip; by default as many as shared a die in the sweep.
    spare_slices : int
        Number of dead slices that a chip can spare.

    Returns
    -------
    list of Summary
        ``chips`` and ``slices_left_out`` (those of an incomplete last chip) in numbers; measures
        of `OF_CHIPS`; ``end_cause_share``, by cause of the death that ended the chip.

    Raises
    ------
    UserError
        As `chip_lives`; or dies differ, and had another number of slices in the sweep; or the file
        is partial, so that slices that follow one another in it are of different chips.
    """
    if results["instance"][-1] != results.sizes["instance"] - 1:
        raise UserError(
            "slices are missing in this partial file, so that chips cannot be put together"
        )
    faults = faults_of(results.attrs["spec"])
    sampled = faults.slices_per_chip
    size = sampled if slices_per_chip is None else slices_per_chip
    scenarios = map(str, np.unique(results["scenario"].values))
    if size != sampled and faults.dies_differ(list(scenarios)):
        raise UserError(
            f"slices_per_chip = {size}, but dies differ and {sampled} slices shared each in this "
            f"sweep: leave it out, or run the sweep with faults.slices_per_chip = {size}"
        )

    def said_of(slices: CaseLives) -> dict[str, Any]:
        chips = chip_lives(slices, size, spare_slices)
        lives = {"life_years": chips.years, "end_cause": np.where(chips.died, chips.cause, 0)}
        return {
            "slices_per_chip": size,
            "spare_slices": spare_slices,
            "chips": chips.years.size,
            "slices_left_out": slices.years.size - chips.years.size * size,
            **{key: of.estimate(lives, chips.horizon_years) for key, of in OF_CHIPS.items()},
            "end_cause_share": _shares_of_causes(chips.cause),
        }

    return _of_cases(results, said_of)


def table_of_chips(summaries: Sequence[Summary]) -> Table:
    """Table of the cases; its title says how many slices an incomplete last chip has."""
    first = summaries[0]
    title = (
        f"{tables.span([row.chips for row in summaries])} chips of {first.slices_per_chip} slices, "
        f"{first.spare_slices} to spare"
    )
    if any(row.slices_left_out for row in summaries):
        left_out = tables.span([row.slices_left_out for row in summaries])
        title += f"; {left_out} slices of an incomplete chip left out"
    counts = ("slices_per_chip", "spare_slices", "chips", "horizon_years")
    return Table(
        f"{title}; horizon {tables.span([row.horizon_years for row in summaries])} years",
        f"{CONFIDENCE:.0%} intervals over chips",
        (
            *tables.columns_of_cases(SweepHeader.axes, summaries, counts),
            *(tables.measured(measure, summaries) for measure in OF_CHIPS.values()),
            *_causes_of_death(summaries),
        ),
    )
