"""Run a folder of kernels on emulated processors, and say which are right, wrong and refused.

    python scripts/validation/check_suite.py SUITE.toml FOLDER [--arch gfx90a ...] [-j 2]

FOLDER has the kernels: whatever `mcage trace emulate` takes. SUITE.toml says how a host program
launches them; Python files that it names lie beside it:

    tolerance = 1e-6                    # largest error, relative to the largest value of an output

    [[case]]
    name = "scale, then add"
    arguments = "x=f32[256]~normal y=f32[256] n=256"   # as of --args, or "inputs.py:FUNCTION"
    reference = "references.py:added"                   # returns outputs, as `expected` does
    kernel = "scale.cl"
    grid = 4
    block = 64
    [[case.launch]]                     # these follow one another on the same buffers
    entry = "scale"
    arguments = "a=2.5"
    [[case.launch]]
    entry = "add"
    arguments = "source=x target=y"     # another name, or a value that is no argument of the case

``kernel``, ``entry``, ``flags``, ``grid`` and ``block`` are those of a launch, of its case, or of
the file: the innermost holds, and so it is with ``tolerance``. A case without ``launch`` has one.
What a host program decides while it runs is a generator, ``launches = "host.py:FUNCTION"``: it
takes the dict of arguments, whose arrays hold what the launches before have left, may change them,
and yields a dict with the keys of a launch, whose ``arguments`` may be a dict as well. Paths in
``flags`` and in ``@FILE.npy`` are relative to FOLDER.

Prints a table of kernels and processors; ``--csv`` writes one with all reasons. Exit code 1: not
every kernel is right.
"""

import argparse
import csv
import math
import multiprocessing
import os
import re
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from mcage.errors import UserError
from mcage.files.inputs import read_toml
from mcage.plain_text import one_line, said_by, shortened, shown
from mcage.spec.keys import Section, first_problem
from mcage.tracing.emulation.compilers import PythonFile, arguments_from_text, checked_arguments
from mcage.tracing.emulation.emulate import GEOMETRIES
from mcage.tracing.emulation.program import Program, extent_of
from mcage.tracing.emulation.record import ReadyKernel, ready_kernel, relative_error

ARCHITECTURES = "gfx90a", "gfx1030", "gfx1100"
RIGHT, WRONG, REFUSED, FAILED, UNCHECKED = "right", "wrong", "refused", "failed", "not compared"
VERDICTS = RIGHT, WRONG, REFUSED, FAILED, UNCHECKED
_FUNCTION = re.compile(r"([^=\s]+\.py):(\w+)")
_LONGEST_REASON = 400
_NOT_REACHED = "another launch of the case did not end"


class LaunchKeys(Section):
    """What a launch is made of; None: as the case, or the file, says."""

    kernel: str | None = None
    entry: str | None = None
    flags: str | None = None
    grid: str | int | Sequence[int] | None = None
    block: str | int | Sequence[int] | None = None


class Launch(LaunchKeys):
    """A launch; arguments of its kernel that it does not name are those of the case."""

    arguments: str | dict[str, Any] = ""


class Case(LaunchKeys):
    """Launches on the same buffers, and what these hold afterwards."""

    name: str
    arguments: str
    reference: str | None = Field(None, pattern=f"^{_FUNCTION.pattern}$")
    tolerance: float | None = Field(None, ge=0)
    launch: list[Launch] = Field(default_factory=lambda: [Launch()], min_length=1)
    launches: str | None = Field(None, pattern=f"^{_FUNCTION.pattern}$")


class Suite(LaunchKeys):
    """The whole file."""

    tolerance: float = Field(0, ge=0)
    case: list[Case] = Field(min_length=1)


@dataclass(frozen=True)
class Limits:
    """Limits of a case.

    Attributes
    ----------
    instructions : int
        Wave instructions of all its launches.
    seconds : int
        Processor time.
    inputs : int
        Seed of its arguments.
    """

    instructions: int
    seconds: int
    inputs: int = 0


@dataclass
class Row:
    """A kernel of a case on a processor.

    Attributes
    ----------
    case, kernel, arch : str
        Which one; the kernel is its file and its name there.
    verdict : str
        One of `VERDICTS`.
    error : float
        Largest error of all outputs of the case, relative to the largest value of each.
    reason : str
        Why it is not right; of one that is, which buffers have changed and were not compared.
    launches, instructions : int
        How many ended, and the wave instructions of these.
    seconds : float
        Processor time of running them, without compilers.
    """

    case: str
    kernel: str
    arch: str
    verdict: str = ""
    error: float = math.nan
    reason: str = ""
    launches: int = 0
    instructions: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Wave instructions a second."""
        return self.instructions / self.seconds if self.seconds else math.nan


def read_suite(path: Path) -> Suite:
    """Read a file of cases.

    Raises
    ------
    UserError
        It cannot be read, or a key is unknown, missing, or has a wrong value.
    """
    try:
        suite = Suite.model_validate(read_toml(path))
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error, Suite)}") from error
    twice = [name for name, count in Counter(case.name for case in suite.case).items() if count > 1]
    if twice:
        raise UserError(f"{path}: case.name = {shortened(twice[0])}: is there twice")
    return suite


@cache
def _python_file(path: Path) -> PythonFile:
    return PythonFile(path)


class CaseRun:
    """A case that runs on a processor.

    Parameters
    ----------
    case : Case
        What runs, with the keys of its suite filled in.
    place, folder : Path
        Folder of the Python files, and of the kernels.
    arch : str
        Processor.
    limits : Limits
        Where it is ended.
    """

    def __init__(self, case: Case, place: Path, folder: Path, arch: str, limits: Limits) -> None:
        self.case, self.place, self.folder = case, place, folder
        self.arch, self.limits = arch, limits
        self.rows: dict[str, Row] = {}
        self._compiled: dict[tuple[Any, ...], ReadyKernel] = {}
        self._random = np.random.default_rng(limits.inputs)

    def finish(self) -> list[Row]:
        """Run it, compare, and return a row for each of its kernels."""
        verdict, error, reason, self._now = FAILED, math.nan, "", ""
        try:
            arguments = self._arguments()
            before = {
                name: value.copy() if isinstance(value, np.ndarray) else value
                for name, value in arguments.items()
            }
            for launch in self._launches(arguments):
                self._launch(launch, arguments)
            verdict, error, reason = self._compared(before, arguments)
        except UserError as refusal:
            verdict, reason = REFUSED if self._now else FAILED, str(refusal)
        except Exception as defect:  # of a user's code, or of mcage
            reason = f"{type(defect).__name__}: {said_by(defect)}"
        reason = shown(one_line(reason.removeprefix(f"{self.folder}/")), _LONGEST_REASON)
        for launch in self.case.launch if self.case.launches is None else ():
            self._row(_name(_filled(launch, self.case)))  # also of what was not reached
        if not self.rows:
            self._row(_name(self.case))
        for name, row in self.rows.items():
            if self._now and name != self._now:
                row.verdict, row.reason = UNCHECKED, _NOT_REACHED
            else:
                row.verdict, row.error, row.reason = verdict, error, reason
        return list(self.rows.values())

    def _call(self, function: str, *arguments: Any, **named: Any) -> Any:
        file, name = _FUNCTION.fullmatch(function).groups()
        opened = _python_file(self.place / file)
        if opened.value(name) is None:
            raise UserError(f"{opened.place}: has no function {name}")
        return opened.call(name, *arguments, **named)

    def _arguments(self) -> dict[str, Any]:
        if not _FUNCTION.fullmatch(self.case.arguments):
            return arguments_from_text(self.case.arguments, self._random)
        made = self._call(self.case.arguments, self._random)
        if not isinstance(made, dict):
            raise UserError(f"{self.case.arguments} returns no dict")
        return {
            name: np.require(value, requirements=["C", "W"]) if np.ndim(value) else value
            for name, value in checked_arguments(made, self.case.arguments).items()
        }

    def _launches(self, arguments: dict[str, Any]) -> Iterator[Launch]:
        """Launches with all keys, one after the other, since a generator may look at outputs."""
        launches: Any = self.case.launch
        if self.case.launches is not None:
            launches = self._call(self.case.launches, arguments)
        for launch in launches:
            try:
                whole = launch if isinstance(launch, Launch) else Launch.model_validate(launch)
            except ValidationError as error:
                raise UserError(f"{self.case.launches}: {first_problem(error, Launch)}") from error
            yield _filled(whole, self.case)

    def _row(self, name: str) -> Row:
        return self.rows.setdefault(name, Row(self.case.name, name, self.arch))

    def _launch(self, launch: Launch, arguments: dict[str, Any]) -> None:
        if launch.kernel is None:
            raise UserError(f"case {shown(self.case.name)}: kernel is missing: a file")
        self._now = _name(launch)
        row = self._row(self._now)
        bound = arguments | self._bound(launch, arguments)
        ready = self._ready(launch, bound)
        parameters = {argument.name for argument in ready.launch.kernel.arguments}
        taken = {key: value for key, value in bound.items() if key in parameters}
        ready = replace(ready, launch=replace(ready.launch, arguments=taken))
        begin = time.process_time()
        emulated = ready.run()[1]
        row.seconds += time.process_time() - begin
        row.launches += 1
        row.instructions += emulated.instructions
        for parameter, content in emulated.outputs.items():
            np.copyto(taken[parameter], content)
        if sum(each.instructions for each in self.rows.values()) > self.limits.instructions:
            raise UserError(
                f"all launches have more than {self.limits.instructions:,} wave instructions"
            )
        self._now = ""

    def _bound(self, launch: Launch, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a launch: values, or names of arguments of the case."""
        if isinstance(launch.arguments, dict):
            return {
                name: arguments[value] if isinstance(value, str) else value
                for name, value in launch.arguments.items()
            }
        pairs = [part.partition("=") for part in launch.arguments.split()]
        values = " ".join("".join(pair) for pair in pairs if pair[2] not in arguments)
        named = {pair[0]: arguments[pair[2]] for pair in pairs if pair[2] in arguments}
        return arguments_from_text(values, self._random) | named

    def _ready(self, launch: Launch, bound: dict[str, Any]) -> ReadyKernel:
        """A kernel that has been compiled; of what does not depend on arguments, once."""
        path = self.folder / launch.kernel
        keys = {name: value for name, value in launch if name in ("entry", "flags") and value}
        extents = (_extent(of) for of in (launch.grid, launch.block))
        program = Program.of(
            path, self.arch, bound, *extents, most_instructions=self.limits.instructions, **keys
        )
        key = path, *keys.values()
        if (known := self._compiled.get(key)) is None:
            known = ready_kernel(program)
            if path.suffix != ".py":  # Triton makes numbers a part of the code
                self._compiled[key] = known
            return known
        grid, block = ((*extent_of("", of), 1, 1)[:3] for of in (program.grid, program.block))
        return replace(known, launch=replace(known.launch, program=program, grid=grid, block=block))

    def _compared(self, before: dict[str, Any], after: dict[str, Any]) -> tuple[str, float, str]:
        """Verdict, largest error and reason."""
        changed = {
            name
            for name, value in before.items()
            if isinstance(value, np.ndarray) and value.tobytes() != after[name].tobytes()
        }
        if self.case.reference is None:
            return UNCHECKED, math.nan, "the case has no reference"
        expected = self._call(self.case.reference, **before)
        if not isinstance(expected, dict) or not expected or expected.keys() - after.keys():
            raise UserError(f"{self.case.reference} returns no dict of arguments of the case")
        errors = {name: relative_error(after[name], value) for name, value in expected.items()}
        worst = max(errors, key=lambda name: (math.isnan(errors[name]), errors[name]))
        tolerance = self.case.tolerance or 0.0
        if not errors[worst] <= tolerance:
            why = f"{worst} differs by {errors[worst]:.3g} of its largest value"
            return WRONG, errors[worst], f"{why}, at most {tolerance:.3g} is allowed"
        unseen = ", ".join(sorted(changed - expected.keys()))
        return RIGHT, errors[worst], f"not compared: {unseen}" if unseen else ""


def _name(keys: LaunchKeys) -> str:
    """File and name of a kernel."""
    return f"{keys.kernel or '?'}:{keys.entry or ''}".rstrip(":")


def _extent(numbers: Any) -> Any:
    return (numbers,) if isinstance(numbers, int) else numbers


def _filled(inner: Any, outer: LaunchKeys) -> Any:
    """A launch or a case with the keys that only what is around it has."""
    missing = {
        name: getattr(outer, name)
        for name in LaunchKeys.model_fields
        if getattr(inner, name) is None
    }
    return inner.model_copy(update=missing)


def cases_of(suite: Suite) -> list[Case]:
    """Cases with all their keys."""
    cases = [_filled(case, suite) for case in suite.case]
    return [
        case.model_copy(update={"tolerance": suite.tolerance}) if case.tolerance is None else case
        for case in cases
    ]


# Processes that take case after case; one that is ended is replaced.


def _work(connection: Any, place: Path, folder: Path) -> None:
    os.chdir(folder)
    while (asked := connection.recv()) is not None:
        case, arch, limits = asked
        used = math.ceil(time.process_time()) + limits.seconds
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        soft = used if hard == resource.RLIM_INFINITY else min(used, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
        connection.send(CaseRun(case, place, Path(), arch, limits).finish())


class Worker:
    """A process that runs cases."""

    def __init__(self, place: Path, folder: Path) -> None:
        self._folders = place.resolve(), folder.resolve()
        self._process: Any = None

    def run(self, case: Case, arch: str, limits: Limits) -> list[Row]:
        """Run a case; a process that does not survive it is a row as well."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, other = context.Pipe()
            target = (other, *self._folders)
            self._process = context.Process(target=_work, args=target, daemon=True)
            self._process.start()
            other.close()
        try:
            self._connection.send((case, arch, limits))
            rows: list[Row] = self._connection.recv()
            return rows
        except (EOFError, OSError):
            self._process.join()
            ended, self._process = -self._process.exitcode, None
            why = f"its process was ended by signal {ended}"
            if ended == signal.SIGXCPU:
                why = f"takes more than {limits.seconds} s of processor time; --seconds allows more"
            verdict = REFUSED if ended == signal.SIGXCPU else FAILED
            return [Row(case.name, _name(case), arch, verdict, reason=why)]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._connection.send(None)
            self._process.join()


def run_suite(
    path: Path, folder: Path, architectures: list[str], limits: Limits, processes: int
) -> list[Row]:
    """Run all cases of a file on all processors.

    Raises
    ------
    UserError
        The file is wrong.
    """
    cases = cases_of(read_suite(path))
    if not folder.is_dir():
        raise UserError(f"{folder}: is no folder")
    workers = [Worker(path.parent, folder) for _ in range(processes)]
    idle, rows = list(workers), {}

    def run(case: Case, arch: str) -> list[Row]:
        worker = idle.pop()
        try:
            return worker.run(case, arch, limits)
        finally:
            idle.append(worker)

    with ThreadPoolExecutor(processes) as pool:
        jobs = {
            pool.submit(run, case, arch): (number, arch)
            for number, case in enumerate(cases)
            for arch in architectures
        }
        for done in as_completed(jobs):
            rows[jobs[done]] = done.result()
            for row in done.result():
                said = f"{row.case}, {row.kernel}, {row.arch}: {row.verdict} {row.reason}"
                print(said.rstrip(), file=sys.stderr, flush=True)
    for worker in workers:
        worker.close()
    return [
        row for number in range(len(cases)) for arch in architectures for row in rows[number, arch]
    ]


# The table.


def write_csv(rows: list[Row], path: Path) -> None:
    """Write all that is known of each kernel of each case on each processor."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([each.name for each in fields(Row)] + ["instructions_a_second"])
        for row in rows:
            writer.writerow([*asdict(row).values(), row.rate])


def markdown(rows: list[Row], architectures: list[str]) -> str:
    """Table of kernels and processors, reasons, and how many are what."""
    cells: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cells[row.kernel][row.arch].append(row)
    lines = [f"| kernel | {' | '.join(architectures)} |", f"|---|{'---|' * len(architectures)}"]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for kernel, by_arch in cells.items():
        worst = {arch: max(of, key=_badness) for arch, of in by_arch.items()}
        for arch, row in worst.items():
            counts[arch][row.verdict] += 1
        texts = [
            _cell(worst[arch], by_arch[arch]) if arch in worst else "" for arch in architectures
        ]
        lines.append(f"| {kernel} | {' | '.join(texts)} |")
    reasons: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.reason and row.reason != _NOT_REACHED:
            reasons[row.kernel, row.verdict, row.reason].append(row.arch)
    lines.append("")
    lines += [
        f"- {kernel} ({', '.join(dict.fromkeys(on))}): {verdict}: {reason}"
        for (kernel, verdict, reason), on in reasons.items()
    ]
    lines.append("")
    for arch in architectures:
        of = counts[arch]
        said = ", ".join(f"{of[verdict]} {verdict}" for verdict in VERDICTS if of[verdict])
        executed = sum(row.instructions for row in rows if row.arch == arch)
        seconds = sum(row.seconds for row in rows if row.arch == arch)
        rate = f"{executed:,} wave instructions, {executed / (seconds or math.nan):,.0f} a second"
        lines.append(f"{arch}: {of.total()} kernels: {said}; {rate}")
    return "\n".join(lines)


def _badness(row: Row) -> tuple[int, float]:
    order = RIGHT, UNCHECKED, REFUSED, FAILED, WRONG
    return order.index(row.verdict), 0.0 if math.isnan(row.error) else row.error


def _cell(worst: Row, rows: list[Row]) -> str:
    text = worst.verdict
    if not math.isnan(worst.error):
        text += f" {worst.error:.1e}"
    seconds = sum(row.seconds for row in rows)
    if seconds:
        text += f", {sum(row.instructions for row in rows) / seconds:,.0f}/s"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", type=Path, metavar="SUITE.toml")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the kernels")
    parser.add_argument("--arch", action="append", choices=GEOMETRIES)
    parser.add_argument("-j", "--processes", type=int, default=1)
    parser.add_argument("--most-instructions", type=int, default=5_000_000, help="of a case")
    parser.add_argument("--seconds", type=int, default=120, help="processor time of a case")
    parser.add_argument("--inputs", type=int, default=0, help="seed of the arguments")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    architectures = options.arch or list(ARCHITECTURES)
    limits = Limits(options.most_instructions, options.seconds, options.inputs)
    try:
        rows = run_suite(
            options.suite, options.folder, architectures, limits, max(1, options.processes)
        )
    except UserError as error:
        sys.exit(f"error: {error}")
    if options.csv:
        write_csv(rows, options.csv)
    print(markdown(rows, architectures))
    sys.exit(not all(row.verdict == RIGHT for row in rows))


if __name__ == "__main__":
    main()
