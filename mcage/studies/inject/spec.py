"""The spec of injections: a sweep's keys, the kernel that runs, and what becomes wrong."""

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NoReturn, Self

from pydantic import Field, model_validator

from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.plain_text import shortened, shown_path
from mcage.spec import SweepSpec
from mcage.spec.keys import PLUG_IN, Option, Section, UsedIf
from mcage.spec.sections import Life, Name, Stopping, Workload
from mcage.tracing.emulation.program import Program

if TYPE_CHECKING:
    from mcage.geometry import SliceGeometry
    from mcage.soft_errors.stuck import StuckCells

SOURCE, CODE = "program.source: file", "program.source: code object"
COMPILER, INPUTS = "program.source: compiler", "program.args: values"
LAUNCH = "program.grid: launch"
CELLS, PLACES = "inject.stuck_cells: file", "inject.at: places"
"""Keys by which files record the digests of the kernel and its arguments, and what is known by
name: its compiler, and what is launched; and those of stuck cells and of places of flips."""

FLIP, READ = "flip", "read"
"""Kinds of faults that are treated unlike stuck cells."""

SINGLE = "single"
"""Flips of one cell each."""

TWO_BITS, RANDOM, ZERO = "two-bits", "random", "zero"
"""Flips of two bits beside one another in a lane's register; of all of it, to another value."""

CYCLE, INSTRUCTION = "cycle", "instruction"
"""What is as likely as any other: a needed bit in a cycle, or a write of a register by a lane."""

MONTH_YEARS = 1 / 12

AGES_YEARS = (0.0, 1.0, 3.0, 5.0, 10.0)
"""Ages up to the horizon at which slices are looked at where none are given."""


class InjectWorkload(Workload):
    """The kernels under which slices age: by default the one that runs, all their lives."""

    kernels: Annotated[
        tuple[Name, ...], Option("--kernel NAME", default="the kernel that runs")
    ] = ()
    """Bundled kernel or trace file under which slices age, before they run that of SOURCE."""
    suite: Literal["sdk-2011"] = "sdk-2011"
    generations: Literal[0] = 0


class InjectLife(Life):
    """Life of a sweep, but a slow slice runs on: its answers are examined."""

    slowdown_limit: Annotated[float | str, Option("--slowdown-limit FRACTION")] = "none"
    """Slowdown that ends a life, or none."""


_OF_SAMPLED_SLICES = (
    *("environments", "scenarios", "vdd_volts"),
    *("inject.ages_years", "inject.test_interval_years"),
)
"""Keys on which nothing hangs but when sampled cells fail, and who knows of it."""


_NOT_OF_FLIPS = (
    "inject.fault = {spec.inject.fault!r}: faulty cells are those of the fault map; leave it out"
)


def _against_stuck_cells(spec: "InjectSpec") -> str:
    """Keys that contradict a file of stuck cells."""
    if spec.inject.fault == FLIP:
        return "inject.fault = 'flip' has no stuck cells; choose stuck or read, or leave it out"
    plain = type(spec)()
    for key in _OF_SAMPLED_SLICES:
        value, default = (attrgetter(key)(each) for each in (spec, plain))
        if value != default:
            value = list(value) if isinstance(value, tuple) else value
            return (
                f"{key} = {shortened(value)}: the cells of the file are faulty from the beginning, "
                "at any voltage, and no test finds them; leave one of both out"
            )
    return ""


class Inject(Section):
    """Kinds of faults, and the errors that count as wrong."""

    panel: ClassVar = "Faults in registers"

    fault: Annotated[Literal["flip", "stuck", "read"], Option("--fault KIND")] = "flip"
    """flip: a bit of a register, or neighbours, change once. stuck: the cells of a slice that are
    faulty give one value for ever. read: they lose the other value when it is read, after that
    read."""
    upset: Annotated[
        Literal["single", "two-bits", "random", "zero", "28nm", "16nm"],
        Option("--upset KIND"),
        UsedIf(lambda spec, _: spec.inject.fault == FLIP, _NOT_OF_FLIPS),
    ] = "single"
    """Cells of a flip. single: one. 28nm, 16nm: one or several neighbours of a row, as often as in
    that technology node. two-bits, random, zero: two bits beside one another in a lane's register,
    or all of it, which takes a random value, or 0."""
    weight: Annotated[
        Literal["cycle", "instruction"],
        Option("--weight UNIT"),
        UsedIf(
            lambda spec, _: spec.inject.fault == FLIP and spec.inject.at is None,
            "no flip is drawn: inject.fault = {spec.inject.fault!r}, inject.at = "
            "{spec.inject.at!r}; leave one of both out",
        ),
    ] = "cycle"
    """Flips that are equally likely. cycle: of every needed bit in every cycle (AVF). instruction:
    of the result of every instruction in every lane, just after it, needed or not (PVF)."""
    at: Annotated[
        Name | None,
        Option("--at PLACE|FILE.csv", default="drawn"),
        UsedIf(lambda spec, _: spec.inject.fault == FLIP, _NOT_OF_FLIPS),
    ] = None
    """Where and when bits flip: 'work_group=0 wave=1 register=5 lane=7 bit=3 moment=0.5', or a CSV
    file with such columns and a line for each. moment: share of the kernel's time; or step:
    instructions that the wave has executed."""
    ages_years: Annotated[
        tuple[Annotated[float, Field(ge=0, le=100)], ...],
        Field(max_length=100),
        Option("--age YEARS", default="flip: 0; otherwise 0, 1, 3, 5, 10"),
    ] = ()
    """Ages of the slices, in years, rising."""
    stuck_cells: Annotated[
        Name | None,
        Option("--stuck-cells FILE", default="sampled slices"),
        UsedIf(lambda spec, _: not _against_stuck_cells(spec), _against_stuck_cells),
    ] = None
    """File of the faulty cells of each instance, as `mcage avf --stuck-cells` takes it."""
    tolerance: Annotated[float, Field(ge=0, le=1e9), Option("--tolerance X")] = 0.01
    """Error of an output, relative to its largest value, up to which a wrong one is tolerable."""
    test_interval_years: Annotated[
        float, Field(ge=0, le=100), Option("--test-interval YEARS", default="a month, 0.0833")
    ] = MONTH_YEARS
    """Time between two tests that find faulty cells, where a technique or pointers must know them:
    what has failed since the last one is unknown."""

    @model_validator(mode="after")
    def _rise(self) -> Self:
        if any(later <= earlier for earlier, later in pairwise(self.ages_years)):
            raise ValueError(f"ages_years = {list(self.ages_years)!r} must rise")
        return self

    @property
    def of_registers(self) -> str:
        """The key by which flips are those of registers as programs see them; empty of cells."""
        if self.at is not None:
            return f"at = {shortened(self.at)}"
        if self.weight == INSTRUCTION:
            return f"weight = {self.weight!r}"
        return f"upset = {self.upset!r}" if self.upset in (TWO_BITS, RANDOM, ZERO) else ""

    @model_validator(mode="after")
    def _of_cells_or_of_registers(self) -> Self:
        if self.of_registers and self.upset not in (SINGLE, TWO_BITS, RANDOM, ZERO):
            raise ValueError(
                f"upset = {self.upset!r} reaches cells beside one another in the file, but "
                f"{self.of_registers} registers of a program: leave one of both out"
            )
        return self


class InjectStopping(Stopping):
    """When injections may end before the last one."""

    of: Annotated[Literal["sdc", "sdc_beyond", "due"], Option("--of QUANTITY")] = "sdc"
    """Share that --rel-ci or --margin looks at: sdc (wrong outputs), sdc_beyond (beyond the
    tolerance), due."""


_MOST_BYTES_OF_PLACES = 16 * MIB
_PLACE = ("work_group", "wave", "register", "lane", "bit")
MOMENT, STEP = "moment", "step"


class ChosenPlaces:
    """Places and moments of flips 0 ... N - 1, as a text or a CSV file has them.

    Parameters
    ----------
    text : str
        ``NAME=VALUE ...``, or the name of a file.

    Attributes
    ----------
    rows : list of dict of str to float
        Of each flip: work-group, wave, register, lane and bit, and moment or step.
    instances : int
        N.
    digest : str
        Hash of what they say.

    Raises
    ------
    UserError
        The file cannot be read; a column is missing or unknown, or no number.
    """

    def __init__(self, text: str) -> None:
        from mcage.tracing.emulation.compilers import content_digest

        if "=" in text:
            pairs = [part.partition("=")[::2] for part in text.replace(",", " ").split()]
            self._name, lines = "inject.at", [(0, dict(pairs))]
            if len(lines[0][1]) < len(pairs):
                raise UserError(f"inject.at = {shortened(text)}: names a value twice")
        else:
            self._name = f"inject.at: {shown_path(Path(text))}"
            try:
                content = read_regular(Path(text), _MOST_BYTES_OF_PLACES).decode("utf-8-sig")
                reader = csv.reader(content.splitlines())
                head = [name.strip() for name in next(reader, [])]
                lines = [
                    (reader.line_num, dict(zip_longest(head, line, fillvalue="")))
                    for line in reader
                    if line
                ]
            except UnreadableFileError as error:
                raise UserError(f"{self._name}: cannot read the file ({error.reason})") from error
            except (UnicodeDecodeError, csv.Error) as error:
                raise UserError(f"{self._name}: is no CSV in UTF-8") from error
            if not lines:
                raise UserError(f"{self._name}: has no line below its head")
        self._lines = [number for number, _ in lines]
        self.rows = [self._row(row, line) for row, (_, line) in enumerate(lines)]
        self.instances = len(self.rows)
        self.digest = content_digest(json.dumps(self.rows).encode())

    def _row(self, number: int, line: Mapping[str, str]) -> dict[str, float]:
        when = MOMENT if MOMENT in line else STEP
        if set(line) != {*_PLACE, when}:
            self.refuse(
                number, f"has {', '.join(line)}, must have {', '.join(_PLACE)}, and moment or step"
            )
        row: dict[str, float] = {}
        for name, text in line.items():
            try:
                row[name] = float(text) if name == MOMENT else int(text)
            except ValueError:
                self.refuse(number, f"{name} = {shortened(text)} is no number")
        return row

    def refuse(self, number: int, why: str) -> NoReturn:
        """Refuse a place by its number, with its line in the file."""
        line = self._lines[number]
        raise UserError(f"{self._name}:{f' line {line}:' if line else ''} {why}")


class ChosenCells:
    """Stuck cells of instances 0 ... N - 1, as a file has them.

    Parameters
    ----------
    name : str
        The file.

    Attributes
    ----------
    instances : int
        N.
    digest : str
        Hash of what the file says.

    Raises
    ------
    UserError
        As `mcage.soft_errors.stuck.stuck_table`; or an instance in between has no cell.
    """

    def __init__(self, name: str) -> None:
        import numpy as np

        from mcage.soft_errors.stuck import stuck_table
        from mcage.tracing.emulation.compilers import content_digest

        self._path = Path(name)
        with _key_named():
            self._table = stuck_table(self._path)
            instances = np.unique(self._table[:, 0])
            self.instances = len(instances)
            if instances[-1] >= self.instances:
                absent = int(np.argmax(instances != np.arange(self.instances)))
                raise UserError(
                    f"{name}: has no cell of instance {absent}, but of {instances[-1]}; instances "
                    "must be 0, 1, 2, ..."
                )
        self.digest = content_digest(self._table.tobytes())

    def of(self, geometry: "SliceGeometry", seed: int) -> "dict[int, StuckCells]":
        """Cells of a slice by instance; arguments and errors as of `load_stuck_cells`."""
        from mcage.soft_errors.stuck import stuck_cells_of

        with _key_named():
            return stuck_cells_of(self._table, self._path, geometry, seed)


@contextmanager
def _key_named() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"inject.stuck_cells: {error}") from error


class InjectSpec(SweepSpec):
    """Everything that decides injections: the keys of a sweep, the kernel, and its faults.

    The slices run the kernel all their lives, or others, of `workload.kernels`, until they run it.
    """

    command: ClassVar[str] = "inject"
    decided_by: ClassVar = SweepSpec.decided_by | {
        SOURCE: ("program.source",),
        CODE: ("program.source", "program.arch", "program.flags", "program.args", "program.inputs"),
        COMPILER: ("program.source",),
        INPUTS: ("program.source", "program.args", "program.inputs"),
        LAUNCH: (
            *("program.source", "program.args", "program.grid", "program.block"),
            "program.entry",
        ),
        CELLS: ("inject.stuck_cells",),
        PLACES: ("inject.at",),
    }

    compared: ClassVar = [
        *(
            "inject.fault",
            "inject.upset",
            "inject.weight",
            "techniques",
            "protections",
            "environments",
        ),
        *("scenarios", "vdd_volts", "inject.ages_years", "instances", "seed"),
    ]

    instances: Annotated[int, Field(ge=1, le=10**9), Option("--instances N")] = 1000
    """Number of injections in every case: of flips, or of slices with all their faults."""
    techniques: Annotated[
        tuple[Name, ...],
        Field(min_length=1),
        Option("--technique NAME", is_axis=True),
        PLUG_IN,
    ] = ("baseline",)
    """Protection technique, as `mcage techniques` lists them, which says where values lie."""
    environments: Annotated[
        tuple[Name, ...], Field(min_length=1), Option("--environment NAME", is_axis=True)
    ] = ("dvfs",)
    """Operating points of a life: turbo, undervolted, dvfs, or a name that SPEC defines."""
    workload: InjectWorkload = InjectWorkload()
    life: InjectLife = InjectLife()
    program: Program = Program()
    inject: Inject = Inject()
    stopping: InjectStopping | None = None

    @classmethod
    def plain(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a sweep whose only kernel is the program, unless they name others.

        As many instances as a file of stuck cells or places has, unless the fields say it.
        """
        fields = super().plain(fields)
        inject = fields.get("inject")
        if isinstance(inject, Mapping) and "instances" not in fields:
            for key, chosen in (("stuck_cells", ChosenCells), ("at", ChosenPlaces)):
                if isinstance(name := inject.get(key), str) and name:
                    fields = fields | {"instances": chosen(name).instances}
        program = fields.get("program")
        workload = fields.get("workload", {})
        if not isinstance(program, Mapping) or not isinstance(workload, Mapping):
            return fields
        source = program.get("source")
        if not isinstance(source, str) or not source or workload.get("kernels"):
            return fields
        return fields | {"workload": {**workload, "kernels": [source]}}

    @model_validator(mode="after")
    def _within_the_horizon(self) -> Self:
        ages, horizon = self.inject.ages_years, self.life.horizon_years
        if ages and ages[-1] > horizon:
            raise ValueError(
                f"inject.ages_years = {list(ages)!r} must lie within life.horizon_years = "
                f"{horizon:g}"
            )
        return self

    @property
    def ages(self) -> tuple[float, ...]:
        """Ages at which slices are looked at."""
        if self.inject.ages_years:
            return self.inject.ages_years
        if self.inject.fault == FLIP or self.inject.stuck_cells is not None:
            return (0.0,)
        horizon = self.life.horizon_years
        return (*(age for age in AGES_YEARS if age < horizon), horizon)

    def check_program(self) -> None:
        """Refuse a spec without a kernel, or with what is of no use for one that runs by itself.

        Raises
        ------
        UserError
            One line that names the key.
        """
        if not self.program.source:
            raise UserError("inject: program.source is missing: the kernel that runs")
        if self.registers.geometry is not None:
            raise UserError(
                "inject: registers.geometry: the slice is that of program.arch; leave it out"
            )
