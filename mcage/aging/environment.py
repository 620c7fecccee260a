"""Operating points of a life, and the delay of a shifted transistor.

Three environments are presets; others are made of user-defined operating points. Aging accumulates
over all operating points; a cell must hold its value at the lowest Vdd; delay is judged at the
highest.
"""

import math
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.errors import UserError

PRESETS = ("turbo", "undervolted", "dvfs")
"""Names of the environments that need no definition."""

PRESETS_AT_SCENARIO_VDD = ("undervolted", "dvfs")
"""Presets with an operating point at the low Vdd of the scenario."""

NOMINAL_VDD_VOLTS = 1.0  # printed by Chen et al., DAC 2014; assumed for Valero et al., IEEE TC 2019
DVFS_HIGH_VDD_VOLTS = 0.8  # reconstructed from the static power of Toca-Díaz et al. (RRCD)
DVFS_HIGH_FRACTION = 0.5  # assumed
TEMPERATURE_KELVIN = 353.15  # assumed


@dataclass(frozen=True)
class OperatingPoint:
    """A supply voltage, the fraction of the time spent there, and how hot the slice is then.

    Parameters
    ----------
    vdd_volts : float
        Supply voltage in volts, above 0 and at most 2.
    time_fraction : float
        Fraction of the time, above 0 and at most 1.
    temperature_kelvin : float
        Temperature of the slice in kelvin, of instances that are given no other.
    temperature_offset_kelvin : float
        Kelvin by which the slice is hotter at this point than elsewhere. With this offset, the
        temperature must be 200 ... 450 K.

    Raises
    ------
    UserError
        If a value is out of its range.
    """

    vdd_volts: float
    time_fraction: float
    temperature_kelvin: float
    temperature_offset_kelvin: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.vdd_volts <= 2:
            raise UserError(
                f"operating point: vdd_volts = {self.vdd_volts} must be above 0 and at most 2 V"
            )
        if not 0 < self.time_fraction <= 1:
            raise UserError(
                f"operating point: time_fraction = {self.time_fraction} must be above 0 and at "
                "most 1"
            )
        hot = self.temperature_kelvin + self.temperature_offset_kelvin
        if not 200 <= hot <= 450:
            raise UserError(
                f"operating point: temperature_kelvin = {hot} "
                "must be 200 ... 450 K (kelvin, not degrees Celsius)"
            )


@dataclass(frozen=True)
class Environment:
    """The operating points of a life; their time fractions sum to 1.

    Parameters
    ----------
    name : str
        Name of a preset, or of a user-defined environment.
    points : tuple of OperatingPoint
        At least one.

    Raises
    ------
    UserError
        If there is no point or the time fractions do not sum to 1.
    """

    name: str
    points: tuple[OperatingPoint, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise UserError(f"environment '{self.name}' needs at least one operating point")
        total = math.fsum(point.time_fraction for point in self.points)
        if abs(total - 1) > 1e-9:
            raise UserError(
                f"environment '{self.name}': the time fractions of its operating points sum to "
                f"{total:.10g}, not to 1"
            )

    @property
    def lowest_vdd_volts(self) -> float:
        """Lowest supply voltage, at which permanent faults are judged."""
        return min(point.vdd_volts for point in self.points)

    @property
    def highest_vdd_volts(self) -> float:
        """Highest supply voltage, at which delay is judged."""
        return max(point.vdd_volts for point in self.points)

    def with_lowest_at(self, vdd_volts: float) -> "Environment":
        """The environment with another Vdd, in volts, in place of its lowest."""
        lowest = self.lowest_vdd_volts
        points = (
            replace(point, vdd_volts=vdd_volts) if point.vdd_volts == lowest else point
            for point in self.points
        )
        return replace(self, points=tuple(points))


def environment(
    name: str, scenario_vdd_volts: float, temperature_kelvin: float = TEMPERATURE_KELVIN
) -> Environment:
    """Return the preset ``name`` for a scenario run at ``scenario_vdd_volts``.

    Parameters
    ----------
    name : str
        ``turbo``: 1.0 V throughout, as Valero et al., IEEE TC 2019, and Chen et al., DAC 2014;
        the scenario's Vdd plays no part. ``undervolted``: the scenario's Vdd throughout, as
        Toca-Díaz et al. (RRCD). ``dvfs``: 0.8 V half of the time, the scenario's Vdd the rest.
    scenario_vdd_volts : float
        The scenario's supply voltage in volts, above 0 and at most 2; for ``dvfs`` at most 0.8.
    temperature_kelvin : float
        Temperature of every operating point in kelvin, 200 ... 450.

    Raises
    ------
    UserError
        If the name is unknown, a value is out of its range, or ``dvfs`` would have the scenario's
        Vdd above its nominal one.
    """
    scenario = OperatingPoint(scenario_vdd_volts, 1.0, temperature_kelvin)
    match name:
        case "turbo":
            return Environment(name, (OperatingPoint(NOMINAL_VDD_VOLTS, 1.0, temperature_kelvin),))
        case "undervolted":
            return Environment(name, (scenario,))
        case "dvfs":
            if scenario_vdd_volts > DVFS_HIGH_VDD_VOLTS:
                raise UserError(
                    f"environment 'dvfs': the scenario's Vdd, {scenario_vdd_volts} V, "
                    f"must not exceed the nominal {DVFS_HIGH_VDD_VOLTS} V"
                )
            high = OperatingPoint(DVFS_HIGH_VDD_VOLTS, DVFS_HIGH_FRACTION, temperature_kelvin)
            low = OperatingPoint(scenario_vdd_volts, 1 - DVFS_HIGH_FRACTION, temperature_kelvin)
            return Environment(name, (high, low))
        case _:
            raise UserError(f"unknown environment '{name}'; choose from {', '.join(PRESETS)}")


# Delay: how much slower a transistor switches for its threshold shift (alpha-power law).
#
# The switching delay is proportional to ``V / (V - Vt)^alpha`` (Zhang et al., INTEGRATION 2015,
# equation 1), so that a shift dVth raises it by ``(1 - dVth / (V - Vt0))^-alpha - 1``.
#
# The power is the one thing here that machines may round differently. What ends a life is
# therefore decided by comparing shifts with :func:`dvth_at_delay`, whose power is taken once, of
# one number.


def delay_increase(
    dvth_volts: ArrayLike, vdd_volts: float, vt0_volts: ArrayLike, alpha: ArrayLike
) -> NDArray[np.float64]:
    """Return the relative increase of the delay, 0.139 for 13.9 %.

    Parameters
    ----------
    dvth_volts : array, any shape
        Threshold shifts in volts, at least 0.
    vdd_volts : float
        Supply voltage in volts: the highest one of the environment.
    vt0_volts : array, same shape or broadcast to it
        Unaged threshold voltage in volts.
    alpha : array, same shape or broadcast to it
        Exponent of the alpha-power law, above 0.

    Returns
    -------
    array, same shape
        Increase; infinite where the shift has used up the overdrive ``vdd_volts - vt0_volts``, for
        such a transistor no longer switches.
    """
    overdrive = vdd_volts - np.asarray(vt0_volts, dtype=np.float64)
    left = overdrive - np.asarray(dvth_volts, dtype=np.float64)
    slowdown = np.full_like(left, np.inf)
    np.divide(overdrive, left, out=slowdown, where=left > 0)
    increase: NDArray[np.float64] = slowdown ** np.asarray(alpha) - 1
    return increase


@overload
def dvth_at_delay(increase: float, vdd_volts: float, vt0_volts: float, alpha: float) -> float: ...


@overload
def dvth_at_delay(
    increase: float, vdd_volts: float, vt0_volts: NDArray[np.float64], alpha: float
) -> NDArray[np.float64]: ...


def dvth_at_delay(
    increase: float, vdd_volts: float, vt0_volts: float | NDArray[np.float64], alpha: float
) -> float | NDArray[np.float64]:
    """Return the smallest shift in volts at which the delay has grown by ``increase``.

    Inverse of :func:`delay_increase` with the same arguments; ``increase`` is at least 0 and may be
    infinite. At or below threshold any shift will do, and the answer is 0.
    """
    used = 1 - math.pow(1 + increase, -1 / alpha)
    if isinstance(vt0_volts, np.ndarray):
        limits: NDArray[np.float64] = np.maximum(vdd_volts - vt0_volts, 0.0) * used
        return limits
    return max(vdd_volts - vt0_volts, 0.0) * used
