"""A sweep as its files know it: cases, kernels, epochs, operating points."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from mcage.results.header import INSTANCE, Header
from mcage.results.variable import Coordinate, Quantity, Variable
from mcage.spec.draws import check_key
from mcage.sweep.stopping import quantities
from mcage.sweep.variables import DVTH_BIN_EDGES_MV, TRANSISTORS, WRITE_KINDS, variables


@dataclass(frozen=True)
class CaseName:
    """One point of the sweep grid by name.

    Parameters
    ----------
    label : str
        The whole case in one text, unique in the sweep: technique, environment, scenario and
        voltages, with spaces between them.
    technique, environment, scenario : str
        Its parts.
    vdd_volts, highest_vdd_volts : float
        Lowest and highest supply voltage at which the slice works, V.
    """

    label: str
    technique: str
    environment: str
    scenario: str
    vdd_volts: float
    highest_vdd_volts: float


@dataclass(frozen=True, kw_only=True)
class SweepHeader(Header):
    """A sweep as its files know it.

    Parameters
    ----------
    cases : tuple of CaseName
        The grid.
    kernels : tuple of str
        Names of the kernels that the workloads draw from.
    workload_periods : int
        Number of workload draws in a life.
    epoch_edges_years : tuple of float
        Borders of the epochs, years, from 0 to the horizon; one more than there are epochs.
    operating_points : int
        Operating points of the environment that has most.
    caveats : tuple of str
        What must be said wherever the results are shown: of traces that are no plain recordings,
        and of what nobody knows of another slice than that of the papers.
    draws : tuple of (str, str, tuple of float)
        Columns of the joint draws of constants: key of the spec, unit, and a value for each row.
    margins : tuple of str
        Margins of which cells fail, where they are told apart.
    technique_names : tuple of (str, str)
        User-defined techniques of the cases, and what they call themselves.

    Raises
    ------
    ValueError
        A field contradicts another.
    """

    cases: tuple[CaseName, ...]
    kernels: tuple[str, ...]
    workload_periods: int
    epoch_edges_years: tuple[float, ...]
    operating_points: int
    caveats: tuple[str, ...] = ()
    draws: tuple[tuple[str, str, tuple[float, ...]], ...] = ()
    margins: tuple[str, ...] = ()
    technique_names: tuple[tuple[str, str], ...] = ()

    command: ClassVar[str] = "mcage sweep --engine {engine}"
    table: ClassVar[str] = "mcage.report.tables.summary"

    def __post_init__(self) -> None:
        super().__post_init__()
        edges = self.epoch_edges_years
        if self.workload_periods < 1 or not self.kernels or not self.cases:
            raise ValueError("a sweep needs a workload period, a kernel, a case")
        if len({case.label for case in self.cases}) < len(self.cases):
            raise ValueError("two cases of a sweep have the same label")
        if (
            len(edges) < 2
            or edges[0] != 0
            or any(later <= earlier for earlier, later in pairwise(edges))
        ):
            raise ValueError(f"epoch edges must rise from 0 to the horizon, got {edges}")
        if not math.isfinite(edges[-1]):
            raise ValueError(f"the horizon must be finite, got {edges[-1]}")

    @property
    def study(self) -> str:
        """The name of sweeps in files."""
        return "sweep"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """What a sweep computes."""
        return variables(bool(self.draws), bool(self.margins))

    @property
    def quantities(self) -> Mapping[str, Quantity]:
        """What a sweep may be stopped by."""
        return quantities([case.label for case in self.cases], self.horizon_years)

    @property
    def horizon_years(self) -> float:
        """End of the simulated time, years; lives that reach it are censored."""
        return self.epoch_edges_years[-1]

    def declaration(self) -> dict[str, Any]:
        """Caveats, drawn constants with their units, margins, names of techniques, if any."""
        units = {key: unit for key, unit, _ in self.draws}
        declared = {"caveats": self.caveats, "drawn_constants": units, "margins": self.margins}
        declared["technique_names"] = dict(self.technique_names)
        return {name: json.dumps(value) for name, value in declared.items() if value}

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """What labels the variables of a sweep."""
        edges_mv, edges_years = DVTH_BIN_EDGES_MV, self.epoch_edges_years
        contents: dict[str, Any] = {
            "case": [case.label for case in self.cases],
            "instance": self.ids,
            "epoch": range(len(edges_years) - 1),
            "period": range(self.workload_periods),
            "operating_point": range(self.operating_points),
            "kernel": self.kernels,
            "write_kind": WRITE_KINDS,
            "transistor": TRANSISTORS,
            "dvth_bin": (edges_mv[:-1] + edges_mv[1:]) / 2,
            **{name: [getattr(case, name) for case in self.cases] for name in _PARTS},
            "epoch_start_years": edges_years[:-1],
            "epoch_end_years": edges_years[1:],
            "dvth_bin_lower_mv": edges_mv[:-1],
            "dvth_bin_upper_mv": edges_mv[1:],
        }
        contents |= {key: values for key, _, values in self.draws}
        contents["row"] = range(len(self.draws[0][2]) if self.draws else 0)
        contents["margin"] = self.margins
        labels = _labels({key: unit for key, unit, _ in self.draws}, bool(self.margins))
        return tuple(Coordinate(label, contents[label.name]) for label in labels)

    @classmethod
    def declared(
        cls, study: str, attributes: Mapping[str, Any]
    ) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
        """Variables and coordinates of sweeps, with those of joint draws where there are any."""
        drawn, margins = _drawn(attributes), "margins" in attributes
        return variables(bool(drawn), margins), _labels(drawn, margins)

    @classmethod
    def grid_fields(
        cls, study: str, attributes: Mapping[str, Any], contents: Mapping[str, list[Any]]
    ) -> dict[str, Any]:
        """Cases, kernels, periods, epochs and operating points."""
        columns = (contents["case"], *(contents[name] for name in _PARTS))
        names = ("label", *_PARTS)
        return {
            "cases": [dict(zip(names, case, strict=True)) for case in zip(*columns, strict=True)],
            "kernels": contents["kernel"],
            "workload_periods": len(contents["period"]),
            "epoch_edges_years": [0.0, *contents["epoch_end_years"]],
            "operating_points": len(contents["operating_point"]),
            "caveats": json.loads(attributes.get("caveats", "[]")),
            "draws": [(key, unit, contents[key]) for key, unit in _drawn(attributes).items()],
            "margins": contents.get("margin", ()),
            "technique_names": _named(attributes),
        }


_PARTS = tuple(field.name for field in fields(CaseName) if field.name != "label")
"""Coordinates that say of what a case is made."""


def _text(name: str, dim: str, long_name: str) -> Variable:
    return Variable(name, (dim,), "text", "1", long_name)


def _count(name: str, long_name: str) -> Variable:
    return Variable(name, (name,), "int32", "1", long_name)


def _number(name: str, dim: str, units: str, long_name: str) -> Variable:
    return Variable(name, (dim,), "float64", units, long_name)


LABELS = (
    _text("case", "case", "case"),
    INSTANCE,
    _count("epoch", "epoch"),
    _count("period", "workload period"),
    _count("operating_point", "operating point"),
    _text("kernel", "kernel", "kernel"),
    _text("write_kind", "write_kind", "kind of register write"),
    _text("transistor", "transistor", "PMOS transistor of the cell"),
    _number("dvth_bin", "dvth_bin", "mV", "NBTI threshold shift, middle of the bin"),
    _text("technique", "case", "technique"),
    _text("environment", "case", "environment"),
    _text("scenario", "case", "scenario"),
    _number("vdd_volts", "case", "V", "lowest supply voltage at which the slice works"),
    _number("highest_vdd_volts", "case", "V", "highest supply voltage at which the slice works"),
    _number("epoch_start_years", "epoch", "year", "start of the epoch"),
    _number("epoch_end_years", "epoch", "year", "end of the epoch"),
    _number("dvth_bin_lower_mv", "dvth_bin", "mV", "lower border of the bin"),
    _number("dvth_bin_upper_mv", "dvth_bin", "mV", "upper border of the bin"),
)
"""The coordinates of a sweep, in the order of its files."""


def _labels(drawn: Mapping[str, str], margins: bool) -> tuple[Variable, ...]:
    """The coordinates of a sweep; with joint draws, also their rows and columns, by unit."""
    labels = (*LABELS, _text("margin", "margin", "margin of a cell")) if margins else LABELS
    if not drawn:
        return labels
    columns = (_number(key, "row", unit, f"{key} of the row") for key, unit in drawn.items())
    return (*labels, _count("row", "row of the joint draws of constants"), *columns)


def _named(attributes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """User-defined techniques, and what they call themselves.

    Raises
    ------
    ValueError
        The attribute does not tell.
    """
    try:
        return [*json.loads(attributes.get("technique_names", "{}")).items()]
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError("attribute technique_names: names no techniques") from error


def _drawn(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Units of the columns of the joint draws, by key; empty where there are none.

    Raises
    ------
    ValueError
        The attribute does not tell.
    """
    try:
        drawn = json.loads(attributes.get("drawn_constants", "{}"))
    except (TypeError, RecursionError) as error:
        raise ValueError("attribute drawn_constants: is no JSON") from error
    if not isinstance(drawn, dict) or not all(isinstance(unit, str) for unit in drawn.values()):
        raise ValueError("attribute drawn_constants: names no constants")
    for key in drawn:
        check_key(key)
    return drawn
