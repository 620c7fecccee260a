"""How studies of SM gating are shown: their table, and what it says in sentences."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report import tables
from mcage.report.cases import names_in
from mcage.report.presentation import (
    INTERVALS,
    LEFT_OUT,
    Assumptions,
    Presentation,
    Words,
)
from mcage.results.header import Header
from mcage.stats.estimates import (
    CONFIDENCE,
    Estimate,
    life,
    mean,
    plus_minus,
    proportion,
    with_bounds,
)
from mcage.stats.survival import life_quantile

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet

# The table of a study of whole GPUs: margins, lives, powers under each policy.

HIGH_QUANTILE = 0.99


@dataclass(frozen=True)
class GpuSummary:
    """Lives of GPUs under a policy.

    Parameters
    ----------
    policy : str
        The policy.
    instances : int
        GPUs.
    horizon_years : float
        Simulated time.
    median_margin, high_margin : Estimate
        Delay margin that half of the GPUs, and 99 % of them, need at the horizon.
    median_life : Estimate
        Years after which half of the GPUs need more than the guardband.
    alive : Estimate
        Share of the GPUs that reach the horizon.
    max_dvth_mv : Estimate
        Largest shift of an SM at the horizon, mV; mean over GPUs.
    slowdown : Estimate
        Extra execution time, mean over GPUs.
    sm_power_w : Estimate
        Power of all SMs, W; mean over GPUs.
    """

    policy: str
    instances: int
    horizon_years: float
    median_margin: Estimate
    high_margin: Estimate
    median_life: Estimate
    alive: Estimate
    max_dvth_mv: Estimate
    slowdown: Estimate
    sm_power_w: Estimate


def gpus_in_words(header: Header, results: xr.Dataset, horizon: float) -> str:
    """What a study of GPUs simulated."""
    kinds = [f"{len(names_along(results, 'policy'))} policies that assign SMs"]
    if "technique" in results.dims:
        kinds.append(f"{results.sizes['technique']} techniques of the register files")
    return (
        f"The lives of {header.holds:,} GPUs under {' and '.join(kinds)}, up to a horizon of "
        f"{horizon:g} years, with seed {header.seed}. Instance i is the same GPU everywhere, so "
        "that differences are taken GPU by GPU."
    )


def names_along(results: xr.Dataset, dimension: str) -> list[str]:
    """Names for people of the places along a dimension."""
    told = names_in(results)
    return [told.get(name, name) for name in map(str, results[dimension].values.tolist())]


def age_in_words(age: Estimate, horizon: float) -> str:
    """An age with its interval; longer than the horizon where it is not known."""
    if math.isinf(age.value):
        return f"longer than {horizon:g}"
    return life(age, horizon)


def spec_of(header: Header) -> dict[str, Any]:
    """Plain values of the spec of a results file.

    Raises
    ------
    UserError
        It is not TOML.
    """
    try:
        return tomllib.loads(header.spec_toml)
    except tomllib.TOMLDecodeError as error:
        raise UserError("attribute spec: is not TOML") from error


def assumptions_of_gating(spec: Mapping[str, Any], pbti: object = 0) -> Assumptions:
    """What SM gating assumes, by the plain values of its spec."""
    life, variation, temperature = spec["life"], spec["variation"], spec["temperature"]
    sigmas = ", ".join(
        f"{words} {variation[f'sigma_{name}_mv']:g} mV"
        for name, words in (
            ("die", "from die to die"),
            ("systematic", "correlated over a die"),
            ("random", "from SM to SM"),
        )
    )
    air = (
        f"{temperature['fixed_kelvin']} K for all SMs"
        if temperature["model"] == "fixed"
        else "from a thermal network of the GPU"
    )
    spares = life["spare_sms"]
    spare = f"More than {spares} SMs are" if spares else "An SM is"
    return [
        ("GPU", f"{spec['gpu']}; kernels {spec['workload']['kernels']}."),
        ("Aging", f"NBTI by the model {spec['aging']['model']}; stress while an SM is on."),
        (
            "End of life",
            f"{spare} slower than the slowest new SM by more than the guardband of "
            f"{100 * life['delay_guardband']:.4g} %. Lives that reach the "
            "horizon are censored: they are longer, nobody knows how much.",
        ),
        ("Process variation", f"Standard deviations of the threshold voltage: {sigmas}."),
        ("Temperature", f"{air[0].upper()}{air[1:]}."),
        (
            "Execution time",
            f"The time model of the paper, reading {spec['time_model']['reading']}.",
        ),
        ("Left out", f"{'PBTI, ' * (not pbti)}{LEFT_OUT}."),
    ]


class GatingPresentation(Presentation):
    """How studies of SM gating are shown."""

    instances = "GPUs"
    grid = ("policy",)
    keys = ("policy",)

    def summarize(self, results: xr.Dataset) -> list[GpuSummary]:
        """Summarize all policies, in the order of the file.

        Parameters
        ----------
        results : xarray.Dataset
            As `mcage.results.reader.open_results` returns it.
        """
        summaries = []
        years = results["age"].values
        for place, name in enumerate(results["policy"].values.tolist()):
            of_policy = results.isel(policy=place)
            margins = of_policy["margin_needed"].values[:, -1]
            died = of_policy["end_cause"].values != 0
            everywhere = np.ones(len(margins), np.bool_)
            summaries.append(
                GpuSummary(
                    policy=str(name),
                    instances=len(margins),
                    horizon_years=float(years[-1]),
                    median_margin=life_quantile(margins, everywhere, 0.5),
                    high_margin=life_quantile(margins, everywhere, HIGH_QUANTILE),
                    median_life=life_quantile(of_policy["life_years"].values, died, 0.5),
                    alive=proportion(int((~died).sum()), len(died)),
                    max_dvth_mv=mean(of_policy["max_dvth_mv"].values[:, -1]),
                    slowdown=mean(of_policy["slowdown"].values),
                    sm_power_w=mean(of_policy["sm_power_w"].values),
                )
            )
        return summaries

    def table_of(
        self, summaries: Sequence[GpuSummary], files: Sequence[Path] = ()
    ) -> tables.ResultTable:
        """Table of the policies, of several files where their paths are given."""
        horizons = [row.horizon_years for row in summaries]
        instances = [row.instances for row in summaries]

        def in_percent(of: Estimate) -> str:
            return plus_minus(of, 100)

        def bounds_in_percent(of: Estimate) -> str:
            return with_bounds(of, 100)

        def of(name: str) -> list[Estimate]:
            return [getattr(row, name) for row in summaries]

        return tables.ResultTable(
            title=f"{tables.span(instances)} GPUs, {tables.span(horizons)} years",
            caption=f"{CONFIDENCE:.0%} intervals; margin: delay at the horizon over that of the "
            "slowest new SM, less 1: what half of the GPUs, and 99 % of them, need; max. dVth: of "
            "an SM at the horizon",
            columns=(
                *tables.file_column(files),
                tables.names("policy", "policy", [row.policy for row in summaries]),
                tables.numbers("instances", "", instances),
                tables.numbers("horizon_years", "", horizons),
                tables.estimates(
                    "median_margin",
                    "median\nmargin [%]",
                    of("median_margin"),
                    bounds_in_percent,
                    primary=True,
                ),
                tables.estimates(
                    "high_margin", "margin of\n99 % [%]", of("high_margin"), bounds_in_percent
                ),
                tables.ages(
                    "median_life_years",
                    "median life\n[years]",
                    of("median_life"),
                    horizons,
                    primary=True,
                ),
                tables.estimates("alive", "alive\n[%]", of("alive"), bounds_in_percent),
                tables.estimates(
                    "max_dvth_mv", "max. dVth\n[mV]", of("max_dvth_mv"), plus_minus, primary=True
                ),
                tables.estimates("slowdown", "slowdown\n[%]", of("slowdown"), in_percent),
                tables.estimates("sm_power_w", "SMs\n[W]", of("sm_power_w"), plus_minus),
            ),
        )

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """Which policy needs the smallest margin, and how many GPUs live."""
        policies = names_along(results, "policy")
        years = results["age"].values
        horizon = float(years[-1])
        margins = results["margin_needed"].values[:, :, -1]
        lives = results["life_years"].values
        died = results["end_cause"].values != 0
        outcomes = []
        means = margins.mean(axis=1)
        if len(policies) > 1:
            best = int(np.argmin(means))
            reference = 0 if best else int(np.argsort(means)[1])
            gain = mean(margins[reference] - margins[best])
            outcomes.append(
                (
                    f"Margin after {horizon:g} years",
                    f"smallest under {policies[best]}, {plus_minus(mean(margins[best]), 100)} % on "
                    f"average, {plus_minus(gain, 100)} percentage points less than under "
                    f"{policies[reference]} on the same GPUs.",
                )
            )
        for place, name in enumerate(policies):
            median = life_quantile(lives[place], died[place], 0.5)
            alive = proportion(int(np.count_nonzero(~died[place])), died.shape[1])
            outcomes.append(
                (
                    name,
                    f"half of the GPUs live {age_in_words(median, horizon)} years; "
                    f"{with_bounds(alive, 100)} % reach the horizon, and delay ends the lives of "
                    "the others.",
                )
            )
        return Words(gpus_in_words(header, results, horizon), tuple(outcomes))

    def figures(
        self, header: Header, results: xr.Dataset, sheet: "Sheet"
    ) -> "Iterator[ReportFigure | AbsentFigure]":
        """Draw the figures of a results file, one by one."""
        from mcage.studies.gpu_gating.figures import draw

        return draw(results, sheet)

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Models, limits and choices of the spec."""
        return [*assumptions_of_gating(spec_of(header)), INTERVALS]
