"""A sweep as its files know it: variables, cases, epochs, operating points, stopping rules."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from typing_extensions import override

from mcage.errors import UserError
from mcage.lifetime import DVTH_BIN_EDGES_MV, RANKS, TRANSISTORS, WRITE_KINDS, EndCause
from mcage.results.axes import CASE, Axis, Value, coordinates_of
from mcage.results.header import INSTANCE, Header, StoppingRule, rule_of
from mcage.results.measures import Measure
from mcage.results.variable import Coordinate, Variable, flags_of
from mcage.spec import SweepSpec
from mcage.spec.draws import check_key
from mcage.spec.sections import faults_of
from mcage.studies.sweep.axes import AXES
from mcage.studies.sweep.measures import MEASURES

# Variables of the results files of a sweep, declared once.
#
# A new output variable takes two edits: its declaration in `VARIABLES`, and the field of the same
# name in the record that carries it (a part of `LifeOutcomes`, `Consumption` or
# `InstanceConstants`). Where the field has another unit than the file, or another name,
# `mcage.studies.sweep.batch` says how the one becomes the other. Shards, the merge, the results
# file and its validation follow this list.

_LIFE = ("case", "instance")
_EPOCH = ("case", "instance", "epoch")
_DEAD = "in epochs after the end of life"
_NO_LIFE = "where the life is zero (dead on arrival)"

FIT = "1e-9 hour-1"
"""Failures in time: one in 10**9 hours of a device."""

NEW_FAULTS = Variable(
    "new_faults",
    (*_LIFE, "margin"),
    "int32",
    "1",
    "cells that aging has made faulty, by the margin that failed first",
    "In sweeps whose aging.vmin_model knows margins.",
)

WORKLOAD = Variable(
    "workload",
    ("instance", "period"),
    "int16",
    "1",
    "kernel run in a workload period",
    "Index into kernel. Instance i runs the same workloads in every case.",
    within="kernel",
)
"""Drawn variables of a sweep of sequential workloads."""

MIX = (
    Variable(
        "mix_kernel",
        ("instance", "period", "turn"),
        "int16",
        "1",
        "kernel of the mix of a workload period",
        "Index into kernel. Instance i runs the same mixes in every case.",
        within="kernel",
    ),
    Variable(
        "mix_share",
        ("instance", "period", "turn"),
        "float64",
        "1",
        "share of the busy time of a kernel of the mix",
    ),
)
"""Drawn variables of a sweep of interleaved workloads."""

VARIABLES = (
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
        "Register writes that go to the LDS or to memory, over all register writes of the life.",
        missing=_NO_LIFE,
    ),
    Variable(
        "memory_rate",
        _LIFE,
        "float64",
        "1",
        "rate of spills to memory",
        "Register writes that go to memory since the LDS is full, over all register writes of the "
        "life.",
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
        "Entries with more faulty bits than their protection repairs.",
    ),
    Variable(
        "faulty_entries_end",
        _LIFE,
        "int16",
        "1",
        "faulty entries at the end of life",
        "Entries with more faulty bits than their protection repairs.",
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
        "slowdown_new",
        _LIFE,
        "float64",
        "1",
        "extra execution time of the new slice",
        "As a fraction of the time that a conventional slice takes.",
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
        "due_fit",
        _LIFE,
        "float64",
        FIT,
        "soft errors that are detected and not corrected (DUE), over the life",
        "Of a slice; an upper bound, from the ACE time of the kernels.",
        missing=f"{_NO_LIFE}, or where a program places values",
    ),
    Variable(
        "sdc_fit",
        _LIFE,
        "float64",
        FIT,
        "soft errors that are silent (SDC), over the life",
        "Of a slice; an upper bound, from the ACE time of the kernels.",
        missing=f"{_NO_LIFE}, or where a program places values",
    ),
    Variable(
        "uncorrectable_years",
        (*_LIFE, "uncorrectable_rank"),
        "float64",
        "year",
        "age at which a word in use becomes uncorrectable",
        "The first words of the slice, rising, under a technique that cannot avoid them; recorded "
        "up to the end of the epoch in which the life ends.",
        missing="where there are no more, and without a code",
    ),
    Variable(
        "uncorrectable_entry",
        (*_LIFE, "uncorrectable_rank"),
        "int16",
        "1",
        "entry of a word in use that becomes uncorrectable",
        "-1 where there are no more.",
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
        "epoch_uncovered_bits",
        _EPOCH,
        "float32",
        "1",
        "faulty bits without cover at the start of the epoch",
        "All faulty bits of faulty entries; under a code, those of their words with two or more.",
        missing=_DEAD,
    ),
    Variable(
        "epoch_words_at_risk",
        _EPOCH,
        "float32",
        "1",
        "words whose code is spent on a hard fault at the start of the epoch",
        "A soft error in such a word is detected and not corrected. 0 without a code. Words of "
        "faulty entries do not count, also where a technique still uses some of their blocks.",
        missing=_DEAD,
    ),
    *(
        Variable(
            f"epoch_{name}_fit",
            _EPOCH,
            "float32",
            FIT,
            f"soft errors that are {words}, with the faults at the start of the epoch",
            "Of a slice; an upper bound, from the ACE time of the kernels.",
            missing=f"{_DEAD}, or where a program places values",
        )
        for name, words in (
            ("corrected", "corrected"),
            ("due", "detected and not corrected (DUE)"),
            ("sdc", "silent (SDC)"),
        )
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
        "epoch_slowdown",
        _EPOCH,
        "float64",
        "1",
        "extra execution time at the end of the epoch",
        "Or at the end of the life in it; as a fraction of the time that a conventional slice "
        "takes.",
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
"""Computed variables of a sweep, in the order of its files."""

DRAW = Variable(
    "draw",
    ("instance",),
    "int32",
    "1",
    "row of the constants of the instance",
    "In the table of joint draws, counted from 0.",
    within="row",
)
"""Further variables of a sweep with joint draws of constants."""


# Stopping a sweep: the quantities, and the rule that its spec asks for.


def stopping_rule(spec: SweepSpec) -> StoppingRule | None:
    """Rule that a spec asks for, or None.

    Raises
    ------
    UserError
        There is no such quantity; or as `independent_slices`.
    """
    return rule_of(spec.stopping, (), SweepHeader.measures, independent_slices(spec))


def independent_slices(spec: SweepSpec) -> int:
    """Slices of a chip of a spec that may stop by a rule; 1 of any other spec.

    Raises
    ------
    UserError
        Slices are not independent, so that intervals over slices must not be relied on.
    """
    if spec.stopping is None:
        return 1
    slices = spec.faults.slices_per_chip
    if slices > 1 and (spec.faults.dies_differ(spec.scenarios) or spec.draws is not None):
        raise UserError(
            f"stopping: {slices} slices share each die, and dies "
            "differ: slices are not independent, and their intervals too narrow to stop by; leave "
            "it out, or set faults.slices_per_chip = 1"
        )
    return slices


@dataclass(frozen=True, kw_only=True)
class SweepHeader(Header):
    """A sweep as its files know it.

    Parameters
    ----------
    cases : tuple of dict
        Points on the `axes`, with their labels by the name ``case``, each of which is unique.
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
        Margins by which cells fail, where they are distinguished.
    technique_names : tuple of (str, str)
        User-defined techniques of the cases, and what they call themselves.
    mix_size : int
        Kernels that take turns in a mix; 0 if each period has a single kernel.

    Raises
    ------
    ValueError
        A field contradicts another.
    """

    cases: tuple[dict[str, Value], ...]
    kernels: tuple[str, ...]
    workload_periods: int
    epoch_edges_years: tuple[float, ...]
    operating_points: int
    caveats: tuple[str, ...] = ()
    draws: tuple[tuple[str, str, tuple[float, ...]], ...] = ()
    margins: tuple[str, ...] = ()
    technique_names: tuple[tuple[str, str], ...] = ()
    mix_size: int = 0

    command: ClassVar[str] = "mcage sweep --engine {engine}"
    decided_by: ClassVar = SweepSpec.decided_by
    spec: ClassVar[type] = SweepSpec
    axes: ClassVar[tuple[Axis, ...]] = AXES
    measures: ClassVar[tuple[Measure, ...]] = MEASURES
    objectives: ClassVar = ("rmst_years", "energy_saving_of_all", "area")
    grid: ClassVar = ("case",)

    def __post_init__(self) -> None:
        super().__post_init__()
        edges = self.epoch_edges_years
        if self.workload_periods < 1 or not self.kernels or not self.cases:
            raise ValueError("a sweep needs a workload period, a kernel, a case")
        for case in self.cases:
            if case.keys() != {CASE, *(axis.name for axis in self.axes)}:
                raise ValueError(f"a case lies on other axes: {', '.join(case)}")
        if len(set(self.labels)) < len(self.cases):
            raise ValueError("two cases of a sweep have the same label")
        if (
            len(edges) < 2
            or edges[0] != 0
            or any(later <= earlier for earlier, later in pairwise(edges))
        ):
            raise ValueError(f"epoch edges must rise from 0 to the horizon, got {edges}")
        for key, _, _ in self.draws:
            check_key(key)
        if not math.isfinite(edges[-1]):
            raise ValueError(f"the horizon must be finite, got {edges[-1]}")

    def __hash__(self) -> int:
        """Hash of the fields that decide its results."""
        return hash(self.spec_digest)

    def notes(self, spec: SweepSpec) -> Iterable[str]:
        """Warnings about the sweep of a spec before it is computed."""
        yield f"engine {self.engine} ({self.engine_reason}); {len(self.cases)} cases"
        if not spec.workload.kernels:
            yield f"kernels of suite {spec.workload.suite}: {len(self.kernels)}"
        for name in sorted(set(spec.operating_points or {}) - set(spec.environments)):
            yield f"note: operating_points.{name} is given, but this sweep does not name it"

    @property
    def study(self) -> str:
        """The name of sweeps in files."""
        return "sweep"

    @property
    def labels(self) -> list[str]:
        """Labels of the cases, for people."""
        return [str(case[CASE]) for case in self.cases]

    @property
    def dependent_instances(self) -> int:
        """Slices of a chip, where dies differ.

        Raises
        ------
        UserError
            Its spec is not one of a sweep.
        """
        faults = faults_of(self.spec_toml)
        scenarios = {str(case["scenario"]) for case in self.cases}
        differ = self.draws or faults.dies_differ(scenarios)
        return faults.slices_per_chip if differ else 1

    @override
    def of_cases(self, places: Iterable[int]) -> "SweepHeader":
        return replace(self, cases=tuple(self.cases[place] for place in places))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Variables that a sweep computes."""
        workload = MIX if self.mix_size else (WORKLOAD,)
        drawn = (DRAW,) if self.draws else ()
        return (*workload, *VARIABLES, *drawn, *((NEW_FAULTS,) if self.margins else ()))

    @property
    def horizon_years(self) -> float:
        """End of the simulated time, years; lives that reach it are censored."""
        return self.epoch_edges_years[-1]

    def declaration(self) -> dict[str, Any]:
        """Caveats, units of drawn constants, margins, names of techniques, sizes of mixes."""
        units = {key: unit for key, unit, _ in self.draws}
        declared: dict[str, Any] = {
            "caveats": self.caveats,
            "drawn_constants": units,
            "margins": self.margins,
            "technique_names": dict(self.technique_names),
            "mix_size": self.mix_size,
        }
        return {name: json.dumps(value) for name, value in declared.items() if value}

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Coordinates of the variables of a sweep."""
        edges_years = self.epoch_edges_years
        lower_mv, upper_mv = DVTH_BIN_EDGES_MV[:-1], DVTH_BIN_EDGES_MV[1:]
        middle = "NBTI threshold shift, middle of the bin"
        labels = [
            Coordinate(INSTANCE, self.ids),
            _count("epoch", "epoch", len(edges_years) - 1),
            _count("period", "workload period", self.workload_periods),
            _count("operating_point", "operating point", self.operating_points),
            _texts("kernel", "kernel", self.kernels),
            _texts("write_kind", "kind of register write", WRITE_KINDS),
            _count("uncorrectable_rank", "order of uncorrectable words", RANKS),
            _texts("transistor", "PMOS transistor of the cell", TRANSISTORS),
            _numbers("dvth_bin", "dvth_bin", "mV", middle, (lower_mv + upper_mv) / 2),
            _numbers("epoch_start_years", "epoch", "year", "start of the epoch", edges_years[:-1]),
            _numbers("epoch_end_years", "epoch", "year", "end of the epoch", edges_years[1:]),
            _numbers("dvth_bin_lower_mv", "dvth_bin", "mV", "lower border of the bin", lower_mv),
            _numbers("dvth_bin_upper_mv", "dvth_bin", "mV", "upper border of the bin", upper_mv),
        ]
        if self.margins:
            labels.append(_texts("margin", "margin of a cell", self.margins))
        if self.mix_size:
            labels.append(_count("turn", "kernel of a mix", self.mix_size))
        if self.draws:
            rows = len(self.draws[0][2])
            labels.append(_count("row", "row of the joint draws of constants", rows))
        for key, unit, values in self.draws:
            labels.append(_numbers(key, "row", unit, f"{key} of the row", values))
        return (*coordinates_of(self.axes, self.cases), *labels)


def _texts(name: str, long_name: str, values: Sequence[str]) -> Coordinate:
    return Coordinate(Variable(name, (name,), "text", "1", long_name), values)


def _count(name: str, long_name: str, count: int) -> Coordinate:
    return Coordinate(Variable(name, (name,), "int32", "1", long_name), range(count))


def _numbers(name: str, dim: str, units: str, long_name: str, values: Any) -> Coordinate:
    return Coordinate(Variable(name, (dim,), "float64", units, long_name), values)
