"""How studies of SM gating are shown: their figures, and what they say in sentences."""

import math
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from mcage.errors import UserError
from mcage.report.cases import names_in
from mcage.report.presentation import INTERVALS, LEFT_OUT, Assumptions, Presentation, Words
from mcage.results.header import Header
from mcage.stats.estimates import Estimate, life, mean, plus_minus, with_bounds

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, ReportFigure, Sheet


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

    def words(self, header: Header, results: xr.Dataset) -> Words:
        """Which policy needs the smallest margin, and how many GPUs live."""
        policies, summaries = names_along(results, "policy"), self.summarize(results)
        horizon = float(results["age"].values[-1])
        margins = results["margin_needed"].values[:, :, -1]
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
        for name, of in zip(policies, summaries, strict=True):
            outcomes.append(
                (
                    name,
                    f"half of the GPUs live {age_in_words(of.median_life_years, horizon)} years; "
                    f"{with_bounds(of.alive, 100)} % reach the horizon, and delay ends the lives "
                    "of the others.",
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
