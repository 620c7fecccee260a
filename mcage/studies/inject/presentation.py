"""How injections are shown: their table, their figures, and what they say in sentences."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from mcage.protection.policy import Protection
from mcage.report import tables
from mcage.report.cases import points_of
from mcage.report.presentation import INTERVALS, Assumptions, Presentation, Words
from mcage.results.header import Header
from mcage.stats import estimates
from mcage.studies.inject.outcomes import (
    DETECTED,
    NOT_RUN,
    OF_SLICES,
    SILENT,
    Fate,
    are_known,
)
from mcage.studies.inject.spec import FLIP, SINGLE, Inject, InjectSpec

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet


@dataclass(frozen=True)
class InjectSummary:
    """Injections of a case at an age.

    Parameters
    ----------
    case, technique, protection, environment, scenario : str
        Which.
    vdd_volts : float
        Its lowest supply voltage.
    age_years : float
        Age of the slices.
    injections : int
        How many; those that came to an instruction which is not emulated are left out of shares,
        and of flips those of slices that are not in use.
    masked, sdc, sdc_beyond, due, address, limit, code, retired : Estimate
        Shares of the injections: nothing is wrong; silently wrong; so beyond the tolerance;
        detected, which is by an address, by the limit of instructions or by a code; slices not in
        use any more.
    not_emulated : int
        Injections that came to an instruction which is not emulated.
    needed, injected : float, Estimate
        Of flips: AVF of the register file by ACE, and as injected: the former times the share that
        is not masked; NaN of flips of several cells, and of slices.
    sdc_fit, due_fit : Estimate
        Of flips: rates of silently wrong runs and of detected ones, in FIT of a slice that runs
        the kernel. NaN otherwise, and of flips of single cells with a code: those of check bits
        and of bits that are not needed, which are detected beside a stuck cell, are not drawn.
    allocated : float
        Share of the register file in allocated windows.
    single_bit, not_finite : Estimate
        Of the silently wrong ones: those whose wrong elements differ in one bit each, and those
        with an infinite number or none; NaN if there are no wrong ones.
    silent_until, told_until : Estimate
        Slices that have been silently wrong by this age, before anything had told; and those of
        which something has told by then. NaN of flips.
    silent_faults, before_exchange : Estimate, optional
        Times that new faults give a silently wrong answer over the life of a slice, on the mean:
        before anything tells, and before the exchange rule acts. NaN of flips; None of ages but the
        last, until which a life is counted.
    """

    case: str
    technique: str
    protection: str
    environment: str
    scenario: str
    vdd_volts: float
    age_years: float
    injections: int
    masked: estimates.Estimate
    sdc: estimates.Estimate
    sdc_beyond: estimates.Estimate
    due: estimates.Estimate
    address: estimates.Estimate
    limit: estimates.Estimate
    code: estimates.Estimate
    retired: estimates.Estimate
    not_emulated: int
    needed: float
    injected: estimates.Estimate
    sdc_fit: estimates.Estimate
    due_fit: estimates.Estimate
    allocated: float
    single_bit: estimates.Estimate
    not_finite: estimates.Estimate
    silent_until: estimates.Estimate
    told_until: estimates.Estimate
    silent_faults: estimates.Estimate | None
    before_exchange: estimates.Estimate | None


_FLIPS = (
    "One bit that is needed,",
    "Neighbouring cells of a row, of which at least one is needed, or lies in a needed word of a "
    "code,",
)
"""Flips of a single cell, and of several."""

UNKNOWN = estimates.Estimate(math.nan, math.nan, math.nan)


class InjectPresentation(Presentation):
    """How injections are shown."""

    instances = "injections"
    grid = ("case",)
    keys = ("technique", "protection", "environment", "scenario", "vdd_volts", "case")

    def summarize(self, results: xr.Dataset) -> list[InjectSummary]:
        """Summarize all cases and ages, in the order of the file.

        Parameters
        ----------
        results : xarray.Dataset
            As `mcage.results.reader.open_results` returns it.
        """
        cases, ages = points_of(results), results["age"].values.tolist()
        dims = ("case", "instance", "age")
        arrays = {
            name: results[name].transpose(*dims).values
            for name in ("fate", "wrong_bits", "not_finite")
        }
        asked = _asked(results).inject
        is_flip = asked.fault == FLIP
        names = ["flip_attempts"] if is_flip else [variable.name for variable in OF_SLICES]
        lives = {name: results[name].transpose("case", "instance").values for name in names}
        return [
            _summary(
                {name: array[row] for name, array in (arrays | lives).items()},
                named,
                (column, age),
                float(results["needed_share"].values[row]) if is_flip else math.nan,
                float(results["allocated_share"].values[row]),
                _drawn_fit(results, row, asked) if is_flip else math.nan,
                asked.upset == SINGLE,
            )
            for row, named in enumerate(cases)
            for column, age in enumerate(ages)
        ]

    def table_of(
        self, summaries: Sequence[InjectSummary], files: Sequence[Path] = ()
    ) -> tables.ResultTable:
        """Table of cases and ages, of several files where there are paths."""

        def shares(key: str, heading: str, primary: bool = True) -> tables.Column:
            of = [getattr(row, key) for row in summaries]
            return tables.estimates(key, heading, of, _percent, primary=primary)

        is_flip = not math.isnan(summaries[0].needed)
        has_ages = len({row.age_years for row in summaries}) > 1 or not is_flip
        columns = [
            *tables.file_column(files),
            tables.names("case", "case", [row.case for row in summaries], groups=has_ages),
            *tables.hidden_names(summaries, self.keys[:-2]),
            tables.numbers("vdd_volts", "", [row.vdd_volts for row in summaries]),
        ]
        if has_ages:
            ages = [row.age_years for row in summaries]
            columns.append(
                tables.numbers("age_years", "age\n[years]", ages, "{:g}".format, primary=True)
            )
        if not is_flip:
            columns += [
                shares("silent_until", "SDC so far\n[%]"),
                shares("told_until", "told so far\n[%]"),
                tables.estimates(
                    "before_exchange",
                    "SDC before\nexchange",
                    [row.before_exchange for row in summaries],
                    estimates.plus_minus,
                ),
            ]
        columns += [
            shares("masked", "masked\n[%]", primary=is_flip),
            shares("sdc", "SDC\n[%]"),
            shares("sdc_beyond", "beyond\n[%]", primary=False),
            shares("due", "DUE\n[%]"),
            shares("address", "address\n[%]", primary=False),
            shares("limit", "limit\n[%]", primary=False),
            shares("code", "code\n[%]", primary=False),
        ]
        if is_flip:
            needed = [100 * row.needed for row in summaries]
            columns += [
                tables.numbers("needed", "AVF by ACE\n[%]", needed, "{:.3g}".format),
                shares("injected", "AVF injected\n[%]"),
                *(
                    tables.estimates(key, f"{what}\n[FIT]", of, estimates.with_bounds)
                    for key, what, of in (
                        ("sdc_fit", "SDC", [row.sdc_fit for row in summaries]),
                        ("due_fit", "DUE", [row.due_fit for row in summaries]),
                    )
                ),
            ]
        if not is_flip or any(row.retired.value for row in summaries):
            columns.append(shares("retired", "retired\n[%]", primary=False))
        if any(row.not_emulated for row in summaries):
            lost = [row.not_emulated for row in summaries]
            columns.append(tables.numbers("not_emulated", "not\nemulated", lost, primary=True))
        columns += [
            shares("single_bit", "one bit\n[% of SDC]", primary=False),
            shares("not_finite", "inf, NaN\n[% of SDC]", primary=False),
        ]
        return tables.ResultTable("Injections", _caption(is_flip), tuple(columns))

    def figures(
        self, header: Header, results: xr.Dataset, sheet: "Sheet"
    ) -> "Iterator[ReportFigure | AbsentFigure]":
        """Outcomes by bit and register of flips, or wrong answers of slices by age."""
        from mcage.studies.inject import figures

        draw = figures.of_flips if "flip_bit" in results else figures.of_slices
        return draw(results, sheet)

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """What the report says in sentences."""
        spec = _asked(results)
        outcomes = []
        for row in self.summarize(results):
            if row.age_years != results["age"].values[-1]:
                continue
            said = f"{_percent(row.sdc)} % silently wrong, {_percent(row.sdc_beyond)} % beyond "
            said += f"{spec.inject.tolerance:g} of the largest value"
            if not math.isnan(row.needed):
                said += f"; AVF {100 * row.needed:.3g} % by ACE"
                if not math.isnan(row.injected.value):
                    said += f", {_percent(row.injected)} % injected"
                if not math.isnan(row.sdc_fit.value):
                    rate = estimates.with_bounds(row.sdc_fit)
                    said += f"; {rate} FIT of a slice silently wrong"
            else:
                times = estimates.plus_minus(row.before_exchange or UNKNOWN)
                said += (
                    f"; until then so before anything told: {_percent(row.silent_until)} %; times "
                    f"before the exchange rule acts: {times}"
                )
            outcomes.append((row.case, said))
        what = "flips of needed bits" if spec.inject.fault == FLIP else "slices with their faults"
        program = Path(spec.program.source).name
        return Words(
            f"{header.holds:,} {what} under {program} on {spec.program.arch}.", tuple(outcomes)
        )

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """What is assumed."""
        spec: InjectSpec = InjectSpec.from_mapping(tomllib.loads(header.spec_toml))
        assumed = [
            (
                "Scope",
                "The register file of one SIMD unit alone: no logic, no caches, no scalar "
                "registers; one kernel, with its inputs.",
            ),
            (
                "Detection",
                "An address in a page of 4 KiB without a buffer, three times the instructions, or "
                "a code. No program checks its own results.",
            ),
        ]
        if spec.inject.fault == FLIP:
            assumed.append(
                (
                    "Flips",
                    f"{_FLIPS[spec.inject.upset != SINGLE]} at any moment, each as likely as its "
                    "rate says; rates of 28 and 16 nm are recalled or extrapolated: worth a factor "
                    "of two.",
                )
            )
        elif spec.inject.stuck_cells is not None:
            assumed.append(
                (
                    "Faulty cells",
                    "Those of a file, which also says what each gives, or that it is drawn. They "
                    "are faulty from the beginning, and no test has found them.",
                )
            )
        else:
            assumed.append(
                (
                    "Faulty cells",
                    "Each gives the value of its transistor that has shifted less, or a drawn one "
                    "if it is faulty when new; tests find faulty cells at intervals of "
                    f"{spec.inject.test_interval_years:g} years.",
                )
            )
        return [*assumed, INTERVALS]


def _asked(results: xr.Dataset) -> InjectSpec:
    return InjectSpec.from_mapping(tomllib.loads(results.attrs["spec"]))


def _drawn_fit(results: xr.Dataset, row: int, asked: Inject) -> float:
    """Rate of the upsets that flips are drawn from; NaN where not all of them are drawn."""
    protection = Protection.of(str(results["protection"].values[row]))
    if asked.upset == SINGLE and protection.code is not None:
        return math.nan
    return float(results["drawn_fit"].values[row])


def _summary(
    arrays: dict[str, NDArray[Any]],
    named: Mapping[str, Any],
    age: tuple[int, float],
    needed: float,
    allocated: float,
    drawn_fit: float,
    is_single: bool,
) -> InjectSummary:
    column, age_years = age
    fate = arrays["fate"][:, column]
    is_flip = not math.isnan(needed)
    left_out = NOT_RUN if is_flip else (Fate.NOT_EMULATED,)
    counted = ~np.isin(fate, left_out)
    count = int(counted.sum())

    def share(*fates: Fate) -> estimates.Estimate:
        if not count:
            return UNKNOWN
        return estimates.proportion(int(np.isin(fate, fates).sum()), count)

    def rate(fates: Sequence[Fate]) -> estimates.Estimate:
        """Rate in FIT: a share of all upsets that were drawn."""
        if math.isnan(drawn_fit) or not count:
            return UNKNOWN
        drawn = int(arrays["flip_attempts"][counted].sum())
        of = estimates.proportion(int(np.isin(fate, fates).sum()), drawn)
        return estimates.Estimate(*(drawn_fit * each for each in vars(of).values()))

    masked = share(Fate.MASKED)
    silent = np.isin(fate, SILENT)
    wrong_bits = arrays["wrong_bits"][silent, column]
    lost = arrays["not_finite"][silent, column]

    def of_silent(chosen: NDArray[Any]) -> estimates.Estimate:
        return estimates.proportion(int(chosen.sum()), len(chosen)) if len(chosen) else UNKNOWN

    injected = UNKNOWN
    if is_flip and is_single and count:
        injected = estimates.Estimate(
            *(needed * (1 - each) for each in (masked.value, masked.upper, masked.lower))
        )
    by_age, of_life = [UNKNOWN] * 2, [UNKNOWN] * 2
    if not is_flip:
        by_age, of_life = _of_slices(arrays, age_years)
    is_last = column == arrays["fate"].shape[1] - 1
    return InjectSummary(
        **{name: named[name] for name in InjectPresentation.keys},
        age_years=age_years,
        injections=len(fate),
        masked=masked,
        sdc=share(*SILENT),
        sdc_beyond=share(Fate.SDC),
        due=share(*DETECTED),
        address=share(Fate.ADDRESS),
        limit=share(Fate.LIMIT),
        code=share(Fate.CODE),
        retired=estimates.proportion(int((fate == Fate.RETIRED).sum()), len(fate)),
        not_emulated=int((fate == Fate.NOT_EMULATED).sum()),
        needed=needed,
        injected=injected,
        sdc_fit=rate(SILENT),
        due_fit=rate(DETECTED),
        allocated=allocated,
        single_bit=of_silent(wrong_bits == 1),
        not_finite=of_silent(lost > 0),
        silent_until=by_age[0],
        told_until=by_age[1],
        silent_faults=of_life[0] if is_last else None,
        before_exchange=of_life[1] if is_last else None,
    )


def _of_slices(
    arrays: dict[str, NDArray[Any]], age_years: float
) -> tuple[list[estimates.Estimate], list[estimates.Estimate]]:
    """Shares of slices by an age, and means over their lives; of slices whose fates are known."""
    known = are_known(arrays["fate"])
    if not known.any():
        return [UNKNOWN] * 2, [UNKNOWN] * 2
    by_age = [arrays[name][known] <= age_years for name in ("silent_years", "told_years")]
    shares = [estimates.proportion(int(happened.sum()), len(happened)) for happened in by_age]
    names = ("silent_faults", "silent_before_exchange")
    return shares, [estimates.mean(arrays[name][known].astype(np.float64)) for name in names]


def _percent(share: estimates.Estimate) -> str:
    return estimates.with_bounds(share, 100)


def _caption(is_flip: bool) -> str:
    common = (
        "SDC: the run ends with wrong memory, and nothing tells; beyond: by more than the "
        "tolerance; DUE: detected by an address, a limit of instructions, or a code. "
    )
    if is_flip:
        return common + (
            "Flips reach needed bits, several cells with a code any cell of a needed word; AVF: of "
            "all bits of the register file, by ACE, and as injected: not masked; FIT: of a slice "
            "while it runs the kernel. Slices that are not in use (retired) are left out. Wilson's "
            "95 % intervals."
        )
    return common + (
        "Retired: a test has found that the slice cannot run, its technique finds no room or is "
        "slower than life.slowdown_limit, or its delay has used up the guardband. So far: of "
        "slices that have ever given a silently wrong answer by this age before anything told, and "
        "of those of which something has told. Before exchange: times that new faults give a "
        "silently wrong answer over a life, before the exchange rule acts; beside the last age. "
        "Slices that came to an instruction which is not emulated are left out."
    )
