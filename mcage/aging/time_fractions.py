"""Shares of the time at operating points, where instances differ in them."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mcage.distributions import Distribution
from mcage.random import stream


@dataclass(frozen=True)
class TimeFractionDistributions:
    """Laws of the shares of the time at the operating points of an environment.

    Parameters
    ----------
    environment : str
        Its name, after which the random streams are named.
    laws : tuple of Law or None
        One for each point; None takes what the others leave. Shares sum to 1 whatever is drawn.
    """

    environment: str
    laws: tuple[Distribution | None, ...]

    @property
    def vary(self) -> bool:
        """Whether instances differ."""
        return any(law is not None and not law.is_constant for law in self.laws)

    @property
    def middle(self) -> tuple[float, ...]:
        """Shares at the medians of the laws; those of all instances if none varies."""
        given = [np.zeros(()) if law is None else np.array(law.at(0.5)) for law in self.laws]
        return tuple(float(share) for share in self._with_rest(given))

    def draw(self, seed: int, instances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Shares of instances: what one has depends on seed, environment and instance only.

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
        given = [np.zeros(len(instances)) for _ in self.laws]
        for number, law in enumerate(self.laws):
            if law is not None:
                name = f"environment.{self.environment}.{number}"
                uniform = (stream(seed, name, one).random() for one in instances.tolist())
                given[number] = np.array([law.at(one) for one in uniform])
        return self._with_rest(given)

    @property
    def extremes(self) -> NDArray[np.float64]:
        """Shares at all bounds of the laws: float64[points, combinations].

        Rates are linear in the shares, so that the largest and the smallest are among these.
        """
        bounds = [(0.0,) if law is None else law.bounds for law in self.laws]
        given = np.array(list(product(*(dict.fromkeys(pair) for pair in bounds)))).T
        return self._with_rest(list(given))

    def _with_rest(self, given: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        shares = np.stack(given)
        for number, law in enumerate(self.laws):
            if law is None:
                shares[number] = 1 - shares.sum(axis=0)
        return shares
