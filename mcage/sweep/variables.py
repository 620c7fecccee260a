"""What a sweep writes: each variable of its results files, declared once.

A new output variable takes two edits: its declaration in `VARIABLES`, and the field of the same
name in the record that carries it (a part of `LifeOutcomes`, `Consumption` or
`InstanceConstants`). Where the field has another unit than the file, or another name,
`mcage.sweep.batch` says how the one becomes the other. Shards, the merge, the results file and its
validation follow this list.
"""

import numpy as np

from mcage.lifetime.end_of_life import EndCause
from mcage.results.variable import Variable, flags_of

DVTH_BIN_EDGES_MV = np.arange(0.0, 201.0)
"""Borders of the dVth histogram, mV; ten years of full stress at 1.0 V and 80 °C give 90 mV."""

WRITE_KINDS = ("regular", "to_reliable", "to_faulty", "lds")
TRANSISTORS = ("T0", "T1")

_LIFE = ("case", "instance")
_EPOCH = ("case", "instance", "epoch")
_DEAD = "in epochs after the end of life"
_NO_LIFE = "where the life is zero (dead on arrival)"

NEW_FAULTS = Variable(
    "new_faults",
    (*_LIFE, "margin"),
    "int32",
    "1",
    "cells that aging has made faulty, by the margin that failed first",
    "In sweeps whose aging.vmin_model knows margins.",
)

VARIABLES = (
    Variable(
        "workload",
        ("instance", "period"),
        "int16",
        "1",
        "kernel run in a workload period",
        "Index into kernel. Instance i runs the same workloads in every case.",
        within="kernel",
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
        within="epoch_end_years",
    ),
    Variable("end_cause", _LIFE, "int8", "1", "cause of the end of life", flags=flags_of(EndCause)),
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
        "Random cells, 128 of each instance whose life is not zero, at the end of its life or at "
        "the horizon. The last bin also counts what lies above it.",
    ),
)
"""What a sweep computes, in the order of its files."""

DRAW = Variable(
    "draw",
    ("instance",),
    "int32",
    "1",
    "row of the constants of the instance",
    "In the table of joint draws, counted from 0.",
    within="row",
)
"""What a sweep with joint draws of constants computes besides."""


def variables(drawn: bool = False, margins: bool = False) -> tuple[Variable, ...]:
    """Variables of a sweep, with those of joint draws and of margins where there are any."""
    return (*VARIABLES, *([DRAW] if drawn else []), *([NEW_FAULTS] if margins else []))
