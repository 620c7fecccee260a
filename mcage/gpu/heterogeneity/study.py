"""A study of heterogeneous structures: from its spec to the arrays of any range of draws."""

import tomllib
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.study import Study
from mcage.gpu.heterogeneity.aging import Conditions
from mcage.gpu.heterogeneity.benchmarks import benchmarks_called
from mcage.gpu.heterogeneity.designs import (
    BASELINE,
    DESIGNS,
    DUPLICATION,
    PROPOSAL,
    Design,
    DesignDelays,
    HeterogeneousGpu,
    nbti_efficiency,
)
from mcage.gpu.heterogeneity.draws import Draws, draw
from mcage.gpu.heterogeneity.l2 import SequentialL2
from mcage.gpu.heterogeneity.parts import FIELDS, parts
from mcage.gpu.heterogeneity.scheduler import Reading, TwoStage
from mcage.gpu.heterogeneity.spec import HeterogeneitySpec
from mcage.gpu.heterogeneity.variables import DESIGN, INPUTS, READING, VARIABLES
from mcage.gpu.stopping import stopping_rule
from mcage.results.header import SCHEMA_VERSION, DeclaredHeader, Header
from mcage.results.variable import Coordinate
from mcage.results.writer import Arrays
from mcage.version import running_code

FEWEST_DRAWS = 1024
"""Draws of a shard at least."""

Array = NDArray[np.generic]


@dataclass(frozen=True, kw_only=True)
class HeterogeneityHeader(DeclaredHeader):
    """A study of heterogeneous structures as its files know it."""

    command: ClassVar[str] = "mcage gpu heterogeneity"
    table: ClassVar[str] = "mcage.report.tables.gpu.heterogeneity"


class Heterogeneity:
    """A study of heterogeneous structures.

    Parameters
    ----------
    spec : HeterogeneitySpec
        What to compute.

    Raises
    ------
    UserError
        A benchmark is unknown.
    """

    def __init__(self, spec: HeterogeneitySpec) -> None:
        self.spec = spec
        self.benchmarks = benchmarks_called(spec.scheduler.benchmarks)
        self._kinds = {name: parts(name) for name in FIELDS}

    @cached_property
    def header(self) -> HeterogeneityHeader:
        """What files say about the study."""
        spec = self.spec
        return HeterogeneityHeader(
            name="gpu-heterogeneity",
            computes=VARIABLES,
            labels=(Coordinate(READING, spec.readings), Coordinate(DESIGN, DESIGNS)),
            spec_toml=spec.to_toml(),
            spec_digest=spec.digest(str(SCHEMA_VERSION), repr(self.benchmarks), repr(self._kinds)),
            seed=spec.seed,
            instances=spec.instances,
            engine="numpy",
            stopping=stopping_rule(spec.stopping, VARIABLES),
            codes=(running_code(),),
        )

    @property
    def study(self) -> Study:
        """The study as campaigns know it."""
        maker = f"{__name__}:{study_of_header.__name__}"
        return Study(self.header, self.compute, maker, FEWEST_DRAWS)

    def compute(self, first: int, last: int) -> Arrays:
        """Arrays of the draws ``first`` ... ``last`` - 1, as `VARIABLES` declare them.

        They are finite: within the ranges of the spec no transistor ages until it cannot switch.
        """
        draws = draw(self.spec, self.benchmarks, np.arange(first, last))
        of_readings = [self._outputs(reading, draws) for reading in self.spec.readings]
        arrays: dict[str, Array] = {
            variable.name: getattr(draws, variable.name).astype(variable.dtype)
            for variable in INPUTS
        }
        arrays["delay"] = _of_designs(draws.proposal_delay, draws.duplication_delay)
        arrays["power"] = _of_designs(draws.proposal_power, draws.duplication_power)
        for name in of_readings[0]:
            arrays[name] = np.stack([outputs[name] for outputs in of_readings])
        return {variable.name: arrays[variable.name] for variable in VARIABLES}

    def _outputs(self, reading: Reading, draws: Draws) -> dict[str, Array]:
        """What is computed under a reading."""
        aged = {design: self._aged(reading, draws, design) for design in DESIGNS}
        delay = _of_designs(draws.proposal_delay, draws.duplication_delay)
        power = _of_designs(draws.proposal_power, draws.duplication_power)
        largest = np.stack([aged[design].largest for design in DESIGNS])
        efficiency = nbti_efficiency(delay, largest, power)
        aging = nbti_efficiency(1.0, largest, 1.0)
        relative = efficiency / efficiency[0]
        return {
            "scheduler_delay": np.stack([aged[design].scheduler for design in DESIGNS]),
            "l2_delay": np.stack([aged[design].l2 for design in DESIGNS]),
            "second_stage_delay": aged[PROPOSAL].finfet_scheduler,
            "first_stage_delay": aged[PROPOSAL].planar_scheduler,
            "data_array_delay": aged[PROPOSAL].finfet_l2,
            "tags_delay": aged[PROPOSAL].planar_l2,
            "efficiency": relative,
            "break_even": aging[0] / aging,
            "order_holds": (
                (relative[DESIGNS.index(PROPOSAL)] < relative[DESIGNS.index(BASELINE)])
                & (relative[DESIGNS.index(BASELINE)] < relative[DESIGNS.index(DUPLICATION)])
            ).astype(np.int8),
        }

    def _aged(self, reading: Reading, draws: Draws, design: Design) -> DesignDelays:
        """Delay increases of a design, each instance with its own field constants."""
        swapped, common = (
            HeterogeneousGpu(
                kinds=self._kinds[name],
                conditions=Conditions(
                    years=draws.years, temperature_kelvin=draws.temperature_kelvin
                ),
                two_stage=TwoStage(
                    reading, draws.base_duty, draws.theta_kelvin, draws.activation_ev
                ),
                sequential=SequentialL2(base_duty=draws.l2_base_duty, count_fills=draws.fills),
                scheduler_delay=draws.scheduler_delay,
                l2_delay=draws.l2_delay,
            ).delays(design, draws.filter_rate, draws.miss_rate)
            for name in FIELDS
        )
        selected = [
            np.where(draws.common_field, getattr(common, part.name), getattr(swapped, part.name))
            for part in fields(DesignDelays)
        ]
        return DesignDelays(*selected)


def study_of_spec(spec: HeterogeneitySpec) -> Study:
    """The study of a spec."""
    return Heterogeneity(spec).study


def study_of_header(header: Header) -> Study:
    """The study of a header, as another process makes it."""
    return study_of_spec(HeterogeneitySpec.from_mapping(tomllib.loads(header.spec_toml)))


def _of_designs(
    proposal: NDArray[np.float64], duplication: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rows in the order of `DESIGNS`; 1 for the baseline."""
    return np.stack([np.ones_like(proposal), proposal, duplication])
