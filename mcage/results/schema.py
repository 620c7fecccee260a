"""What a sweep writes: every variable and coordinate of a results file, declared once.

To add a variable, add it to `VARIABLES` and let the sweep compute it: shards, merging, the final
file and its validation follow this list.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from mcage.lifetime.end_cause import EndCause
from mcage.results.header import SweepHeader

FILETYPE = "mcage-results"
SCHEMA_VERSION = 6

DVTH_BIN_EDGES_MV = np.arange(0.0, 201.0)
"""Borders of the dVth histogram, mV; ten years of full stress at 1.0 V and 80 °C give 90 mV."""

WRITE_KINDS = ("regular", "to_reliable", "to_faulty", "lds")
TRANSISTORS = ("T0", "T1")


@dataclass(frozen=True)
class Variable:
    """One array of a results file.

    Parameters
    ----------
    name, dims, dtype : str, tuple of str, str
        ``dtype`` is a NumPy name, or ``"text"``.
    units : str
        In the notation of UDUNITS; ``"1"`` for shares, counts and text.
    long_name, comment : str
        Heading of a figure's axis, and what a reader must know beyond it.
    flags : type of IntEnum, optional
        Names of the values of an enumeration.
    missing : str
        When a value may be NaN; the empty text if never.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str
    units: str
    long_name: str
    comment: str = ""
    flags: type[IntEnum] | None = None
    missing: str = ""

    @property
    def per_instance(self) -> bool:
        """Shards of such a variable are put one after the other; those of others are added."""
        return "instance" in self.dims

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Shape of the array, given the size of each dimension."""
        return tuple(sizes[dim] for dim in self.dims)


_LIFE = ("case", "instance")
_EPOCH = ("case", "instance", "epoch")
_DEAD = "in epochs after the end of life"
_NO_LIFE = "where the life is zero (dead on arrival)"

VARIABLES = (
    Variable(
        "workload",
        ("instance", "period"),
        "int16",
        "1",
        "kernel run in a workload period",
        "Index into kernel. Instance i runs the same workloads in every case.",
    ),
    Variable(
        "temperature_kelvin",
        ("instance",),
        "float64",
        "K",
        "temperature of the slice",
        "At every operating point, for life.",
    ),
    Variable(
        "temperature_swing_kelvin",
        ("instance", "epoch"),
        "float64",
        "K",
        "what the slice is hotter than its temperature in the epoch",
        "At every operating point; negative where it is cooler.",
    ),
    Variable(
        "vt0_volts",
        ("instance",),
        "float64",
        "V",
        "unaged threshold voltage of the slice's transistors",
    ),
    Variable("shift_factor", ("instance",), "float64", "1", "factor on every threshold shift"),
    Variable(
        "activity",
        ("instance",),
        "float64",
        "1",
        "share of the time that the slice is busy",
        "The rest of it, all its cells are off, or under life.idle = 'held' keep what they hold.",
    ),
    Variable(
        "operating_point_share",
        (*_LIFE, "operating_point"),
        "float64",
        "1",
        "share of the time at an operating point",
        "Points in the order of the spec; of dvfs, 0.8 V comes first.",
        missing="beyond the points of the environment",
    ),
    Variable(
        "life_years",
        _LIFE,
        "float64",
        "year",
        "life",
        "The horizon where end_cause is censored.",
    ),
    Variable("end_cause", _LIFE, "int8", "1", "cause of the end of life", flags=EndCause),
    Variable(
        "max_dvth_mv",
        (*_LIFE, "transistor"),
        "float32",
        "mV",
        "largest NBTI threshold shift of the slice",
        "At the end of life or at the horizon.",
        missing=_NO_LIFE,
    ),
    Variable(
        "longest_duty",
        (*_LIFE, "transistor"),
        "float32",
        "1",
        "longest duty of the slice",
        "Largest share of the life that one cell held '0' (T0) or '1' (T1), idle time included.",
        missing=_NO_LIFE,
    ),
    Variable(
        "write_share",
        (*_LIFE, "write_kind"),
        "float64",
        "1",
        "share of the register writes, by kind",
        missing=_NO_LIFE,
    ),
    Variable(
        "spill_rate",
        _LIFE,
        "float64",
        "1",
        "spill rate",
        "Register writes that go to the LDS, over all register writes of the life.",
        missing=_NO_LIFE,
    ),
    Variable(
        "peak_spilled_rows",
        _LIFE,
        "int32",
        "1",
        "most rows spilled at once",
        "0 where the life is zero (dead on arrival).",
    ),
    Variable(
        "faulty_entries_start",
        _LIFE,
        "int16",
        "1",
        "faulty entries of the new slice",
        "Entries with two or more faulty bits.",
    ),
    Variable(
        "faulty_entries_end",
        _LIFE,
        "int16",
        "1",
        "faulty entries at the end of life",
        "Entries with two or more faulty bits.",
    ),
    Variable(
        "wakeups_per_write",
        _LIFE,
        "float64",
        "1",
        "wake-ups per register write",
        missing=_NO_LIFE,
    ),
    Variable(
        "movs_per_write",
        _LIFE,
        "float64",
        "1",
        "decompressing MOV writes per register write",
        missing=_NO_LIFE,
    ),
    Variable(
        "mispredictions_per_write",
        _LIFE,
        "float64",
        "1",
        "mispredicted compressions per register write",
        missing=_NO_LIFE,
    ),
    Variable(
        "delay_increase",
        _LIFE,
        "float32",
        "1",
        "delay increase of the worst transistor",
        "Relative to the new slice, at the end of life or at the horizon.",
        missing=_NO_LIFE,
    ),
    Variable(
        "slowdown",
        _LIFE,
        "float64",
        "1",
        "extra execution time",
        "For the work of the life, as a fraction of the time that a conventional slice takes.",
        missing=_NO_LIFE,
    ),
    Variable(
        "power_mw",
        _LIFE,
        "float64",
        "mW",
        "mean power of the slice and of what the technique adds",
        "Over the busy time of the life and the operating points of its environment; what it takes "
        "to hold while idle is counted in.",
        missing=_NO_LIFE,
    ),
    Variable(
        "energy_saving",
        _LIFE,
        "float64",
        "1",
        "energy saved over a conventional slice at the same voltages",
        "That does the same work at the same operating points, as a fraction of its energy.",
        missing=_NO_LIFE,
    ),
    Variable(
        "conventional_power_mw",
        _LIFE,
        "float64",
        "mW",
        "mean power of a conventional slice at the technology's nominal Vdd",
        "That does the same work.",
        missing=_NO_LIFE,
    ),
    Variable(
        "energy_saving_nominal",
        _LIFE,
        "float64",
        "1",
        "energy saved over a conventional slice at the technology's nominal Vdd",
        "That does the same work, as a fraction of its energy: "
        "1 - power_mw * (1 + slowdown) / conventional_power_mw.",
        missing=_NO_LIFE,
    ),
    Variable(
        "epoch_max_dvth_mv",
        (*_EPOCH, "transistor"),
        "float32",
        "mV",
        "largest NBTI threshold shift of the slice at the end of the epoch",
        missing=_DEAD,
    ),
    Variable(
        "epoch_faulty_entries",
        _EPOCH,
        "float32",
        "1",
        "faulty entries at the start of the epoch",
        missing=_DEAD,
    ),
    Variable(
        "epoch_peak_spilled_rows",
        _EPOCH,
        "float32",
        "1",
        "most rows spilled at once in the epoch",
        missing=_DEAD,
    ),
    Variable(
        "dvth_histogram",
        ("case", "transistor", "dvth_bin"),
        "int64",
        "1",
        "cells per threshold shift",
        "Random cells, 1,024 of each instance whose life is not zero, at the end of its life or at "
        "the horizon. The last bin also counts what lies above it.",
    ),
)
"""What a sweep computes. The shards of it hold these, with fewer instances."""


@dataclass(frozen=True)
class Coordinate:
    """An array that labels the others, and how it follows from the campaign.

    A coordinate with the name of its only dimension is the scale of that dimension.
    """

    variable: Variable
    values: Callable[[SweepHeader], Any]


def _text(name: str, dim: str, long_name: str, values: Callable[[SweepHeader], Any]) -> Coordinate:
    return Coordinate(Variable(name, (dim,), "text", "1", long_name), values)


def _number(
    name: str,
    dim: str,
    dtype: str,
    units: str,
    long_name: str,
    values: Callable[[SweepHeader], Any],
) -> Coordinate:
    return Coordinate(Variable(name, (dim,), dtype, units, long_name), values)


COORDINATES = (
    _text("case", "case", "case", lambda c: [case.label for case in c.cases]),
    _number("instance", "instance", "int64", "1", "instance", lambda c: range(c.instances)),
    _number("epoch", "epoch", "int32", "1", "epoch", lambda c: range(len(c.epoch_edges_years) - 1)),
    _number(
        "period", "period", "int32", "1", "workload period", lambda c: range(c.workload_periods)
    ),
    _number(
        "operating_point",
        "operating_point",
        "int32",
        "1",
        "operating point",
        lambda c: range(c.operating_points),
    ),
    _text("kernel", "kernel", "kernel", lambda c: c.kernels),
    _text("write_kind", "write_kind", "kind of register write", lambda c: WRITE_KINDS),
    _text("transistor", "transistor", "PMOS transistor of the cell", lambda c: TRANSISTORS),
    _number(
        "dvth_bin",
        "dvth_bin",
        "float64",
        "mV",
        "NBTI threshold shift, middle of the bin",
        lambda c: (DVTH_BIN_EDGES_MV[:-1] + DVTH_BIN_EDGES_MV[1:]) / 2,
    ),
    _text("technique", "case", "technique", lambda c: [case.technique for case in c.cases]),
    _text("environment", "case", "environment", lambda c: [case.environment for case in c.cases]),
    _text("scenario", "case", "scenario", lambda c: [case.scenario for case in c.cases]),
    _number(
        "vdd_volts",
        "case",
        "float64",
        "V",
        "lowest supply voltage at which the slice works",
        lambda c: [case.vdd_volts for case in c.cases],
    ),
    _number(
        "highest_vdd_volts",
        "case",
        "float64",
        "V",
        "highest supply voltage at which the slice works",
        lambda c: [case.highest_vdd_volts for case in c.cases],
    ),
    _number(
        "epoch_start_years",
        "epoch",
        "float64",
        "year",
        "start of the epoch",
        lambda c: c.epoch_edges_years[:-1],
    ),
    _number(
        "epoch_end_years",
        "epoch",
        "float64",
        "year",
        "end of the epoch",
        lambda c: c.epoch_edges_years[1:],
    ),
    _number(
        "dvth_bin_lower_mv",
        "dvth_bin",
        "float64",
        "mV",
        "lower border of the bin",
        lambda c: DVTH_BIN_EDGES_MV[:-1],
    ),
    _number(
        "dvth_bin_upper_mv",
        "dvth_bin",
        "float64",
        "mV",
        "upper border of the bin",
        lambda c: DVTH_BIN_EDGES_MV[1:],
    ),
)


def dimension_sizes(campaign: SweepHeader) -> dict[str, int]:
    """Size of every dimension of a results file of ``campaign``."""
    scales = (c for c in COORDINATES if c.variable.dims == (c.variable.name,))
    return {scale.variable.name: len(scale.values(campaign)) for scale in scales}
