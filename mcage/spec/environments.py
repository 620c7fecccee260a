"""Environments that a user defines: their operating points, and what is refused of them."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator

from mcage.aging.environment import PRESETS
from mcage.distributions import Distribution
from mcage.plain_text import one_line, shortened
from mcage.spec.sections import Section, distribution_within

NAME = re.compile(r"[A-Za-z0-9_.+-]+")

KEY = "operating_points"
"""Key of a spec that defines environments; ``environments`` lists those that a sweep compares."""


def _vdd_or_scenario(given: Any) -> float | str:
    """Check a supply voltage; the word ``scenario`` stands for the low Vdd of the case."""
    if given == "scenario":
        return "scenario"
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 2:
        raise ValueError('must be a voltage above 0 and at most 2 V, or "scenario"')
    return float(given)


class Point(Section):
    """One operating point of an environment that a user defines."""

    vdd_volts: Annotated[float | str, BeforeValidator(_vdd_or_scenario)]
    """Supply voltage, or ``scenario`` for the low Vdd of the case."""
    share: Annotated[float | str | None, distribution_within(0, 1, "of the time")] = None
    """Fraction of the time spent at this point; None, for one point: the rest of the time."""
    temperature_offset_kelvin: float = 0.0
    """Temperature at this point minus `Life.temperature_kelvin`."""

    def vdd_in(self, scenario_vdd_volts: float) -> float:
        """Supply voltage of this point in a case, in volts.

        Parameters
        ----------
        scenario_vdd_volts : float
            Low Vdd of the case.
        """
        return scenario_vdd_volts if isinstance(self.vdd_volts, str) else self.vdd_volts

    @property
    def share_distribution(self) -> Distribution | None:
        """Distribution of `share` over instances; None: the rest of the time."""
        return None if self.share is None else Distribution.of(self.share)


def check_environments(
    environments: Mapping[str, Sequence[Point]], temperature: Distribution, swing: Distribution
) -> None:
    """Refuse environments whose names, time fractions or temperatures make no sense.

    Parameters
    ----------
    environments : mapping
        Operating points by name of the environment.
    temperature, swing : Distribution
        Temperature of a slice in kelvin, and the offset that is drawn for each epoch.

    Raises
    ------
    ValueError
        The message names the key and says what is wrong.
    """
    for name, points in environments.items():
        _check_name(name)
        _check_shares(f"{KEY}.{name}", [point.share_distribution for point in points])
        for number, point in enumerate(points):
            key = f"{KEY}.{name}.{number}.temperature_offset_kelvin"
            _check_offset(key, point.temperature_offset_kelvin, temperature, swing)


def _check_name(name: str) -> None:
    """Refuse the name of a preset, and a name that would make a label hard to read."""
    if name in PRESETS:
        raise ValueError(f"{KEY}.{name}: this is the name of a preset; choose another")
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{KEY}.{one_line(name)}: a name is of letters, digits, and any of _ . + -, "
            "without spaces"
        )


def _check_shares(key: str, shares: Sequence[Distribution | None]) -> None:
    """Refuse time fractions that cannot sum to 1; None takes the rest of the time."""
    given = [share for share in shares if share is not None]
    for number, share in enumerate(shares):
        if share is not None and share.bounds[0] <= 0:
            text = share.numbers[0] if share.is_constant else shortened(str(share))
            raise ValueError(f"{key}.{number}.share = {text}: must be above 0 in every instance")
    without = len(shares) - len(given)
    largest_sum = math.fsum(share.bounds[1] for share in given)
    if without > 1:
        raise ValueError(f"{key}: {without} points leave out their share; one may")
    if without and largest_sum >= 1:
        raise ValueError(
            f"{key}: the shares given may sum to {largest_sum:.10g}, and leave nothing to the "
            "point without one; they must stay below 1"
        )
    if without:
        return
    if not all(share.is_constant for share in given):
        raise ValueError(
            f"{key}: where a share is a distribution, one point must leave its share out, and "
            "gets the rest"
        )
    if abs(largest_sum - 1) > 1e-9:
        raise ValueError(
            f"{key}: shares sum to {largest_sum:.10g}, not to 1; one point may leave its share "
            "out, and gets the rest"
        )


def _check_offset(
    key: str, offset_kelvin: float, temperature: Distribution, swing: Distribution
) -> None:
    """Refuse a point that may be colder than 200 K or hotter than 450 K."""
    low, high = (
        kelvin + change + offset_kelvin
        for kelvin, change in zip(temperature.bounds, swing.bounds, strict=True)
    )
    if not 200 <= low <= high <= 450:
        raise ValueError(
            f"{key} = {offset_kelvin:g}: with life.temperature_kelvin and its swing, the point is "
            f"at {low:g} ... {high:g} K; it must stay within 200 ... 450 K"
        )
