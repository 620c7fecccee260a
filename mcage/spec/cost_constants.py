"""Components of a slice and their constants, from `data/costs.toml` or from a user's table.

Every constant stands there with its value, unit, status and source. 1 mW over 1 ns is 1 pJ.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcage.errors import UserError
from mcage.files.inputs import read_toml
from mcage.geometry import GCN, SliceGeometry, preset
from mcage.plain_text import shortened

STATUSES = ("printed", "public", "reconstructed", "assumed")
"""Where a constant comes from; docs/costs.md says what each word means."""

VddScaling = Literal["curve", "rows"]
"""How the slice's constants follow Vdd: on one curve, or as printed where that is known."""

QUADRATIC = 2.0
"""Exponent of access energy in Vdd where no rows say another (assumed: a capacitance that is
charged to Vdd)."""

UNITS = {
    "pj": "pJ",
    "mw": "mW",
    "mm2": "mm^2",
    "volts": "V",
    "ghz": "GHz",
    "cycles": "cycles",
}
"""Unit of a constant by the last word of its name; any other is a plain number, unit "1"."""


@dataclass(frozen=True)
class Component:
    """Energy, power and area of one component; 0 where the papers say "not applicable".

    Attributes
    ----------
    read_pj, write_pj : float
        Energy of an access. Of what: a block of 64 bytes (slice, LDS, destination buffer), the
        evaluation of a block (compression on a write, decompression on a read), an entry of a
        table, a redirection (selection unit, as a write).
    leakage_mw : float
        Static power while on.
    area_mm2 : float
        Area.
    """

    read_pj: float
    write_pj: float
    leakage_mw: float
    area_mm2: float


@dataclass(frozen=True)
class LowVdd:
    """The slice at a printed Vdd below the nominal one; energies per block."""

    vdd_volts: float
    read_pj: float
    write_pj: float
    leakage_mw: float


@dataclass(frozen=True)
class Technology:
    """All components in one technology.

    Attributes
    ----------
    clock_ghz : float
        Clock frequency.
    nominal_vdd_volts : float
        Vdd of the slice's constants; all other components stay at it.
    decompression_units : float
        Decompression units of a slice, one for each read port.
    retention_cycles : float
        For how long the eDRAM of the compression table keeps a value.
    wakeup_pj : float
        Energy to switch an entry on.
    power_gating_area_mm2 : float
        Sleep transistors and their wires.
    slice, compression_unit, decompression_unit, wc_compression_unit, wc_decompression_unit,
    compression_table, redirection_table, selection_unit, destination_buffer, lds,
    memory : Component
        The components. The second and third pair are the units of Warped-Compression.
    low_vdd : tuple of LowVdd
        Where the slice is printed below nominal Vdd.
    geometry : SliceGeometry
        The slice whose constants they are.
    vdd_scaling : str
        How the constants of the slice follow its Vdd: ``curve`` or ``rows``, as `slice_at` says.
    """

    clock_ghz: float
    nominal_vdd_volts: float
    decompression_units: float
    retention_cycles: float
    wakeup_pj: float
    power_gating_area_mm2: float
    slice: Component
    compression_unit: Component
    decompression_unit: Component
    wc_compression_unit: Component
    wc_decompression_unit: Component
    compression_table: Component
    redirection_table: Component
    selection_unit: Component
    destination_buffer: Component
    lds: Component
    memory: Component
    low_vdd: tuple[LowVdd, ...]
    geometry: SliceGeometry
    vdd_scaling: VddScaling = "curve"

    @property
    def refresh_period_cycles(self) -> int:
        """Cycles from one refresh of the table, an entry at a time, to the next."""
        return int(self.retention_cycles // self.geometry.entries)

    @property
    def access_exponent(self) -> float:
        """Exponent of the slice's access energy in Vdd.

        Under ``curve`` that of the power law through the nominal constants that fits the rows
        best, reads and writes together, by least squares of logarithms (reconstructed); 2 under
        ``rows``, and where there are no rows (assumed).
        """
        pairs = [
            (math.log(low.vdd_volts / self.nominal_vdd_volts), math.log(printed / nominal))
            for low in (self.low_vdd if self.vdd_scaling == "curve" else ())
            for printed, nominal in (
                (low.read_pj, self.slice.read_pj),
                (low.write_pj, self.slice.write_pj),
            )
            if printed > 0 and nominal > 0
        ]
        squares = math.fsum(volts**2 for volts, _ in pairs)
        if not squares:
            return QUADRATIC
        return math.fsum(volts * energy for volts, energy in pairs) / squares

    def slice_at(self, vdd_volts: float | None) -> Component:
        """Return the slice at a Vdd.

        From the nominal Vdd, leakage scales linearly and access energy with a power of Vdd,
        `access_exponent`. Under ``rows``, a Vdd that is printed has the constants of its row
        instead; they do not follow that rule, so that energies jump beside them.

        Parameters
        ----------
        vdd_volts : float or None
            Supply voltage of the slice, above 0 and at most 2 V; None for the nominal one.

        Raises
        ------
        UserError
            If the Vdd is out of its range.

        Notes
        -----
        Toca-Diaz et al. (RRCD), section IV.E and Table II.
        """
        if vdd_volts is None:
            return self.slice
        if not 0 < vdd_volts <= 2:
            raise UserError(f"vdd = {vdd_volts} V of the slice: above 0 and at most 2 V is needed")
        if printed := self._printed_at(vdd_volts):
            return Component(
                printed.read_pj, printed.write_pj, printed.leakage_mw, self.slice.area_mm2
            )
        return self._scaled_to(vdd_volts)

    def _printed_at(self, vdd_volts: float) -> LowVdd | None:
        rows = self.low_vdd if self.vdd_scaling == "rows" else ()
        near = (low for low in rows if math.isclose(low.vdd_volts, vdd_volts, abs_tol=1e-9))
        return next(near, None)

    def _scaled_to(self, vdd_volts: float) -> Component:
        ratio = vdd_volts / self.nominal_vdd_volts
        of_access = ratio**self.access_exponent
        return Component(
            read_pj=self.slice.read_pj * of_access,
            write_pj=self.slice.write_pj * of_access,
            leakage_mw=self.slice.leakage_mw * ratio,
            area_mm2=self.slice.area_mm2,
        )

    def note_on_mixture(self, vdds_volts: Collection[float]) -> str:
        """Say that energies of a comparison do not lie on one curve; empty if they do.

        They do under ``curve``.

        Parameters
        ----------
        vdds_volts : collection of float
            Supply voltages of the slice that are compared.
        """
        low = sorted({volts for volts in vdds_volts if volts < self.nominal_vdd_volts})
        differences = {
            volts: printed.read_pj / self._scaled_to(volts).read_pj - 1
            for volts in low
            if (printed := self._printed_at(volts))
        }
        scaled = ", ".join(f"{volts:g}" for volts in low if volts not in differences)
        if not (differences and scaled):
            return ""
        said = ", ".join(f"{volts:g} ({more:+.0%})" for volts, more in differences.items())
        return (
            f"energy at {', '.join(f'{volts:g}' for volts in differences)} V is that of printed "
            f"constants, and at {scaled} V it is scaled from {self.nominal_vdd_volts:g} V; an "
            f"access differs where both are known, at {said} V, so that savings jump there"
        )


@dataclass(frozen=True)
class Penalty:
    """Time that an event costs.

    Attributes
    ----------
    cycles : float
        Cycles by which it delays its wavefront.
    unhidden_fraction : float
        Fraction of them that other wavefronts do not hide, 0 ... 1; the same for all kernels.
    """

    cycles: float
    unhidden_fraction: float

    @property
    def unhidden_cycles(self) -> float:
        """Cycles that an event adds to the execution."""
        return self.cycles * self.unhidden_fraction


@dataclass(frozen=True)
class Penalties:
    """Penalty of each kind of event that slows a kernel down."""

    wakeup: Penalty
    mov: Penalty
    refresh: Penalty
    pipeline: Penalty
    misprediction: Penalty
    lds: Penalty
    memory: Penalty


@dataclass(frozen=True)
class CostConstants:
    """All constants of energy, area and slowdown.

    Attributes
    ----------
    technologies : mapping of str to Technology
        ``32nm`` (Valero et al., IEEE TC 2019) and ``28nm`` (Toca-Diaz et al., RRCD).
    penalties : Penalties
        The same for all technologies.
    smoothing_vdd_volts : float
        Vdd of a conventional slice with voltage smoothing (Suav of RRCD).
    """

    technologies: Mapping[str, Technology]
    penalties: Penalties
    smoothing_vdd_volts: float

    def technology(self, name: str, vdd_scaling: VddScaling = "curve") -> Technology:
        """Technology of that name.

        Parameters
        ----------
        name : str
            Such as ``28nm``.
        vdd_scaling : str
            How the constants of the slice follow its Vdd: ``curve`` or ``rows``.

        Raises
        ------
        UserError
            If there is none.
        """
        if name not in self.technologies:
            raise UserError(
                f"technology {name!r} is unknown; choose from {', '.join(self.technologies)}"
            )
        return replace(self.technologies[name], vdd_scaling=vdd_scaling)


_POSITIVE = {
    "clock_ghz",
    "nominal_vdd_volts",
    "vdd_volts",
    "retention_cycles",
    "decompression_units",
}
_NEEDED = ("smoothing", "penalty", "unhidden_fraction")
_NOT_TECHNOLOGIES = ("geometry", *_NEEDED)
_SHAPE = ("entries", "components", "block_components")
_Numbers = TypeVar("_Numbers", Component, LowVdd)


def load_costs(source: Path | dict[str, Any] | None = None) -> CostConstants:
    """Read the constants that mcage ships, or user-defined ones of the same form.

    Parameters
    ----------
    source : Path or dict, optional
        A TOML file with the keys of mcage's own `data/costs.toml`, all of them and no others but
        ``geometry``; any number of technologies, under any names. Or the tables of such a file.

    Raises
    ------
    UserError
        If the file cannot be read, a key is missing or unknown, or a constant lacks its value,
        unit, status or source, or has one that cannot be meant.
    """
    if isinstance(source, dict):
        return _costs(source, "costs.tables")
    return _costs(read_toml(source), str(source)) if source else _shipped()


@cache
def _shipped() -> CostConstants:
    """Constants that mcage ships; what reads results asks for them case by case."""
    path = Path(str(files("mcage") / "data" / "costs.toml"))
    return _costs(read_toml(path), path.name)


def read_costs(path: Path) -> dict[str, Any]:
    """Read the tables of a file that `load_costs` takes; it raises what that raises."""
    tables = read_toml(path)
    _costs(tables, str(path))
    return tables


def technologies_in(tables: dict[str, Any]) -> list[str]:
    """Names of the technologies in a user's tables."""
    return [name for name in tables if name not in _NOT_TECHNOLOGIES]


def statuses_in(tables: dict[str, Any], technology: str) -> str:
    """How many constants of a technology, and of time, have which status, in words."""
    used = (tables[name] for name in (technology, "penalty", "unhidden_fraction"))
    counts = Counter(status for table in used for status in _statuses(table))
    return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])


def _statuses(table: dict[str, Any]) -> Iterator[str]:
    for entry in table.values():
        status = entry.get("status")  # a table, too, may be called so
        yield from [status] if isinstance(status, str) else _statuses(entry)


def _costs(tables: dict[str, Any], where: str) -> CostConstants:
    missing = [name for name in _NEEDED if name not in tables]
    if missing:
        raise UserError(f"{where}: [{missing[0]}] is missing")
    names = technologies_in(tables)
    if not names:
        raise UserError(f"{where}: no technology in it, such as [32nm]")
    geometry = _geometry(tables["geometry"], where) if "geometry" in tables else GCN
    return CostConstants(
        technologies={
            name: _technology(tables[name], geometry, f"{where}, [{name}") for name in names
        },
        penalties=_penalties(tables["penalty"], tables["unhidden_fraction"], where),
        smoothing_vdd_volts=_constants(tables["smoothing"], ["vdd_volts"], f"{where}, [smoothing")[
            "vdd_volts"
        ],
    )


def _geometry(shape: Any, where: str) -> SliceGeometry:
    try:
        if isinstance(shape, str):
            return preset(shape)
        is_shape = isinstance(shape, dict) and shape.keys() == set(_SHAPE)
        if is_shape and all(type(number) is int for number in shape.values()):
            return SliceGeometry(**shape)
    except UserError as error:
        raise UserError(f"{where}: geometry = {shortened(shape)}: {error}") from error
    raise UserError(
        f"{where}: geometry = {shortened(shape)}: the name of a preset, or whole numbers "
        f"{', '.join(_SHAPE)} are needed"
    )


def _technology(table: Any, geometry: SliceGeometry, where: str) -> Technology:
    table = dict(_table(table, where))
    low_vdd = _table(table.pop("low_vdd", {}), f"{where}.low_vdd")
    components = {field.name for field in fields(Technology) if field.type is Component}
    scalars = [
        field.name
        for field in fields(Technology)
        if field.name not in components | {"low_vdd", "geometry", "vdd_scaling"}
    ]
    for name in components - table.keys():
        raise UserError(f"{where}.{name}] is missing")
    values: dict[str, Any] = {"geometry": geometry} | {
        name: _numbers(Component, table.pop(name), f"{where}.{name}") for name in components
    }
    values["low_vdd"] = tuple(
        _numbers(LowVdd, table, f"{where}.low_vdd.{name}") for name, table in low_vdd.items()
    )
    values |= _constants(table, scalars, where)
    technology = Technology(**values)
    if not technology.refresh_period_cycles:
        raise UserError(
            f"{where}] retention_cycles = {technology.retention_cycles:g}: must be at least "
            f"{geometry.entries}, one for each entry"
        )
    if not technology.slice.read_pj:
        raise UserError(f"{where}.slice] read_pj = 0: must be above 0")
    return technology


def _penalties(penalty: Any, unhidden_fraction: Any, where: str) -> Penalties:
    names = [field.name for field in fields(Penalties)]
    cycles = _constants(penalty, [f"{name}_cycles" for name in names], f"{where}, [penalty")
    fractions = _constants(unhidden_fraction, names, f"{where}, [unhidden_fraction")
    for name, fraction in fractions.items():
        if fraction > 1:
            raise UserError(
                f"{where}, [unhidden_fraction] {name} = {fraction}: a fraction, 0 ... 1, is needed"
            )
    return Penalties(**{name: Penalty(cycles[f"{name}_cycles"], fractions[name]) for name in names})


def _numbers(kind: type[_Numbers], table: Any, where: str) -> _Numbers:
    return kind(**_constants(table, [field.name for field in fields(kind)], where))


def _constants(table: Any, names: list[str], where: str) -> dict[str, float]:
    """Values of the constants of one table; ``where`` is the file and the open bracket of it."""
    table = _table(table, where)
    for key in table:
        if key not in names:
            raise UserError(f"{where}] {key} is unknown; known are {', '.join(names)}")
    for name in names:
        if name not in table:
            raise UserError(f"{where}] {name} is missing")
    return {name: _constant(table[name], name, f"{where}] {name}") for name in names}


def _constant(entry: Any, name: str, where: str) -> float:
    if not isinstance(entry, dict) or entry.keys() != {"value", "unit", "status", "source"}:
        raise UserError(f"{where}: value, unit, status and source are needed, and nothing else")
    value, unit = entry["value"], UNITS.get(name.rsplit("_", 1)[-1], "1")
    if entry["unit"] != unit:
        raise UserError(f"{where}: unit {entry['unit']!r}, where {unit!r} is needed")
    if entry["status"] not in STATUSES:
        raise UserError(f"{where}: status {entry['status']!r}, one of {', '.join(STATUSES)} needed")
    if not isinstance(entry["source"], str) or not entry["source"].strip():
        raise UserError(f"{where}: source {entry['source']!r}, where a text is needed")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"{where} = {value!r}: a number is needed")
    if value < 0 or (value == 0 and name in _POSITIVE):
        demand = "above 0" if name in _POSITIVE else "0 or above"
        raise UserError(f"{where} = {value}: must be {demand}")
    return float(value)


def _table(table: Any, where: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise UserError(f"{where}]: a table of constants is needed, not {table!r}")
    return table
