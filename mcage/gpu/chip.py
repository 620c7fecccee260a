"""A GPU: its clock and bandwidth, the blocks of its die, its package, the powers of its blocks.

`gtx580` ships with mcage; any other is a TOML file of the same keys.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from mcage.errors import UserError
from mcage.files.csv_table import Row, read_table
from mcage.files.inputs import read_toml
from mcage.gpu import thermal
from mcage.plain_text import shortened
from mcage.spec.sections import Section
from mcage.spec.study_spec import first_problem

GPUS = ("gtx580",)
"""GPUs that ship with mcage."""

_SM = re.compile(r"SM(0|[1-9]\d*)")

Rectangle = Annotated[tuple[float, float, float, float], Field(strict=False)]


@dataclass(frozen=True)
class Machine:
    """What the time model knows of a GPU.

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
    clock_mhz: thermal.Positive
    bandwidth_gb_per_s: thermal.Positive
    package: thermal.Package
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
    machine : Machine
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
    machine: Machine
    network: thermal.ThermalNetwork
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
        """What a watt in SM j adds to SM i: float64[sms, sms], K/W."""
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
        given = _GpuFile.model_validate(fields)
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error, _GpuFile)}") from error
    return _made(given, str(path))


def _made(given: _GpuFile, source: str) -> Gpu:
    rectangles = {
        name: (x * 1e-3, y * 1e-3, w * 1e-3, h * 1e-3)
        for name, (x, y, w, h) in given.blocks_mm.items()
    }
    sms = [name for name in rectangles if _SM.fullmatch(name)]
    if not 1 <= len(sms) <= 127 or {f"SM{i}" for i in range(len(sms))} != set(sms):
        raise UserError(f"{source}: blocks_mm: SMs must be called SM0, SM1, ...; at most 127")
    powers = dict(given.power_w)
    wanted = ("sm_static", "sm_dynamic", "gated_share_of_static", "static_growth_per_kelvin")
    others = {name for name in rectangles if name not in sms}
    for key in (*wanted, *sorted(others)):
        if key not in powers:
            raise UserError(f"{source}: power_w.{key} is missing")
    if unknown := sorted(set(powers) - set(wanted) - others):
        raise UserError(f"{source}: power_w.{shortened(unknown[0])}: there is no such block")
    return Gpu(
        given.name,
        Machine(len(sms), given.bandwidth_gb_per_s * 1e9, given.clock_mhz * 1e6),
        thermal.ThermalNetwork(thermal.Floorplan(rectangles, source), given.package),
        SmPower(*(powers[key] for key in wanted)),
        {name: powers[name] for name in sorted(others)},
        hashlib.blake2b(given.model_dump_json().encode(), digest_size=16).hexdigest(),
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
        given: set[int] = set()
        for row in rows:
            block = names.index(row.text("block", names))
            if block in given:
                raise UserError(f"{row.source}: block {shortened(names[block])} stands twice")
            given.add(block)
            power[block] = row.number("power_W", 0, _MOST_WATTS)
        kelvin = of.network.steady(power)
        if seconds is not None:
            rise = of.network.transient(np.zeros(of.network.nodes), power, seconds)
            kelvin = of.network.package.ambient_kelvin + rise[: len(names)]
        if kelvin.max() > thermal.HIGHEST_KELVIN:
            hottest = names[int(kelvin.argmax())]
            raise UserError(
                f"{rows[0].source} and what follows: {power.sum():.4g} W heat block {hottest} to "
                f"{kelvin.max():.0f} K; the model is meant for at most {thermal.HIGHEST_KELVIN:g} K"
            )
        results += [
            row.plain() | {"temperature_K": float(kelvin[names.index(row.values["block"])])}
            for row in rows
        ]
    return results
