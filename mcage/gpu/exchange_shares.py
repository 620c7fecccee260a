"""The share of GPUs that are exchanged by each age, from the results file of a sweep.

Where dies differ, a GPU is a simulated die. Where they do not, slices are independent: SMs are made
of successive slices, and the share of GPUs follows from that of SMs by the binomial distribution,
whatever the number of slices of a GPU.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.geometry import GCN
from mcage.gpu.exchange import (
    ExchangeRule,
    Floats,
    UncorrectableWords,
    gpu_years,
    per_year_of_fit,
    sm_years,
    soft_errors,
)
from mcage.protection.policy import protection
from mcage.report import tables
from mcage.report.cases import lives_of
from mcage.spec.sections import faults_of
from mcage.stats.estimates import CONFIDENCE, DASH, SAME_AGE_YEARS, Estimate, proportion
from mcage.stats.survival import CaseLives
from mcage.variation.field import die_of

YEARS, ENTRIES = "uncorrectable_years", "uncorrectable_entry"
"""Variables [case, instance, uncorrectable_rank]: ages of the first uncorrectable words of a slice,
NaN where there are no more until the horizon, and the entry of each, below 0 where there is none.
"""

MOST_FIT = 1e6
"""Highest rate of detected soft errors of a slice: 88 in ten years."""


@dataclass(frozen=True)
class ExchangeQuestion:
    """Rule of exchange and population for the results of a sweep.

    Parameters
    ----------
    rule : ExchangeRule
        When a GPU is exchanged.
    due_fit : float
        Soft errors that are detected and not corrected, in FIT a slice: 0 ... 1e6.
    ages_years : sequence of float, optional
        Ages, years; by default 0, each whole year, and the horizon.
    years : array [case, instance, rank], optional
        Ages of uncorrectable words in place of those of the file, as `YEARS`.
    confidence : float
        Probability that each interval covers.

    Raises
    ------
    UserError
        A number is out of range.
    """

    rule: ExchangeRule = field(default_factory=ExchangeRule)
    due_fit: float = 0.0
    ages_years: Sequence[float] | None = None
    years: Any = None
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not 0 <= self.due_fit <= MOST_FIT:
            raise UserError(f"due_fit = {self.due_fit:g}: expected 0 ... {MOST_FIT:g} FIT a slice")
        if not 0 < self.confidence < 1:
            raise UserError(f"confidence = {self.confidence}: must lie between 0 and 1")

    def ages(self, horizon_years: float) -> list[float]:
        """Ages to report, rising."""
        if self.ages_years is None:
            return sorted({*map(float, range(int(horizon_years) + 1)), horizon_years})
        for age in self.ages_years:
            if not 0 <= age <= horizon_years:
                raise UserError(
                    f"age {age:g} years: lives are simulated from 0 to {horizon_years:g} years"
                )
        return [float(age) for age in self.ages_years]


@dataclass(frozen=True)
class ExchangeShare:
    """Shares of the GPUs by an age.

    Parameters
    ----------
    age_years : float
        The age.
    exchanged : Estimate
        GPUs of which more SMs than may be given up have a bank with more words than it may.
    with_dead_slices : Estimate
        GPUs of which more SMs than may be given up have a dead slice.
    either : Estimate
        GPUs of which more SMs than may be given up have the former or the latter.
    """

    age_years: float
    exchanged: Estimate
    with_dead_slices: Estimate
    either: Estimate


@dataclass(frozen=True)
class ExchangeSummary:
    """GPUs of a case.

    Parameters
    ----------
    label : str
        The case.
    dies : int
        Simulated GPUs; 0 where dies do not differ, and GPUs are made of independent SMs.
    sms : int
        Simulated SMs.
    slices_left_out : int
        Slices that make no whole die, or no whole SM.
    horizon_years : float
        End of the simulated time.
    rule : ExchangeRule
        When a GPU is exchanged.
    due_fit : float
        Soft errors, FIT a slice.
    confidence : float
        Probability that each interval covers.
    shares : list of ExchangeShare
        By age.
    """

    label: str
    dies: int
    sms: int
    slices_left_out: int
    horizon_years: float
    rule: ExchangeRule
    due_fit: float
    confidence: float
    shares: list[ExchangeShare]


def summarize_exchange(results: xr.Dataset, question: ExchangeQuestion) -> list[ExchangeSummary]:
    """Shares of exchanged GPUs of each case, in the order of the results.

    Parameters
    ----------
    results : xarray.Dataset
        Results of a sweep, as `mcage.results.reader.open_results` returns them, or a part of them.
    question : ExchangeQuestion
        What is asked.

    Raises
    ------
    UserError
        The results do not have the ages of uncorrectable words; no case has a code, so that no
        word can be; GPUs cannot be made of these slices; or the rule asks for more words than are
        known.
    """
    if "case" not in results.dims or "epoch_end_years" not in results:
        raise UserError("these are not the results of a sweep, of which GPUs could be made")
    years, entries = _words_of(results, question)
    coded = np.full(len(years), True)
    if question.years is None:
        names = results["protection"].values.tolist()
        coded = np.array([protection(name).code is not None for name in names])
    if not coded.any():
        raise UserError(
            "no case of these results has a code, and nothing counts words that are uncorrectable "
            "without one: run the sweep with one, such as --protection secded32"
        )
    ids = results["instance"].values
    if ids.size > 1 and (np.diff(ids) <= 0).any():
        raise UserError("instances must be selected in rising order, each once")
    spec, summaries = results.attrs["spec"], []
    for index in range(results.sizes["case"]):
        case = results.isel(case=index)
        kept = _SliceGroups.of(ids, question.rule, spec, str(case["scenario"].item()))
        words = UncorrectableWords(
            years[index][kept.places], None if entries is None else entries[index][kept.places]
        )
        seed = int(results.attrs["seed"])
        summary = _summary(lives_of(case), kept, words, question, seed)
        summaries.append(summary if coded[index] else _without_words(summary))
    return summaries


def _words_of(
    results: xr.Dataset, question: ExchangeQuestion
) -> tuple[Floats, NDArray[np.int64] | None]:
    """Ages and entries of the words: [case, instance, rank]."""
    dims = ("case", "instance", "uncorrectable_rank")
    years, entries = question.years, None
    if years is None:
        if YEARS not in results:
            raise UserError(
                f"there is no variable {YEARS} in these results: no code has recorded when words "
                "become uncorrectable; run the sweep with one that does"
            )
        years = results[YEARS].transpose(*dims).values
    years = np.asarray(years, np.float64)
    shape = results.sizes["case"], results.sizes["instance"]
    if years.ndim != 3 or years.shape[:2] != shape:
        raise UserError(f"{YEARS} has the shape {years.shape}, expected {(*shape, 'ranks')}")
    if question.rule.banks_per_slice > 1:
        if question.years is not None or ENTRIES not in results:
            raise UserError(
                f"there is no variable {ENTRIES} in these results: several banks in a "
                "slice depend on the entries of the words"
            )
        entries = results[ENTRIES].transpose(*dims).values.astype(np.int64)
    return years, entries


@dataclass(frozen=True)
class _SliceGroups:
    """Slices that make whole dies, or whole SMs: their places, and what they make."""

    places: NDArray[np.int64]
    ids: NDArray[np.int64]
    left_out: int
    are_dies: bool

    @classmethod
    def of(cls, ids: NDArray[np.int64], rule: ExchangeRule, spec: str, name: str) -> "_SliceGroups":
        faults = faults_of(spec)
        differ, on_die = faults.dies_differ([name]), faults.slices_per_chip
        if "draws" in tomllib.loads(spec):
            raise UserError(
                "draws: slices with the same draw of the constants are not independent; run the "
                "sweep without draws"
            )
        if differ and rule.slices != on_die:
            raise UserError(
                f"a GPU of {rule.sms} SMs with {rule.slices_per_sm} slices has {rule.slices} "
                f"slices, but dies differ and {on_die} slices shared each in this sweep "
                "(faults.slices_per_chip): both must be equal"
            )
        size = rule.slices if differ else rule.slices_per_sm
        group = die_of(ids, size)
        _, place, count = np.unique(group, return_inverse=True, return_counts=True)
        places = np.flatnonzero(count[place] == size)
        if not places.size:
            what = "die" if differ else "SM"
            raise UserError(f"{ids.size} slices make no whole {what} of {size}")
        return cls(places, ids[places], ids.size - places.size, differ)


def _summary(
    lives: CaseLives,
    slices: _SliceGroups,
    words: UncorrectableWords,
    question: ExchangeQuestion,
    seed: int,
) -> ExchangeSummary:
    rule, horizon = question.rule, lives.horizon_years
    soft = None
    if question.due_fit:
        rate = np.full(len(slices.ids), per_year_of_fit(question.due_fit))
        shape = GCN.entries, GCN.components
        most = rule.banks_per_slice * rule.words + 1
        soft = soft_errors(seed, slices.ids, rate, horizon, shape, most)
    exchanged = sm_years(words, rule, soft)
    ends = np.where(lives.died, lives.years, np.inf)[slices.places]
    dead = ends.reshape(-1, rule.slices_per_sm).min(axis=1)
    shares = _shares(rule, slices.are_dies, question.confidence)
    return ExchangeSummary(
        label=lives.label,
        dies=len(dead) // rule.sms if slices.are_dies else 0,
        sms=len(dead),
        slices_left_out=slices.left_out,
        horizon_years=horizon,
        rule=rule,
        due_fit=question.due_fit,
        confidence=question.confidence,
        shares=[
            ExchangeShare(
                age,
                shares(exchanged, age),
                shares(dead, age),
                shares(np.minimum(exchanged, dead), age),
            )
            for age in question.ages(horizon)
        ],
    )


def _without_words(summary: ExchangeSummary) -> ExchangeSummary:
    """The same where nothing has counted words: what depends on them is unknown."""
    unknown = Estimate(math.nan, math.nan, math.nan)
    shares = [replace(share, exchanged=unknown, either=unknown) for share in summary.shares]
    return replace(summary, shares=shares)


def _shares(
    rule: ExchangeRule, are_dies: bool, confidence: float
) -> Callable[[Floats, float], Estimate]:
    """Function from the ages of SMs, float64[SM], and an age to the share of GPUs by then."""

    def of_dies(years: Floats, age: float) -> Estimate:
        ends = gpu_years(years.reshape(-1, rule.sms), rule.spare_sms)
        return proportion(_by(ends, age), ends.size, confidence)

    def of_independent_sms(years: Floats, age: float) -> Estimate:
        from scipy.special import bdtrc

        of_sms = proportion(_by(years, age), years.size, confidence)
        bounds = (float(bdtrc(rule.spare_sms, rule.sms, p)) for p in vars(of_sms).values())
        return Estimate(*bounds)

    return of_dies if are_dies else of_independent_sms


def _by(years: Floats, age: float) -> int:
    return int(np.count_nonzero(years <= age + SAME_AGE_YEARS))


# The table: a line for each case and age.


def table_of_exchange(
    summaries: Sequence[ExchangeSummary], files: Sequence[Path] = ()
) -> tables.ResultTable:
    """Table of the cases by age, of several files where their paths are given."""
    lines = [
        {"case": of.label, "simulated_sms": of.sms}
        | {name: getattr(of, name) for name in ("dies", "slices_left_out", "due_fit")}
        | vars(of.rule)
        | {"words": of.rule.words, "banks_per_sm": of.rule.banks}
        | vars(share)
        for of in summaries
        for share in of.shares
    ]
    paths = zip(files, summaries, strict=True) if files else ()
    counts = (
        *("dies", "simulated_sms", "slices_left_out", "words", "sms", "slices_per_sm"),
        *("banks_per_sm", "spare_sms", "due_fit"),
    )
    return tables.ResultTable(
        title=_title(summaries),
        caption=f"{summaries[0].confidence:.0%} intervals; exchanged: of more SMs than may be "
        "given up a bank has too many uncorrectable words; dead: of more SMs than may be given up "
        f"a slice is dead; {DASH}: no code, so that nothing counts words; "
        f"{'; '.join(_remarks(summaries))}",
        columns=(
            *tables.file_column([path for path, summary in paths for _ in summary.shares]),
            tables.column(lines, "case", "case", groups=True),
            *(tables.column(lines, name) for name in counts),
            tables.column(lines, "age_years", "age\n[years]", "{:g}".format, primary=True),
            tables.column(lines, "exchanged", "exchanged\n[%]", _percent, primary=True),
            tables.column(lines, "with_dead_slices", "dead\n[%]", _percent, primary=True),
            tables.column(lines, "either", "either\n[%]", _percent, primary=True),
        ),
    )


def _title(summaries: Sequence[ExchangeSummary]) -> str:
    rule = summaries[0].rule
    return (
        f"GPUs of {rule.sms} SMs with {rule.slices_per_sm} slices, {rule.spare_sms} SMs to spare; "
        f"a bank may have {rule.words} uncorrectable words"
    )


def _remarks(summaries: Sequence[ExchangeSummary]) -> Iterator[str]:
    dies = [summary.dies for summary in summaries if summary.dies]
    if dies:
        yield f"{tables.span(dies)} simulated dies are the GPUs"
    if sms := [summary.sms for summary in summaries if not summary.dies]:
        yield (
            "dies do not differ, so that GPUs are made of independent SMs, of which "
            f"{tables.span(sms)} were simulated"
        )
    if left := max(summary.slices_left_out for summary in summaries):
        yield f"up to {left} slices make no whole group and are left out"
    if fit := summaries[0].due_fit:
        yield f"detected soft errors at {fit:g} FIT a slice count as well"


def _percent(share: Estimate) -> str:
    if math.isnan(share.value):
        return DASH
    value, lower, upper = (f"{100 * bound:.3g}" for bound in vars(share).values())
    return f"{value} [{lower}, {upper}]"
