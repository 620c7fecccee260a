"""A fifth study: electromigration of power rails, by the equation of Black; one declared measure.

All that it is shown by follows from the measure; only its figure is its own.
"""

from typing import ClassVar

import numpy as np

from mcage.random import stream
from mcage.report.figures.distributions import RowFigure, quantile_row, row_panel
from mcage.report.presentation import INTERVALS, Presentation
from mcage.results.header import PRESENTATIONS, DeclaredHeader, register, rule_of
from mcage.results.measures import Measure
from mcage.results.variable import Coordinate, Variable
from mcage.spec.keys import StudySpec
from mcage.spec.sections import Stopping
from mcage.studies.common import StudyOfSpec

VARIABLES = (
    Variable("rail_years", ("cooling", "instance"), "float64", "year", "life of the first rail"),
    Variable("cooling_watts", ("cooling", "instance"), "float64", "W", "power of the coolant"),
)
COOLING = Coordinate(Variable("cooling", ("cooling",), "text", "1", "coolant"), ("air", "water"))
BOLTZMANN_EV = 8.617e-5

LIFE = Measure(
    "rail_life_years",
    "life of the first rail [years]",
    ("rail_years",),
    lambda case: case["rail_years"],
    "life\n[years]",
    primary=True,
    compared=True,
    better="more",
    stops="rail_life",
    note="life: of the first rail that fails",
)


class RailsSpec(StudySpec):
    command: ClassVar[str] = "rails"

    instances: int = 100
    seed: int = 1
    kelvin: tuple[float, float] = (353.0, 338.0)
    activation_ev: float = 0.9
    stopping: Stopping | None = None


@register("gpu-rails")
class RailsHeader(DeclaredHeader):
    spec: ClassVar = RailsSpec
    maker: ClassVar[str] = f"{__name__}:Rails"
    measures: ClassVar = (LIFE,)


@register("gpu-rails", PRESENTATIONS)
class RailsPresentation(Presentation):
    instances = "GPUs"

    def figures(self, header, results):
        lives = zip(results["cooling"].values.tolist(), results["rail_years"].values, strict=True)
        panel = row_panel("", "life (years)", tuple(quantile_row(*of_case) for of_case in lives))
        yield RowFigure("rails", "Lives of rails", "Medians and quantiles.", panels=(panel,))

    def assumptions(self, header, results):
        return [("Rails", "Black's equation; lives are lognormal."), INTERVALS]


class Rails(StudyOfSpec):
    def __init__(self, spec):
        self.spec = spec

    @property
    def header(self):
        rule = rule_of(self.spec.stopping, VARIABLES, RailsHeader.measures)
        grid = {"name": "gpu-rails", "computes": VARIABLES, "labels": (COOLING,)}
        return RailsHeader(**grid, stopping=rule, **self.campaign(self.spec, self.spec.digest()))

    def compute(self, first, last):
        kelvin = np.array(self.spec.kelvin)
        factors = np.exp(self.spec.activation_ev / BOLTZMANN_EV * (1 / kelvin - 1 / 378))
        seed = self.spec.seed
        draws = [stream(seed, "rails", i).lognormal(1.0, 0.3) for i in range(first, last)]
        watts = np.array([[20.0], [60.0]]) * np.ones(last - first)
        return {"rail_years": factors[:, None] * np.array(draws), "cooling_watts": watts}
