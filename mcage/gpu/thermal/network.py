"""Temperatures of a chip's blocks from their powers: a network of thermal resistances.

The structure is that of HotSpot's block mode (Huang et al., IEEE TVLSI 2006; release 7.0). Each
block has a node in the die, in the interface material, in the spreader and in the sink. The parts
of the spreader and of the sink that stick out have a node on each side of the die; so has the sink
beyond the spreader.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from mcage.errors import UserError
from mcage.gpu.thermal.floorplan import Floorplan
from mcage.gpu.thermal.package import Package

SPREADER_RIM, SINK_RIM, OUTER_SINK = range(3)
"""Rings of four nodes: the spreader beside the die, the sink below it, the sink beyond it."""

LOWEST_KELVIN, HIGHEST_KELVIN = 200.0, 450.0
"""Temperatures for which mcage's aging models are meant."""


@dataclass(frozen=True, eq=False)
class ThermalNetwork:
    """Thermal resistances and capacities of a floorplan in its package.

    Nodes are the blocks in the die, then in the interface material, in the spreader and in the
    sink; then the three rings, each west, east, south, north: 4 n + 12 nodes for n blocks.

    Parameters
    ----------
    floorplan : Floorplan
        Blocks of the die.
    package : Package
        What lies between the die and the air.

    Raises
    ------
    UserError
        The die is larger than the spreader, or the spreader is larger than the sink.
    """

    floorplan: Floorplan
    package: Package

    def __post_init__(self) -> None:
        spreader, sink = self.package.spreader_side_m, self.package.sink_side_m
        if not max(self.floorplan.die_m) <= spreader <= sink:
            width, height = self.floorplan.die_m
            raise UserError(
                f"{self.floorplan.source}: a die of {width * 1e3:g} x {height * 1e3:g} mm must fit "
                f"on a spreader of {spreader * 1e3:g} mm, and that on a sink of {sink * 1e3:g} mm"
            )

    @property
    def blocks(self) -> int:
        """Number of blocks, n."""
        return len(self.floorplan.names)

    @property
    def nodes(self) -> int:
        """Number of nodes, 4 n + 12."""
        return 4 * self.blocks + 12

    @cached_property
    def conductances(self) -> NDArray[np.float64]:
        """Matrix G of float64[nodes, nodes] in W/K: powers are G times what nodes are above air."""
        matrix = np.zeros((self.nodes, self.nodes))
        for i, j, conductance in self._links():
            matrix[[i, j], [j, i]] -= conductance
            matrix[[i, j], [i, j]] += conductance
        for node, area in self._cooled():
            matrix[node, node] += self.package.to_air(area)
        return matrix

    @cached_property
    def capacities(self) -> NDArray[np.float64]:
        """Heat capacity of each node: float64[nodes], J/K."""
        package, areas = self.package, self.floorplan.areas_m2
        joules = [package.capacity(layer, area) for layer in package.layers for area in areas]
        rims = [self._rim_area(side) for side in range(4)]
        joules += [package.capacity(package.spreader, area) for area in rims]
        joules += [package.capacity(package.sink, area) for area in rims]
        joules += [package.capacity(package.sink, self._outer_area)] * 4
        return np.array(joules)

    @cached_property
    def kelvin_per_watt(self) -> NDArray[np.float64]:
        """What a watt in block j adds to block i in steady state: float64[blocks, blocks], K/W."""
        watts = np.eye(self.nodes, self.blocks)
        rise: NDArray[np.float64] = cho_solve(cho_factor(self.conductances), watts)[: self.blocks]
        return rise

    def steady(self, power_w: ArrayLike) -> NDArray[np.float64]:
        """Temperatures of the blocks under lasting powers.

        Parameters
        ----------
        power_w : array[..., blocks]
            Power of each block, W.

        Returns
        -------
        float64[..., blocks]
            Temperatures, K.
        """
        power = np.asarray(power_w, dtype=np.float64)
        return self.package.ambient_kelvin + power @ self.kelvin_per_watt.T

    def transient(
        self, rise_kelvin: ArrayLike, power_w: ArrayLike, seconds: float
    ) -> NDArray[np.float64]:
        """What nodes are above the air after a time under constant powers; exact.

        Parameters
        ----------
        rise_kelvin : array[nodes]
            What they are above the air before, K; 0 for a cold chip.
        power_w : array[blocks]
            Power of each block, W.
        seconds : float
            The time, at least 0.

        Returns
        -------
        float64[nodes]
            K above the air; the blocks of the die come first.
        """
        rates, modes, weights = self._modes
        watts = np.zeros(self.nodes)
        watts[: self.blocks] = power_w
        start = modes.T @ (weights * np.asarray(rise_kelvin, dtype=np.float64))
        end = (modes.T @ (watts / weights)) / rates
        rise: NDArray[np.float64] = (
            modes @ (end + np.exp(-rates * seconds) * (start - end)) / weights
        )
        return rise

    @property
    def time_constants_s(self) -> NDArray[np.float64]:
        """Time constants of the network, s, the longest first."""
        return 1 / self._modes[0]

    @cached_property
    def _modes(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Rates of decay in 1/s, their modes, and the root of each node's capacity."""
        weights = np.sqrt(self.capacities)
        rates, modes = eigh(self.conductances / np.outer(weights, weights))
        return rates, modes, weights

    def _links(self) -> list[tuple[int, int, float]]:
        """Pairs of nodes, and the conductance between them in W/K."""
        plan, package, n = self.floorplan, self.package, self.blocks
        links = []
        for number, layer in enumerate(package.layers):
            for contact in plan.contacts:
                i, j = (number * n + block for block in contact.blocks)
                links.append((i, j, layer.sheet_w_per_k * contact.edge_m / contact.distance_m))
        for number, layer in enumerate(package.layers[:-1]):
            for block, area in enumerate(plan.areas_m2):
                here = number * n + block
                links.append((here, here + n, layer.through(area)))
        for side in range(4):
            links += self._links_at(side)
        return links

    def _links_at(self, side: int) -> list[tuple[int, int, float]]:
        """Links of the rings at one side of the die."""
        package, sink = self.package, self.package.sink
        inner, outer = package.spreader_side_m, package.sink_side_m
        across, along = self._extents(side)
        edge = self.floorplan.at_side(side)
        links = []
        for ring, layer in ((SPREADER_RIM, package.spreader), (SINK_RIM, sink)):
            to_rim = [layer.sheet_w_per_k * length / (depth / 2) for _, length, depth in edge]
            resistance = (inner - across) / (layer.sheet_w_per_k * (inner + 3 * along))
            divisor = 1 + resistance * sum(to_rim)
            for (block, _, _), conductance in zip(edge, to_rim, strict=True):
                node = (2 + ring) * self.blocks + block
                links.append((node, self._ring(ring, side), conductance / divisor))
        outwards = (outer - inner) / (sink.sheet_w_per_k * (outer + 3 * inner))
        outwards += (inner - across) / (sink.sheet_w_per_k * (3 * inner + along))
        rims = [self._ring(ring, side) for ring in (SPREADER_RIM, SINK_RIM, OUTER_SINK)]
        links.append((rims[0], rims[1], package.spreader.through(self._rim_area(side))))
        links.append((rims[1], rims[2], 1 / outwards))
        return links

    def _cooled(self) -> list[tuple[int, float]]:
        """Nodes that the air cools, and their areas in m^2."""
        cooled = [(3 * self.blocks + i, area) for i, area in enumerate(self.floorplan.areas_m2)]
        for side in range(4):
            cooled.append((self._ring(SINK_RIM, side), self._rim_area(side)))
            cooled.append((self._ring(OUTER_SINK, side), self._outer_area))
        return cooled

    def _ring(self, ring: int, side: int) -> int:
        return 4 * self.blocks + 4 * ring + side

    def _extents(self, side: int) -> tuple[float, float]:
        """Extents of the die across a side and along it, in m."""
        width, height = self.floorplan.die_m
        return (width, height) if side < 2 else (height, width)

    def _rim_area(self, side: int) -> float:
        across, along = self._extents(side)
        inner = self.package.spreader_side_m
        return (inner + along) * (inner - across) / 4

    @property
    def _outer_area(self) -> float:
        return (self.package.sink_side_m**2 - self.package.spreader_side_m**2) / 4
