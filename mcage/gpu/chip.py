"""A GPU: the blocks of its die and their powers, its package, and how hot the blocks become.

`gtx580` ships with mcage; any other is a TOML file of the same keys.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationError
from scipy.linalg import cho_factor, cho_solve, eigh

from mcage.errors import UserError
from mcage.files.csv_table import Row, read_table
from mcage.files.inputs import read_toml
from mcage.plain_text import shortened
from mcage.spec.keys import Section, first_problem

GPUS = ("gtx580",)
"""GPUs that ship with mcage."""

LOWEST_KELVIN, HIGHEST_KELVIN = 200.0, 450.0
"""Temperatures for which mcage's aging models are meant."""

Positive = Annotated[float, Field(gt=0, le=1e12)]

# Package between a die and the air: interface material, heat spreader, heat sink.


@dataclass(frozen=True)
class Layer:
    """A plate of one material.

    Parameters
    ----------
    thickness_m : float
        Thickness, m.
    conductivity_w_per_mk : float
        Thermal conductivity, W/(m K).
    heat_j_per_m3k : float
        Heat capacity of a volume, J/(m^3 K).
    """

    thickness_m: float
    conductivity_w_per_mk: float
    heat_j_per_m3k: float

    @property
    def sheet_w_per_k(self) -> float:
        """Conductance along the plate of a square of it, W/K."""
        return self.conductivity_w_per_mk * self.thickness_m

    def through(self, area_m2: float) -> float:
        """Conductance through an area of the plate, W/K."""
        return self.conductivity_w_per_mk * area_m2 / self.thickness_m


class Package(Section):
    """Die, interface material, spreader and sink, and the air that cools the sink.

    Spreader and sink are squares with sides ``..._side_m``. ``convection_k_per_w`` is the
    resistance from the whole sink to the air, K/W, ``convection_j_per_k`` the heat capacity of that
    convection, J/K, and ``ambient_kelvin`` the temperature of the air, K. ``capacity_factor`` is a
    factor on every heat capacity: a lumped node warms up more slowly than the plate does.
    """

    die_thickness_m: Positive
    die_conductivity_w_per_mk: Positive
    die_heat_j_per_m3k: Positive
    interface_thickness_m: Positive
    interface_conductivity_w_per_mk: Positive
    interface_heat_j_per_m3k: Positive
    spreader_thickness_m: Positive
    spreader_conductivity_w_per_mk: Positive
    spreader_heat_j_per_m3k: Positive
    spreader_side_m: Positive
    sink_thickness_m: Positive
    sink_conductivity_w_per_mk: Positive
    sink_heat_j_per_m3k: Positive
    sink_side_m: Positive
    convection_k_per_w: Positive
    convection_j_per_k: Positive
    ambient_kelvin: Annotated[float, Field(ge=LOWEST_KELVIN, le=HIGHEST_KELVIN)]
    capacity_factor: Positive = 1.0

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Plates from the transistors outwards: die, interface material, spreader, sink."""
        return tuple(
            Layer(*(getattr(self, f"{plate}_{field.name}") for field in fields(Layer)))
            for plate in ("die", "interface", "spreader", "sink")
        )

    @property
    def spreader(self) -> Layer:
        """The heat spreader."""
        return self.layers[2]

    @property
    def sink(self) -> Layer:
        """The heat sink."""
        return self.layers[3]

    def to_air(self, area_m2: float) -> float:
        """Conductance from an area of the sink to the air, W/K."""
        spread = self.convection_k_per_w * self.sink_side_m**2 / area_m2
        return 1 / (1 / self.sink.through(area_m2) + spread)

    def capacity(self, layer: Layer, area_m2: float) -> float:
        """Heat capacity of an area of a plate, J/K; of the sink, that of its convection too."""
        joules = layer.heat_j_per_m3k * layer.thickness_m * area_m2
        if layer is self.sink:
            joules += self.convection_j_per_k * area_m2 / self.sink_side_m**2
        return self.capacity_factor * joules


# Where the blocks of a die lie: rectangles that cover it without overlaps or gaps.

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


# Temperatures of a chip's blocks from their powers: a network of thermal resistances.
#
# The structure is that of HotSpot's block mode (Huang et al., IEEE TVLSI 2006; release 7.0). Each
# block has a node in the die, in the interface material, in the spreader and in the sink. The
# parts of the spreader and of the sink that stick out have a node on each side of the die; so has
# the sink beyond the spreader.

SPREADER_RIM, SINK_RIM, OUTER_SINK = range(3)
"""Rings of four nodes: the spreader beside the die, the sink below it, the sink beyond it."""


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
        """Heating of block i by a watt in block j in steady state: float64[blocks, blocks], K/W."""
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
        """Temperatures of nodes above the air after a time under constant powers; exact.

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


# The file of a GPU, and what is made of it.

_SM = re.compile(r"SM(0|[1-9]\d*)")

Rectangle = Annotated[tuple[float, float, float, float], Field(strict=False)]


@dataclass(frozen=True)
class GpuTiming:
    """A GPU, as the time model needs it.

    Parameters
    ----------
    sms : int
        Streaming multiprocessors (SMs), at least 1.
    bandwidth_bytes_per_s : float
        Bandwidth of the global memory, B/s.
    clock_hz : float
        Clock of the SMs, Hz.
    """

    sms: int
    bandwidth_bytes_per_s: float
    clock_hz: float


class _GpuFile(Section):
    """Keys of a GPU file."""

    name: Annotated[str, Field(min_length=1)]
    clock_mhz: Positive
    bandwidth_gb_per_s: Positive
    package: Package
    blocks_mm: Annotated[dict[str, Rectangle], Field(min_length=1)]
    power_w: dict[str, Annotated[float, Field(ge=0, le=1e4)]]


@dataclass(frozen=True, eq=False)
class SmPower:
    """Power of an SM.

    Parameters
    ----------
    static_w : float
        While it is on, W, at the temperature of the air.
    dynamic_w : float
        While it works, W.
    gated_share : float
        Share of the static power that is left while it is gated.
    growth_per_kelvin : float
        Relative growth of the static power per kelvin above the air (it grows exponentially).
    """

    static_w: float
    dynamic_w: float
    gated_share: float
    growth_per_kelvin: float


@dataclass(frozen=True, eq=False)
class Gpu:
    """A GPU.

    Parameters
    ----------
    name : str
        Its name.
    machine : GpuTiming
        SMs, bandwidth and clock, for the time model.
    network : ThermalNetwork
        Floorplan and package.
    sm_power : SmPower
        Power of an SM.
    other_w : mapping of str to float
        Power of each block that is no SM, W.
    digest : str
        Hexadecimal digest of all of it.
    """

    name: str
    machine: GpuTiming
    network: ThermalNetwork
    sm_power: SmPower
    other_w: dict[str, float]
    digest: str

    @property
    def sms(self) -> int:
        """Number of SMs."""
        return self.machine.sms

    @cached_property
    def sm_blocks(self) -> NDArray[np.int64]:
        """Block of each SM in the floorplan: int64[sms]."""
        names = self.network.floorplan.names
        return np.array([names.index(f"SM{sm}") for sm in range(self.sms)])

    @cached_property
    def sm_kelvin_per_watt(self) -> NDArray[np.float64]:
        """Heating of SM i by a watt in SM j: float64[sms, sms], K/W."""
        return self.network.kelvin_per_watt[np.ix_(self.sm_blocks, self.sm_blocks)]

    @cached_property
    def sm_base_kelvin(self) -> NDArray[np.float64]:
        """Temperature of each SM under the power of the other blocks alone: float64[sms], K."""
        power = np.array([self.other_w.get(name, 0.0) for name in self.network.floorplan.names])
        return self.network.steady(power)[self.sm_blocks]

    @cached_property
    def sm_centres(self) -> NDArray[np.float64]:
        """Centre of each SM in sides of the die, the longer side 1: float64[sms, 2]."""
        plan = self.network.floorplan
        centres: NDArray[np.float64] = plan.centres_m[self.sm_blocks] / max(plan.die_m)
        return centres


def gpu(name: str) -> Gpu:
    """GPU called ``name``, or of the TOML file of that name.

    Raises
    ------
    UserError
        There is no such GPU; the file cannot be read, a key is missing or wrong, SMs are not
        numbered from SM0 on, blocks overlap or leave gaps, or a block has no power.
    """
    shipped = files("mcage") / "data" / "gpus" / f"{name}.toml"
    path = Path(str(shipped)) if name in GPUS else Path(name)
    if name not in GPUS and path.suffix != ".toml":
        raise UserError(
            f"GPU {shortened(name)} is unknown; choose from {', '.join(GPUS)}, or name a TOML file"
        )
    fields = read_toml(path)
    try:
        file = _GpuFile.model_validate(fields)
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error, _GpuFile)}") from error
    return _made(file, str(path))


def _made(file: _GpuFile, source: str) -> Gpu:
    rectangles = {
        name: (x * 1e-3, y * 1e-3, w * 1e-3, h * 1e-3)
        for name, (x, y, w, h) in file.blocks_mm.items()
    }
    sms = [name for name in rectangles if _SM.fullmatch(name)]
    if not 1 <= len(sms) <= 127 or {f"SM{i}" for i in range(len(sms))} != set(sms):
        raise UserError(f"{source}: blocks_mm: SMs must be called SM0, SM1, ...; at most 127")
    powers = dict(file.power_w)
    wanted = ("sm_static", "sm_dynamic", "gated_share_of_static", "static_growth_per_kelvin")
    others = {name for name in rectangles if name not in sms}
    for key in (*wanted, *sorted(others)):
        if key not in powers:
            raise UserError(f"{source}: power_w.{key} is missing")
    if unknown := sorted(set(powers) - set(wanted) - others):
        raise UserError(f"{source}: power_w.{shortened(unknown[0])}: there is no such block")
    return Gpu(
        file.name,
        GpuTiming(len(sms), file.bandwidth_gb_per_s * 1e9, file.clock_mhz * 1e6),
        ThermalNetwork(Floorplan(rectangles, source), file.package),
        SmPower(*(powers[key] for key in wanted)),
        {name: powers[name] for name in sorted(others)},
        hashlib.blake2b(file.model_dump_json().encode(), digest_size=16).hexdigest(),
    )


# Temperatures of the blocks of a GPU under the powers of a CSV file.

_MOST_WATTS = 1e4


def temperatures(path: Path, of: Gpu, seconds: float | None = None) -> list[dict[str, Any]]:
    """Temperature of each block of each case of a file.

    Parameters
    ----------
    path : Path
        CSV file with the columns ``block`` and ``power_W``, and ``case`` where there are several
        cases. Blocks that a case does not name have no power.
    of : Gpu
        Floorplan and package.
    seconds : float, optional
        Time for which the powers have lasted, on a GPU that was as cold as the air; by default they
        have lasted for ever.

    Returns
    -------
    list of dict
        The columns of the file, and ``temperature_K``.

    Raises
    ------
    UserError
        The file cannot be read; a block is unknown or stands twice in a case; a power makes no
        sense, or heats a block beyond 450 K, where the constants of the package mean nothing.
    """
    names = of.network.floorplan.names
    cases: dict[str, list[Row]] = {}
    for row in read_table(path, ("block", "power_W")):
        cases.setdefault(row.values.get("case", ""), []).append(row)
    results = []
    for rows in cases.values():
        power = np.zeros(len(names))
        seen: set[int] = set()
        for row in rows:
            block = names.index(row.text("block", names))
            if block in seen:
                raise UserError(f"{row.source}: block {shortened(names[block])} stands twice")
            seen.add(block)
            power[block] = row.number("power_W", 0, _MOST_WATTS)
        kelvin = of.network.steady(power)
        if seconds is not None:
            rise = of.network.transient(np.zeros(of.network.nodes), power, seconds)
            kelvin = of.network.package.ambient_kelvin + rise[: len(names)]
        if kelvin.max() > HIGHEST_KELVIN:
            hottest = names[int(kelvin.argmax())]
            raise UserError(
                f"{rows[0].source} and what follows: {power.sum():.4g} W heat block {hottest} to "
                f"{kelvin.max():.0f} K; the model is meant for at most {HIGHEST_KELVIN:g} K"
            )
        results += [
            row.plain() | {"temperature_K": float(kelvin[names.index(row.values["block"])])}
            for row in rows
        ]
    return results
