"""Where the blocks of a die lie: rectangles that cover it without overlaps or gaps."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.plain_text import shortened

WEST, EAST, SOUTH, NORTH = range(4)
"""Sides of the die."""

_TOLERANCE_M = 1e-9
"""Lengths that differ by less are equal: floorplans are given in mm with a few digits."""


@dataclass(frozen=True)
class Contact:
    """Two blocks that touch.

    Parameters
    ----------
    blocks : tuple of int
        Their indices.
    edge_m : float
        Length of the common edge, m.
    distance_m : float
        Distance of their centres across that edge, m.
    """

    blocks: tuple[int, int]
    edge_m: float
    distance_m: float


@dataclass(frozen=True, eq=False)
class Floorplan:
    """Blocks of a die.

    Parameters
    ----------
    rectangles_m : mapping of str to tuple of float
        For each block x, y of its lower left corner, its width and its height, in m; x to the
        right, y up.
    source : str
        Where the floorplan comes from, for error messages.

    Raises
    ------
    UserError
        Blocks overlap, leave gaps, or have no area.
    """

    rectangles_m: Mapping[str, tuple[float, float, float, float]]
    source: str = "floorplan"

    def __post_init__(self) -> None:
        for name, (x, y, width, height) in self.rectangles_m.items():
            if not (np.isfinite([x, y]).all() and 0 < width < np.inf and 0 < height < np.inf):
                raise UserError(
                    f"{self.source}: blocks.{shortened(name)} = [{x:g}, {y:g}, {width:g}, "
                    f"{height:g}] must be finite, with a width and a height above 0"
                )
        self._refuse_overlaps()
        self._refuse_gaps()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the blocks."""
        return tuple(self.rectangles_m)

    @cached_property
    def sizes_m(self) -> NDArray[np.float64]:
        """Width and height of each block: float64[blocks, 2], m."""
        return np.array([rectangle[2:] for rectangle in self.rectangles_m.values()])

    @cached_property
    def corners_m(self) -> NDArray[np.float64]:
        """West, east, south and north edge of each block: float64[blocks, 4], m."""
        return np.array([(x, x + w, y, y + h) for x, y, w, h in self.rectangles_m.values()])

    @cached_property
    def centres_m(self) -> NDArray[np.float64]:
        """Centre of each block: float64[blocks, 2], m."""
        centres: NDArray[np.float64] = self.corners_m.reshape(-1, 2, 2).mean(axis=2)
        return centres

    @cached_property
    def areas_m2(self) -> NDArray[np.float64]:
        """Area of each block: float64[blocks], m^2."""
        areas: NDArray[np.float64] = self.sizes_m.prod(axis=1)
        return areas

    @cached_property
    def die_m(self) -> tuple[float, float]:
        """Width and height of the die, m."""
        west, east, south, north = self.corners_m.T
        return float(east.max() - west.min()), float(north.max() - south.min())

    @cached_property
    def contacts(self) -> tuple[Contact, ...]:
        """All pairs of blocks that touch along an edge."""
        return tuple(
            Contact((i, j), shared[1 - axis], float(self.sizes_m[[i, j], axis].mean()))
            for i, j in combinations(range(len(self.names)), 2)
            for shared in [self._shared(i, j)]
            for axis in (0, 1)
            if abs(shared[axis]) <= _TOLERANCE_M < shared[1 - axis]
        )

    def at_side(self, side: int) -> tuple[tuple[int, float, float], ...]:
        """Blocks at a side of the die: index, length of its edge there, and its depth, in m."""
        corners = self.corners_m[:, side]
        border = corners.min() if side in (WEST, SOUTH) else corners.max()
        axis = side // 2
        return tuple(
            (int(block), float(self.sizes_m[block, 1 - axis]), float(self.sizes_m[block, axis]))
            for block in np.flatnonzero(np.abs(corners - border) <= _TOLERANCE_M)
        )

    def _shared(self, i: int, j: int) -> tuple[float, float]:
        """By how much two blocks overlap in x and in y; negative for a distance."""
        first, second = self.corners_m[[i, j]].reshape(2, 2, 2)
        shared = np.minimum(first, second)[:, 1] - np.maximum(first, second)[:, 0]
        return float(shared[0]), float(shared[1])

    def _refuse_overlaps(self) -> None:
        for i, j in combinations(range(len(self.names)), 2):
            if min(self._shared(i, j)) > _TOLERANCE_M:
                names = [shortened(self.names[block]) for block in (i, j)]
                raise UserError(f"{self.source}: blocks {names[0]} and {names[1]} overlap")

    def _refuse_gaps(self) -> None:
        die, covered = float(np.prod(self.die_m)), float(self.areas_m2.sum())
        if die - covered > _TOLERANCE_M * sum(self.die_m):
            raise UserError(
                f"{self.source}: blocks leave a gap of {(die - covered) * 1e6:.3g} mm^2 in a die "
                f"of {self.die_m[0] * 1e3:g} x {self.die_m[1] * 1e3:g} mm"
            )
