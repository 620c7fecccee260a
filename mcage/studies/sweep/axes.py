"""The axes of studies of slices: sweeps, and what plans cases as sweeps do."""

from collections.abc import Mapping
from typing import Any

from mcage.aging.environment import TEMPERATURE_KELVIN
from mcage.distributions import Distribution
from mcage.results.axes import Axis
from mcage.variation.scenarios import CELL_6T


def _voltages(planned: Any) -> str:
    # All digits are given, since voltages that differ little are different cases.
    points = planned.conditions.environment.points
    return "/".join(repr(float(point.vdd_volts)).removesuffix(".0") for point in points) + " V"


def _temperature(spec: Mapping[str, Any], environment: str) -> float:
    temperature = spec.get("life", {}).get("temperature_kelvin", TEMPERATURE_KELVIN)
    points = spec.get("operating_points", {}).get(environment, [{}])
    hotter = max(float(point.get("temperature_offset_kelvin", 0.0)) for point in points)
    return float(Distribution.of(temperature).at(0.5)) + hotter


def _geometry(spec: Mapping[str, Any], environment: str) -> str:
    geometry = spec.get("registers", {}).get("geometry")
    if not isinstance(geometry, Mapping):
        return "of the traces"
    changed = [f"{key}={value}" for key, value in geometry.items() if key != "preset"]
    return " ".join([str(geometry.get("preset", "of the traces")), *changed])


def _kernels(spec: Mapping[str, Any], environment: str) -> str:
    """Suite, or kernels of a spec."""
    workload = spec.get("workload", {})
    return ", ".join(workload.get("kernels", ())) or str(workload.get("suite", "unknown"))


TECHNIQUE = Axis("technique", "technique", lambda planned: planned.case.technique, named="always")
PROTECTION = Axis(
    "protection",
    "protection of entries",
    lambda planned: planned.case.protection,
    heading="protection",
)
ENVIRONMENT = Axis(
    "environment",
    "environment",
    lambda planned: planned.case.environment,
    named="always",
    condition=True,
)
SCENARIO = Axis(
    "scenario",
    "scenario",
    lambda planned: planned.case.scenario,
    named="always",
    condition=True,
)
VOLTAGES = Axis(
    "voltages",
    "supply voltage at each operating point",
    _voltages,
    heading="Vdd",
    named="always",
    derived=True,
    condition=True,
)
VDD = Axis(
    "vdd_volts",
    "lowest supply voltage at which the slice works",
    lambda planned: planned.conditions.environment.lowest_vdd_volts,
    units="V",
    dtype="float64",
    key="vdd",
    heading="lowest Vdd [V]",
    named="never",
    better="less",
)
HIGHEST_VDD = Axis(
    "highest_vdd_volts",
    "highest supply voltage at which the slice works",
    lambda planned: planned.conditions.environment.highest_vdd_volts,
    units="V",
    dtype="float64",
    heading="highest Vdd [V]",
    named="never",
    derived=True,
    better="less",
)

TEMPERATURE = Axis(
    "highest_temperature_kelvin",
    "highest temperature of the slice, median of the instances",
    of_spec=_temperature,
    units="K",
    dtype="float64",
    key="temperature",
    heading="highest temperature [K]",
    named="never",
    derived=True,
    moves=("environment",),
)

CELL = Axis(
    "cell", "SRAM cell", of_spec=lambda spec, _: spec.get("faults", {}).get("cell", CELL_6T)
)
GEOMETRY = Axis("geometry", "slice", of_spec=_geometry)
KERNELS = Axis("kernels", "kernels", of_spec=_kernels)

SHARED = (TECHNIQUE, PROTECTION, ENVIRONMENT, SCENARIO)
"""Axes of all studies of slices."""

AXES = (*SHARED, VOLTAGES, VDD, HIGHEST_VDD, TEMPERATURE, CELL, GEOMETRY, KERNELS)
"""The axes of a sweep, in the order of labels and columns."""
