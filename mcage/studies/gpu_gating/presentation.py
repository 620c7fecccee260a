"""How studies of SM gating are shown: their figures, and what they say in sentences."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import xarray as xr

from mcage.errors import UserError
from mcage.report.presentation import INTERVALS, LEFT_OUT, Assumptions, Presentation
from mcage.results.header import Header

if TYPE_CHECKING:
    from mcage.report.figures.canvas import AbsentFigure, Plot


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
    """Assumptions of SM gating, by the plain values of its spec."""
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

    def figures(self, header: Header, results: xr.Dataset) -> "Iterator[Plot | AbsentFigure]":
        """The figures of a results file, one by one."""
        from mcage.studies.gpu_gating.figures import draw

        return draw(results)

    def assumptions(self, header: Header, results: xr.Dataset) -> Assumptions:
        """Models, limits and choices of the spec."""
        return [*assumptions_of_gating(spec_of(header)), INTERVALS]
