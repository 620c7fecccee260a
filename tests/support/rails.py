"""A fourth study of whole GPUs: electromigration of power rails, by the equation of Black."""

import tomllib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcage.campaign.study import Study
from mcage.random import stream
from mcage.report.figures.distributions import RowFigure, quantile_row, row_panel
from mcage.report.presentation import INTERVALS, Presentation, Words
from mcage.report.tables import ResultTable, estimates, file_column, names
from mcage.results.header import PRESENTATIONS, DeclaredHeader, register
from mcage.results.variable import Coordinate, Variable
from mcage.spec.study_spec import StudySpec
from mcage.stats.estimates import Estimate, mean, plus_minus

LIFE = Variable("rail_years", ("cooling", "instance"), "float64", "year", "life of the first rail")
COOLING = Coordinate(Variable("cooling", ("cooling",), "text", "1", "coolant"), ("air", "water"))
BOLTZMANN_EV = 8.617e-5


class RailsSpec(StudySpec):
    command: ClassVar[str] = "rails"

    instances: int = 100
    seed: int = 1
    kelvin: tuple[float, float] = (353.0, 338.0)
    activation_ev: float = 0.9


@register("gpu-rails")
class RailsHeader(DeclaredHeader):
    spec: ClassVar = RailsSpec
    maker: ClassVar[str] = f"{__name__}:study_of_spec"


@dataclass
class Rails:
    cooling: str
    life: Estimate


@register("gpu-rails", PRESENTATIONS)
class RailsPresentation(Presentation):
    instances, grid, keys = "GPUs", ("cooling",), ("cooling",)

    def summarize(self, results):
        lives = zip(results["cooling"].values.tolist(), results["rail_years"].values, strict=True)
        return [Rails(name, mean(years)) for name, years in lives]

    def table_of(self, summaries, files=()):
        cooling = names("cooling", "cooling", [row.cooling for row in summaries])
        lives = estimates("life", "life [years]", [row.life for row in summaries], plus_minus)
        return ResultTable("Power rails", "means", (*file_column(files), cooling, lives))

    def figures(self, header, results, sheet):
        lives = zip(results["cooling"].values.tolist(), results["rail_years"].values, strict=True)
        panel = row_panel("", "life (years)", tuple(quantile_row(*of_case) for of_case in lives))
        return RowFigure("rails", "Lives of rails", "Medians and quantiles.").pages([panel], sheet)

    def words(self, header, results):
        air, water = (row.life.value for row in self.summarize(results))
        times = f"lengthens lives {water / air:.1f} times."
        return Words(f"The rails of {header.holds} GPUs.", (("Water", times),))

    def assumptions(self, header, results):
        return [("Rails", "Black's equation; lives are lognormal."), INTERVALS]


def study_of_spec(spec):
    grid = {"computes": (LIFE,), "labels": (COOLING,), "engine": "numpy"}
    text = {"spec_toml": spec.to_toml(), "spec_digest": spec.digest()}
    extent = {"seed": spec.seed, "instances": spec.instances}
    factors = np.exp(spec.activation_ev / BOLTZMANN_EV * (1 / np.array(spec.kelvin) - 1 / 378))

    def compute(first, last):
        draws = [stream(spec.seed, "rails", i).lognormal(1.0, 0.3) for i in range(first, last)]
        return {"rail_years": factors[:, None] * np.array(draws)}

    header = RailsHeader(name="gpu-rails", **grid, **text, **extent)
    return Study(header, compute, f"{__name__}:study_of_header")


def study_of_header(header):
    return study_of_spec(RailsSpec.from_mapping(tomllib.loads(header.spec_toml)))
