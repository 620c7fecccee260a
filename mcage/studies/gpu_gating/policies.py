"""Which SMs work: the policies, and how a user-defined one is loaded and checked."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.compiled import compiled
from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.plugins import blamed_on, is_plugin, load_plugin, plugin_label

# The two steps of a reading that compare or join all pairs of SMs, compiled for the CPU.
#
# Both are loops over rows of GPUs, without fast-math: NumPy's operations, in the same order, give
# the same bits, whatever other GPUs stand in the rows.


def ranked(keys: NDArray[np.float64]) -> NDArray[np.int8]:
    """Place of each key of a column in rising order; of equal keys, the lower row comes first.

    Parameters
    ----------
    keys : float64[n, I]
        At most 127 rows.

    Returns
    -------
    int8[n, I]
        Places, from 0 on. All pairs of rows are compared: with 16 rows that is many times faster
        than sorting columns.
    """
    ranks = np.zeros(keys.shape, np.int8)
    _rank(keys, ranks)
    return ranks


@compiled
def _rank(keys: NDArray[np.float64], ranks: NDArray[np.int8]) -> None:
    rows, columns = keys.shape
    for first in range(rows):
        for second in range(first + 1, rows):
            for column in range(columns):
                comes_later = np.int8(keys[first, column] <= keys[second, column])
                ranks[second, column] += comes_later
                ranks[first, column] += np.int8(1) - comes_later


@compiled
def add_products(
    matrix: NDArray[np.float64], rows: NDArray[np.float64], sums: NDArray[np.float64]
) -> None:
    """Add a matrix times rows to sums, term by term.

    Parameters
    ----------
    matrix : float64[m, n]
        The matrix.
    rows : float64[n, I]
        What it is multiplied by.
    sums : float64[m, I]
        What the products are added to.
    """
    for row in range(rows.shape[0]):
        for place in range(sums.shape[0]):
            factor = matrix[place, row]
            for column in range(sums.shape[1]):
                sums[place, column] += factor * rows[row, column]


# Policies: from the readings of sensors, the SMs that work.


@dataclass(frozen=True, eq=False)
class Readings:
    """Knowledge of a policy about I GPUs with n SMs each when it decides.

    Parameters
    ----------
    dvth_volts : float64[n, I]
        Threshold shift of each SM as its sensor reads it, V.
    vt_volts : float64[n, I]
        Aged threshold voltage, Vt0 plus the shift, as the sensor reads it, V.
    temperature_kelvin : float64[n, I]
        Mean temperature of each SM since the last reading, K; before the first reading, that of a
        GPU whose SMs all work.
    retired : bool[n, I]
        SMs that have been given up: they are gated for good.
    turn : int64[I]
        SMs that have been put to work before, by all launches together; for policies that rotate.
    random : callable
        ``random()`` returns float64[n, I], uniform in 0 ... 1: independent draws for each GPU.
    """

    dvth_volts: NDArray[np.float64]
    vt_volts: NDArray[np.float64]
    temperature_kelvin: NDArray[np.float64]
    retired: NDArray[np.bool_]
    turn: NDArray[np.int64]
    random: Callable[[], NDArray[np.float64]]

    @property
    def shape(self) -> tuple[int, int]:
        """SMs of a GPU, and number of GPUs."""
        sms, gpus = self.dvth_volts.shape
        return sms, gpus


class Policy(ABC):
    """A rule by which SMs are put to work.

    Attributes
    ----------
    gates : bool
        Whether SMs that a kernel does not need are gated. Where not, all SMs work all the time.
    rotates : bool
        Whether other SMs work at each launch, whatever the sensors read: over many launches all SMs
        then work for the same share of the time.
    """

    gates: ClassVar[bool] = True
    rotates: ClassVar[bool] = False

    @abstractmethod
    def workers(self, readings: Readings, count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Choose the SMs that work on a launch.

        Parameters
        ----------
        readings : Readings
            What is known.
        count : int64[I]
            SMs that the launch needs on each GPU; no more than are not retired.

        Returns
        -------
        bool[n, I]
            ``count`` SMs of each GPU, none of them retired.
        """


class RankingPolicy(Policy):
    """A policy that ranks SMs: a launch takes the first of the ranking, however many it needs."""

    @abstractmethod
    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return float64[n, I]: SMs with smaller numbers work first; of equal ones, lower indices.

        A retired SM never works, whatever its number.
        """

    def ranks(self, readings: Readings) -> NDArray[np.int8]:
        """Return the place of each SM in the ranking, from 0 on: int8[n, I]; retired SMs last."""
        priorities = self.priorities(readings)
        if readings.retired.any():
            priorities = np.where(readings.retired, np.inf, priorities)
        return ranked(priorities)

    def workers(self, readings: Readings, count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Choose the first of the ranking; see `Policy.workers`."""
        return self.ranks(readings) < count


# `default`: all SMs work, as on a GPU that is not managed; the rival of Chen et al., DAC 2014.


class Default(RankingPolicy):
    """All SMs work on every kernel."""

    gates: ClassVar[bool] = False

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return zeros: no SM comes before another."""
        return np.zeros(readings.shape)


# `fixed`: always the first SMs; gating without management.


class Fixed(RankingPolicy):
    """The SMs with the lowest indices work."""

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the indices."""
        return np.repeat(
            np.arange(readings.shape[0], dtype=np.float64)[:, None], readings.shape[1], 1
        )


# `round-robin`: a pointer moves on by as many SMs as a launch uses.


class RoundRobin(RankingPolicy):
    """SMs take turns; a counter suffices, and no sensor is needed."""

    rotates: ClassVar[bool] = True

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return how far each SM is beyond the pointer."""
        sms, _ = readings.shape
        beyond = (np.arange(sms)[:, None] - readings.turn) % sms
        return beyond.astype(np.float64)


# `random`: SMs work by lot.


class RandomOrder(RankingPolicy):
    """Each launch draws the SMs that work."""

    rotates: ClassVar[bool] = True

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return random numbers."""
        return readings.random()


# `least-shift`: the SMs that have shifted least work (Chen et al., DAC 2014, section 5.1).


class LeastShift(RankingPolicy):
    """The SMs whose threshold has shifted least work."""

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the shifts."""
        return readings.dvth_volts


# `coolest-first`: the SMs that were coolest work.

DECIMALS = 6
"""SMs are equally warm to a millionth of a kelvin. Floorplans are symmetric, so that temperatures
are often equal but for rounding, which differs from processor to processor."""


class CoolestFirst(RankingPolicy):
    """The SMs that have been coolest since the last reading work."""

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the temperatures, without what rounding has left in them."""
        return np.round(readings.temperature_kelvin, DECIMALS)


# `most-slack`: the SMs whose aged threshold leaves most delay work.


class MostSlack(RankingPolicy):
    """The SMs with the lowest threshold voltage, shift included, work: they are the fastest.

    Known for the cores of multicores (Sun et al., JETC 2014; Haghbayan et al., DATE 2016).
    """

    def priorities(self, readings: Readings) -> NDArray[np.float64]:
        """Return the aged threshold voltages."""
        return readings.vt_volts


# User-defined policies: what they return is checked.


class CheckedPolicy(Policy):
    """A user-defined policy, whose answers are checked and whose errors are its own.

    Parameters
    ----------
    policy : Policy
        The policy.
    label : str
        How errors call it.
    """

    def __init__(self, policy: Policy, label: str) -> None:
        self._policy = policy
        self._label = label
        with blamed_on(label):
            self.gates = bool(policy.gates)  # type: ignore[misc]
            self.rotates = bool(policy.rotates)  # type: ignore[misc]

    def workers(self, readings: Readings, count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return what the policy returns.

        Raises
        ------
        UserError
            The policy fails; it returns something else than a Boolean value for each SM, another
            number of SMs than the launch needs, or an SM that is gated for good.
        """
        with blamed_on(self._label):
            chosen = np.asarray(self._policy.workers(readings, count))
        if chosen.shape != readings.shape or chosen.dtype != np.bool_:
            raise UserError(
                f"{self._label}: workers gives {chosen.dtype}{list(chosen.shape)}, where "
                f"bool{list(readings.shape)} (SMs, GPUs) is needed"
            )
        if (chosen & readings.retired).any():
            sm, gpu = np.argwhere(chosen & readings.retired)[0]
            raise UserError(
                f"{self._label}: workers puts SM {sm} of GPU {gpu} of a batch to work, which is "
                "retired, and gated for good"
            )
        wrong = np.flatnonzero(chosen.sum(axis=0) != count)
        if len(wrong):
            gpu = wrong[0]
            raise UserError(
                f"{self._label}: workers puts {chosen[:, gpu].sum()} SMs of GPU {gpu} of a batch "
                f"to work, where {count[gpu]} are needed"
            )
        return chosen


POLICIES: dict[str, Policy] = {
    "default": Default(),
    "least-shift": LeastShift(),
    "round-robin": RoundRobin(),
    "random": RandomOrder(),
    "fixed": Fixed(),
    "coolest-first": CoolestFirst(),
    "most-slack": MostSlack(),
}
"""Policies that ship with mcage, by name."""


def policy(name: str) -> Policy:
    """Policy called ``name``: it ships with mcage, or is user-defined as ``module:NAME``.

    Raises
    ------
    UserError
        There is no such policy, or the module cannot be imported.
    """
    if name in POLICIES:
        return POLICIES[name]
    if not is_plugin(name):
        raise UserError(
            f"policy {shortened(name)} is unknown; choose from {', '.join(POLICIES)}, or name a "
            "user-defined one as module:NAME"
        )
    loaded = load_plugin("policy", name, Policy)  # type: ignore[type-abstract]
    return CheckedPolicy(loaded, plugin_label("policy", name))


__all__ = ["POLICIES", "Policy", "RankingPolicy", "Readings", "policy"]
