"""The spec of a study of Vmin: that of a sweep, the ages, and what a product is to be good for."""

from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from mcage.spec import SweepSpec
from mcage.spec.keys import Option, Section
from mcage.spec.sections import Life, Name, Stopping

USUAL_AGES_YEARS = (0.0, 1.0, 3.0, 5.0)
"""Ages at which Vmin is looked for by default, as far as they lie before the horizon."""


class VminTarget(Section):
    """At which ages Vmin is looked for, and what the Vdd of a product is to be good for."""

    panel: ClassVar = "Vmin"

    ages_years: Annotated[
        tuple[Annotated[float, Field(ge=0, le=100)], ...],
        Field(min_length=1, max_length=100),
        Option("--age YEARS", default="0, 1, 3 and 5 before the horizon, and the horizon"),
    ] = (*USUAL_AGES_YEARS, Life().horizon_years)
    """Ages in years, rising, at which Vmin is looked for; 0: new."""
    years: Annotated[
        Annotated[float, Field(ge=0, le=100)] | None,
        Option("--years YEARS", default="the last age"),
    ] = None
    """Age in years until which slices are to work; Vmin is looked for at that age, too."""
    share: Annotated[float, Field(gt=0, lt=1), Option("--share FRACTION")] = 0.999
    """Share of the slices that are to work until then."""
    lowest_volts: Annotated[
        Annotated[float, Field(gt=0, le=2)] | None,
        Option(
            "--lowest VOLTS",
            default="45 mV below that of the scenario, with a code 100 mV",
        ),
    ] = None
    """Lowest Vdd in V that is tried."""

    @model_validator(mode="after")
    def _rise(self) -> Self:
        if any(later <= earlier for earlier, later in pairwise(self.ages_years)):
            raise ValueError(f"ages_years = {list(self.ages_years)!r} must rise")
        return self

    @property
    def target_years(self) -> float:
        """Age until which slices are to work."""
        return self.ages_years[-1] if self.years is None else self.years

    @property
    def ages(self) -> tuple[float, ...]:
        """All ages, that of the target among them."""
        return tuple(sorted({*self.ages_years, self.target_years}))


class VminStopping(Stopping):
    """When a study of Vmin may end before its last slice."""

    of: Annotated[Name, Option("--of VARIABLE")] = "vmin_volts"
    """Variable whose means over the slices --rel-ci looks at: vmin_volts at each age,
    delay_life_years, or energy_saving_nominal at each Vdd."""


class VminSpec(SweepSpec):
    """Everything that decides the results of a study of Vmin: the keys of a sweep, and the ages."""

    command: ClassVar[str] = "vmin"

    instances: Annotated[int, Field(ge=1, le=10**9), Option("--instances N")] = 1000
    """Number of sampled slices."""
    environments: Annotated[
        tuple[Name, ...], Field(min_length=1), Option("--environment NAME", is_axis=True)
    ] = ("dvfs",)
    """Operating points at which slices age: turbo, undervolted, dvfs, or a name that SPEC
    defines."""
    vdd_volts: tuple[float, ...] = ()
    low_vdd: Literal["printed"] = "printed"
    stopping: VminStopping | None = None
    """Rule by which the study may end before it has computed all ``instances``."""
    vmin: VminTarget = VminTarget()

    @classmethod
    def plain(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Plain fields as for a sweep; without ages, the default ages lead up to the horizon."""
        fields = super().plain(fields)
        target, life = fields.get("vmin", {}), fields.get("life", {})
        horizon = life.get("horizon_years") if isinstance(life, dict) else None
        if not isinstance(horizon, int | float) or not isinstance(target, dict):
            return fields
        ages = [*(age for age in USUAL_AGES_YEARS if age < horizon), horizon]
        return fields | {"vmin": {"ages_years": ages} | target}

    @field_validator("vdd_volts")
    @classmethod
    def _looked_for(cls, vdd: tuple[float, ...]) -> tuple[float, ...]:
        if vdd:
            raise ValueError("the low Vdd of each slice is what is looked for; leave it out")
        return vdd

    @model_validator(mode="after")
    def _within_the_horizon(self) -> Self:
        section, horizon = self.vmin, self.life.horizon_years
        for name, last in (("ages_years", section.ages_years[-1]), ("years", section.target_years)):
            if last > horizon:
                value = getattr(section, name)
                raise ValueError(
                    f"vmin.{name} = {list(value) if isinstance(value, tuple) else value!r} must "
                    f"lie within life.horizon_years = {horizon:g}"
                )
        return self
