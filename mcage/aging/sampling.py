"""In what instances differ: temperature, threshold voltage, activity, time at operating points."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import NbtiModel, Transistors
from mcage.distributions import Distribution
from mcage.errors import UserError
from mcage.random import stream, stream_key

# Constants as samples: joint draws of constants, of which each instance has a row for life.
#
# A constant that nobody has measured has a distribution in place of a value, and constants that
# were fitted together are not independent. A table of joint draws, such as the posterior sample of
# a fit, says both.

Columns = Mapping[str, NDArray[np.float64]]
"""Constants by name: float64[rows] of a table, float64[n] of n instances."""


@dataclass(frozen=True, eq=False)
class ConstantDraws:
    """A table of joint draws of constants, and which row an instance has.

    Parameters
    ----------
    rows : int
        Number of rows.
    of_slices : mapping
        Constants of `mcage.aging.sampling.InstanceConstants` by name.
    of_model : mapping
        Constants of the NBTI model by name.
    group_size : int
        Instances with successive ids that have the same row: the slices of a chip.
    """

    rows: int
    of_slices: Columns
    of_model: Columns
    group_size: int = 1

    def row_of(self, seed: int, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each instance, a function of seed and instance alone: int64[n].

        Rows are dealt in turn, in an order that the seed has shuffled: after any number of
        instances each row has come equally often, but for at most one time, and the rows that
        came once more are a fair sample, also of a table that is sorted.
        """
        order = stream(seed, "instance.draw", 0).permutation(self.rows)
        rows: NDArray[np.int64] = order[instances // self.group_size % self.rows]
        return rows


ONE, ZERO = Distribution("constant", (1.0,)), Distribution("constant", (0.0,))

Ranks = dict[str, NDArray[np.float64]]
"""Cumulative probabilities of what varies among instances, by its name."""

OF_SLICES = ("temperature_kelvin", "vt0_volts", "shift_factor", "activity")
"""Constants of an instance that are the same in all cases, for life."""


@dataclass(frozen=True, eq=False)
class InstanceConstants:
    """Constants of n instances, each ``float64[n]``, or a number for all.

    Attributes
    ----------
    temperature_kelvin : array
        Temperature of the slice, to which an operating point may add an offset.
    vt0_volts : array
        Unaged threshold voltage of all transistors.
    shift_factor : array
        Factor on every threshold shift.
    activity : array
        Fraction of the time in which the slice is busy; the rest of it, all cells are off, or
        hold their values.
    time_fractions : float64[points, n], optional
        Fraction of the time at each operating point; by default those of the environment.
    temperature_swing_kelvin : float64[n, epochs], or a number for all
        Kelvin by which the slice is hotter than its temperature in each epoch.
    delay_guardband, vmin_coefficient : array, optional
        See `mcage.lifetime.conditions.LifeConditions`; by default those of the conditions.
    of_model : mapping
        Constants of the NBTI model that differ, by name; the others are those of the model.
    row : int64[n], optional
        Row of each instance in the table of joint draws, if there is a table.
    """

    temperature_kelvin: NDArray[np.float64]
    vt0_volts: NDArray[np.float64]
    shift_factor: NDArray[np.float64]
    activity: NDArray[np.float64]
    time_fractions: NDArray[np.float64] | None = None
    temperature_swing_kelvin: NDArray[np.float64] = field(default_factory=lambda: np.zeros(()))
    delay_guardband: NDArray[np.float64] | None = None
    vmin_coefficient: NDArray[np.float64] | None = None
    of_model: Columns = field(default_factory=dict)
    row: NDArray[np.int64] | None = None

    def in_epoch(self, epoch: int) -> "InstanceConstants":
        """The same with the temperatures of an epoch."""
        swing = self.temperature_swing_kelvin
        swing = swing[:, epoch] if swing.ndim else swing
        return replace(self, temperature_kelvin=self.temperature_kelvin + swing)

    @property
    def transistors(self) -> Transistors:
        """The constants as NBTI models take them."""
        return Transistors(
            self.vt0_volts, self.temperature_kelvin, self.shift_factor, self.time_fractions
        )


@dataclass(frozen=True)
class TimeFractionDistributions:
    """Distributions of the fractions of the time at the operating points of an environment.

    Parameters
    ----------
    environment : str
        Its name, after which the random streams are named.
    distributions : tuple of Distribution or None
        A distribution for each point; None for a point that takes what the others leave.
        Fractions sum to 1 whatever is drawn.
    """

    environment: str
    distributions: tuple[Distribution | None, ...]

    @property
    def vary(self) -> bool:
        """Whether instances differ."""
        return any(d is not None and not d.is_constant for d in self.distributions)

    @property
    def middle(self) -> tuple[float, ...]:
        """Fractions at the medians of the distributions; those of all instances if none varies."""
        stated = [np.zeros(()) if d is None else d.at(0.5) for d in self.distributions]
        return tuple(float(fraction) for fraction in self._with_rest(stated))

    def draw(self, seed: int, instances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Fractions of instances, each a function of seed, environment and instance alone.

        Parameters
        ----------
        seed : int
            Seed of the whole sweep.
        instances : int64[n]
            Instance ids.

        Returns
        -------
        float64[points, n]
        """
        return self.at(self.ranks(seed, instances), len(instances))

    def ranks(self, seed: int, instances: NDArray[np.int64]) -> Ranks:
        """Uniform random numbers behind the fractions; arguments as of `draw`."""
        names = {
            number: f"environment.{self.environment}.{number}"
            for number, distribution in enumerate(self.distributions)
            if distribution is not None and not distribution.is_constant
        }
        return {
            f"time_fractions.{number}": _uniform(seed, name, instances)
            for number, name in names.items()
        }

    def at(self, ranks: Ranks, count: int) -> NDArray[np.float64]:
        """Fractions of so many instances at given ranks: float64[points, count]."""
        stated = [np.zeros(count) for _ in self.distributions]
        for number, distribution in enumerate(self.distributions):
            if distribution is not None:
                stated[number][:] = _quantiles(distribution, ranks.get(f"time_fractions.{number}"))
        return self._with_rest(stated)

    @property
    def extremes(self) -> NDArray[np.float64]:
        """Fractions at all bounds of the distributions: float64[points, combinations].

        Rates are linear in the fractions, so that the largest and the smallest are among these.
        """
        bounds = [(0.0,) if d is None else d.bounds for d in self.distributions]
        corners = np.array(list(product(*(dict.fromkeys(pair) for pair in bounds)))).T
        return self._with_rest(list(corners))

    def _with_rest(self, stated: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        fractions = np.stack(stated)
        for number, distribution in enumerate(self.distributions):
            if distribution is None:
                fractions[number] = 1 - fractions.sum(axis=0)
        return fractions


@dataclass(frozen=True)
class InstanceDistributions:
    """Distributions of the constants of instances.

    They are the same in all cases of a sweep, except for the time fractions.

    Parameters
    ----------
    temperature_kelvin, vt0_volts, shift_factor, activity : Distribution
        See `InstanceConstants`.
    time_fractions : TimeFractionDistributions, optional
        Where instances differ in the fractions of the time at operating points.
    temperature_swing_kelvin : Distribution
        Drawn anew for each epoch.
    draws : ConstantDraws, optional
        Joint draws of constants, in place of the distributions of these.
    """

    temperature_kelvin: Distribution
    vt0_volts: Distribution
    shift_factor: Distribution = ONE
    activity: Distribution = ONE
    time_fractions: TimeFractionDistributions | None = None
    temperature_swing_kelvin: Distribution = ZERO
    draws: ConstantDraws | None = None

    @property
    def of_slices(self) -> dict[str, Distribution]:
        """Distributions of what an instance has for life, by name."""
        return {name: getattr(self, name) for name in OF_SLICES}

    @property
    def swings(self) -> bool:
        """Whether temperatures change from epoch to epoch."""
        return self.temperature_swing_kelvin != ZERO

    @classmethod
    def nominal(cls, nbti: NbtiModel, temperature_kelvin: float) -> Self:
        """All instances alike, and like the nominal transistor."""
        return cls(
            Distribution("constant", (temperature_kelvin,)),
            Distribution("constant", (float(nbti.vt0_volts),)),
        )

    def draw(self, seed: int, instances: NDArray[np.int64], epochs: int = 1) -> InstanceConstants:
        """Constants of instances, each a function of seed and instance alone.

        Parameters
        ----------
        seed : int
            Seed of the whole sweep.
        instances : int64[n]
            Instance ids.
        epochs : int
            Epochs for which temperatures are drawn; more epochs do not change the first ones.
        """
        constants = self.at(self.ranks(seed, instances, epochs), len(instances))
        draws = self.draws
        if draws is None:
            return constants
        row = draws.row_of(seed, instances)
        of_slices: dict[str, Any] = {name: array[row] for name, array in draws.of_slices.items()}
        of_model = {name: array[row] for name, array in draws.of_model.items()}
        return replace(constants, **of_slices, of_model=of_model, row=row)

    def ranks(self, seed: int, instances: NDArray[np.int64], epochs: int = 1) -> Ranks:
        """Uniform random numbers behind the constants of instances; arguments as of `draw`.

        Returns
        -------
        dict
            By name of what varies: float64[n], or float64[n, epochs] where it is drawn for each
            epoch.
        """
        ranks = {
            name: _uniform(seed, f"instance.{name}", instances)
            for name, distribution in self.of_slices.items()
            if not distribution.is_constant
        }
        if not self.temperature_swing_kelvin.is_constant:
            name = "temperature_swing_kelvin"
            ranks[name] = _uniform(seed, f"instance.{name}", instances, epochs)
        fractions = self.time_fractions
        return ranks | ({} if fractions is None else fractions.ranks(seed, instances))

    def at(self, ranks: Ranks, count: int) -> InstanceConstants:
        """Constants of so many instances at given ranks, the quantiles of the distributions.

        Parameters
        ----------
        ranks : dict
            As `ranks` gives them; each number within 0 <= rank < 1.
        count : int
            Number of instances.
        """
        swing = "temperature_swing_kelvin"
        drawn: dict[str, Any] = {
            name: _quantiles(distribution, ranks.get(name))
            for name, distribution in (self.of_slices | {swing: getattr(self, swing)}).items()
        }
        fractions = None if self.time_fractions is None else self.time_fractions.at(ranks, count)
        return InstanceConstants(**drawn, time_fractions=fractions)

    @property
    def constants(self) -> InstanceConstants:
        """The constants of all instances.

        Raises
        ------
        UserError
            If instances differ.
        """
        if self.draws is not None:
            raise UserError("draws: constants that differ from row to row are not supported here")
        swing = {"temperature_swing_kelvin": self.temperature_swing_kelvin}
        distributions = self.of_slices | swing
        for name, distribution in distributions.items():
            if not distribution.is_constant:
                raise UserError(
                    f"{name} = {distribution} differs from instance to instance, which is not "
                    "supported here"
                )
        if self.time_fractions is not None:
            raise UserError(
                f"shares of environment {self.time_fractions.environment!r} differ from instance "
                "to instance, which is not supported here"
            )
        values: dict[str, Any] = {n: np.array(d.numbers[0]) for n, d in distributions.items()}
        return InstanceConstants(**values)

    @property
    def highest_vt0_volts(self) -> float:
        """Largest threshold voltage of any instance."""
        drawn = {} if self.draws is None else self.draws.of_slices
        return float(np.max(drawn.get("vt0_volts", self.vt0_volts.bounds[1])))

    @property
    def extremes(self) -> Transistors:
        """Transistors at all bounds of the distributions; the largest shift is among theirs.

        With draws, there are as many of them for each row: first those of the first row.
        """
        kelvin = np.add(self.temperature_kelvin.bounds, self.temperature_swing_kelvin.bounds)
        bounds = np.array(list(product(self.vt0_volts.bounds, kelvin, self.shift_factor.bounds))).T
        if self.draws is not None:
            bounds = self._extremes_of_rows(self.draws, bounds)
        if self.time_fractions is None:
            return Transistors(*bounds)
        fractions = self.time_fractions.extremes
        count = bounds.shape[1]
        vt0, temperature, factor = np.repeat(bounds, fractions.shape[1], axis=1)
        return Transistors(vt0, temperature, factor, np.tile(fractions, (1, count)))

    def _extremes_of_rows(
        self, draws: ConstantDraws, bounds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Bounds of vt0, temperature and factor, with what the rows have: float64[3, all]."""
        each = bounds.shape[1]
        of_rows = np.tile(bounds, (1, draws.rows))
        swing = np.tile(np.repeat(self.temperature_swing_kelvin.bounds, 2), 2 * draws.rows)
        for place, name in enumerate(("vt0_volts", "temperature_kelvin", "shift_factor")):
            if name in draws.of_slices:
                of_rows[place] = np.repeat(draws.of_slices[name], each)
                of_rows[place] += swing if name == "temperature_kelvin" else 0.0
        return of_rows

    @property
    def row_of_extremes(self) -> NDArray[np.int64]:
        """Row of the draws to which each of the `extremes` belongs; empty without draws."""
        if self.draws is None:
            return np.empty(0, np.int64)
        fractions = self.time_fractions
        each = 8 * (1 if fractions is None else fractions.extremes.shape[1])
        return np.repeat(np.arange(self.draws.rows), each)


def _uniform(
    seed: int, name: str, instances: NDArray[np.int64], epochs: int | None = None
) -> NDArray[np.float64]:
    """A uniform number for each instance, float64[n], or for each of its epochs."""
    from mcage.philox import first_numbers  # Numba takes long to import

    numbers = first_numbers(stream_key(seed, name), instances, 1 if epochs is None else epochs)
    return numbers[:, 0] if epochs is None else numbers


def _quantiles(
    distribution: Distribution, ranks: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Quantiles of a distribution at ranks of any shape; a single number if it is constant."""
    return np.array(distribution.numbers[0]) if ranks is None else distribution.at(ranks)
