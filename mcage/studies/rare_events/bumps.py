"""Fields with a bump somewhere, in place of plain ones."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mcage.studies.rare_events.vmin_gaussian import VminGaussian

PLACES = (8, 5)
"""Places of a bump along the entries and along the bits."""

WIDTHS = (0.1, 0.2, 0.4, np.inf)
HEIGHTS = np.arange(0.5, 14.01, 0.5)
DEVIATIONS = (0.5, 0.7, 1.0)
"""What a fit tries. A law much narrower than the plain one would miss fields."""


@dataclass(frozen=True, eq=False)
class Bumps:
    """Fields whose mean over some region is raised: a mixture over the places of that region.

    Parameters
    ----------
    law : SliceLaw
        Law of Vmin over a slice.
    widths : tuple of 2 float
        Deviation of the bell-shaped region along the entries and along the bits, in sides of the
        slice; infinite: all of it.
    height : float
        Mean of the region's mean, in its own plain deviations.
    deviation : float
        Deviation of the region's mean, in the same unit, above 0.
    """

    law: VminGaussian
    widths: tuple[float, float]
    height: float
    deviation: float

    @classmethod
    def none(cls, law: VminGaussian) -> "Bumps":
        """Plain fields."""
        return cls(law, (np.inf, np.inf), 0.0, 1.0)

    @classmethod
    def like(
        cls, law: VminGaussian, normals: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> "Bumps":
        """Those that are most likely to have brought about some fields.

        Parameters
        ----------
        law : SliceLaw
            Law of Vmin over a slice.
        normals : float64[I, normals]
            Standard normal numbers behind these fields.
        weights : float64[I]
            How much each of them counts.
        """
        if not law.factor.any():
            return cls.none(law)
        shares = weights / weights.sum()
        best, most = cls.none(law), 0.0
        for widths in product(WIDTHS, WIDTHS):
            along = np.einsum("in,pn->ip", normals, cls(law, widths, 0.0, 1.0).directions)
            for height, deviation in product(HEIGHTS.tolist(), DEVIATIONS):
                likelihood = float((shares * _log_ratio(along, height, deviation)).sum())
                if likelihood > most:
                    best, most = cls(law, widths, height, deviation), likelihood
        return best

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """Unit vectors of normal numbers that raise each region: float64[places, normals]."""
        scenario = self.law.scenario
        shape = scenario.node_rows, scenario.node_columns
        bells = []
        for count, places, width in zip(shape, PLACES, self.widths, strict=True):
            nodes = (np.arange(count) + 0.5) / count
            centres = (np.arange(places) + 0.5) / places if np.isfinite(width) else np.zeros(1)
            bells.append(np.exp(-0.5 * ((nodes - centres[:, None]) / width) ** 2))
        factor = self.law.factor.reshape(*shape, -1)
        raised = np.einsum("py,qx,yxn->pqn", *bells, factor).reshape(-1, self.law.normals)
        length = np.sqrt((raised**2).sum(axis=1, keepdims=True))
        unit: NDArray[np.float64] = raised / np.where(length > 0, length, 1.0)
        return unit

    def draw(
        self, normals: NDArray[np.float64], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Standard normal numbers of one plain field with a bump put on: float64[normals]."""
        direction = self.directions[generator.integers(len(self.directions))]
        along = float((normals * direction).sum())
        moved: NDArray[np.float64] = normals + (
            (self.height + (self.deviation - 1.0) * along) * direction
        )
        return moved

    def log_ratio(self, normals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of the density of fields over the plain one: float64[I]."""
        along = np.einsum("in,pn->ip", normals, self.directions)
        return _log_ratio(along, self.height, self.deviation)


def _log_ratio(along: NDArray[np.float64], height: float, deviation: float) -> NDArray[np.float64]:
    standard = (along - height) / deviation
    each = 0.5 * (along**2 - standard**2) - np.log(deviation)
    ratio: NDArray[np.float64] = logsumexp(each, axis=1) - np.log(along.shape[1])
    return ratio
