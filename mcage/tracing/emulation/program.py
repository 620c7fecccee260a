"""The program on an emulated processor: one record, whose fields are options and keys of specs."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, PrivateAttr, ValidationError, field_validator

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.spec.keys import Option, RunsCode, Section, first_problem
from mcage.spec.sections import Name

MOST_INSTRUCTIONS = 20_000_000
"""Wave instructions of a run at most, unless more are asked for."""

_OF_ARITHMETIC = (
    *("approx-func", "associative-math", "fast-math", "finite-math-only", "honor-infinities"),
    *("honor-nans", "math-errno", "reciprocal-math", "rounding-math", "signed-zeros"),
    *("trapping-math", "unsafe-math-optimizations", "strict-float-cast-overflow"),
)
_OF_CODE = (
    *("builtin", "common", "delete-null-pointer-checks", "finite-loops", "inline"),
    *("inline-functions", "jump-tables", "merge-all-constants"),
    *("short-enums", "signed-char", "slp-vectorize", "strict-aliasing", "strict-enums"),
    *("strict-overflow", "unroll-loops", "vectorize", "wrapv"),
)
_OF_PROCESSOR = ("cumode", "tgsplit", "unsafe-fp-atomics")
_ALLOWED = re.compile(
    r"-[DUI][^\0\n]+|-O(?:fast|[0-3gsz]?)|-cl-[\w+,.=-]+|-w|-W[a-z][\w+=-]*"
    r"|-f(?:fp-(?:contract|model|eval-method|exception-behavior)|denormal-fp-math)=[\w,-]+"
    rf"|-f(?:no-)?(?:{'|'.join([*_OF_ARITHMETIC, *_OF_CODE])})"
    rf"|-m(?:no-)?(?:{'|'.join(_OF_PROCESSOR)})",
    re.ASCII,
)
"""Options that load no code and, but for headers of a folder, read and write no files."""


def require_allowed(name: str, options: Iterable[str]) -> None:
    """Refuse options of clang but those that are known to do no harm.

    A spec may come from somebody else.

    Raises
    ------
    UserError
        One of them is not allowed; the message begins with the name.
    """
    for option in options:
        if not isinstance(option, str) or not _ALLOWED.fullmatch(option):
            raise UserError(
                f"{name} {shortened(option)}: is not allowed; these are: -D, -U, -I, -O, -W, "
                "-cl-*, and of -f and -m those of `mcage docs emulation`"
            )


def arguments_of(text: str | None) -> str | Path | None:
    """Arguments as `Program` has them: a text such as ``n=4096``, or a Python file."""
    if text is not None and text.endswith(".py") and "=" not in text:
        return Path(text)
    return text


def extent_of(name: str, text: str | None) -> tuple[int, ...] | None:
    """Read a grid or a block: X or X,Y or X,Y,Z.

    Raises
    ------
    UserError
        It has another form; the message begins with the name.
    """
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise UserError(
            f"{name} {shortened(text)}: must be X or X,Y or X,Y,Z, each 1 ... 999,999,999"
        )
    return tuple(int(part) for part in parts)


def options_of(name: str, text: str) -> list[str]:
    """Read options of a compiler; arguments and errors as of `extent_of`."""
    try:
        words = iter(shlex.split(text))
    except ValueError as error:
        raise UserError(f"{name} {shortened(text)}: {error}") from error
    options = [word + next(words, "") if word in ("-D", "-U", "-I") else word for word in words]
    require_allowed(name, options)
    return options


class Program(Section):
    """A kernel that runs on an emulated processor: of `mcage trace emulate` and of injections.

    `Program.of` makes it of values of Python.
    """

    panel: ClassVar = "Kernel"

    source: Annotated[Name, RunsCode(lambda text: Path(text).suffix == ".py", compiles=True)] = ""
    """OpenCL C (.cl), Triton (.py), or a code object of AMD's compilers."""
    arch: Annotated[Name, Option("--arch PROCESSOR")] = "gfx90a"
    """Processor: gfx90a (MI200), gfx942 (MI300), gfx1030 (RX 6000), gfx1100 (RX 7000) or gfx900
    (Vega)."""
    args: Annotated[
        str | None,
        Option("--args NAME=VALUE...|FILE.py", default="none"),
        RunsCode(lambda text: isinstance(arguments_of(text), Path)),
    ] = None
    """Arguments, or a Python file with a function arguments(random)."""
    grid: Annotated[str | None, Option("--grid X[,Y[,Z]]", default="GRID of the file")] = None
    """Work-groups in each direction."""
    block: Annotated[str | None, Option("--block X[,Y[,Z]]", default="BLOCK of the file")] = None
    """Work-items of a work-group in each direction."""
    check: Annotated[
        str | None, Option("--check FILE.py", default="that of --args"), RunsCode(bool)
    ] = None
    """Python file with a function `expected(**arguments)`, with which outputs are compared."""
    tolerance: Annotated[float, Field(ge=0)] | None = None
    """Largest error of an output, relative to its largest value; by default TOLERANCE of the
    file."""
    entry: Annotated[str | None, Option("--entry NAME", default="the only one")] = None
    """Which kernel of the source."""
    flags: Annotated[str, Option("--flags OPTIONS", default="none"), RunsCode(bool)] = ""
    """Further options of clang."""
    inputs: Annotated[int, Field(ge=0, lt=2**63), Option("--inputs N", seldom=True)] = 0
    """Seed of the inputs."""
    compute_units: Annotated[
        int, Field(ge=1, le=1024), Option("--compute-units N", seldom=True)
    ] = 1
    """Work-groups go round so many compute units, of which the first is recorded, or has faults."""
    latency: Annotated[float, Field(ge=0.01, le=100), Option("--latency FACTOR", seldom=True)] = 1.0
    """Factor on the latencies of memory, which are assumed."""
    most_instructions: Annotated[
        int, Field(ge=1, le=10**10), Option("--most-instructions N", seldom=True)
    ] = MOST_INSTRUCTIONS
    """Wave instructions at which the run is refused."""

    _arguments: Mapping[str, Any] | None = PrivateAttr(None)

    @field_validator("flags")
    @classmethod
    def _allowed(cls, flags: str) -> str:
        try:
            options_of("flags", flags)
        except UserError as error:
            raise ValueError(str(error)) from error
        return flags

    @classmethod
    def of(
        cls,
        source: str | os.PathLike[str],
        arch: str = "gfx90a",
        arguments: str | Path | Mapping[str, Any] | None = None,
        grid: str | Sequence[int] | None = None,
        block: str | Sequence[int] | None = None,
        **keys: Any,
    ) -> "Program":
        """Make a program of values of Python.

        Parameters
        ----------
        source : str or path
            OpenCL C (``.cl``), Triton (``.py``), or a code object of any other name.
        arch : str
            Processor.
        arguments : str, path or mapping
            A text such as ``x=f32[4096]~normal n=4096``; a Python file with a function
            ``arguments(random)``; or the arguments themselves. None: the Python file of the kernel.
        grid, block : str, or sequence of int
            Work-groups, and work-items of one; None: ``GRID`` and ``BLOCK`` of the Python file.
        **keys
            Further fields by their names.

        Raises
        ------
        UserError
            A key is unknown, or a value is out of range.
        """
        keys |= {"source": os.fspath(source), "arch": arch}
        for name, numbers in (("grid", grid), ("block", block)):
            if numbers is not None:
                is_text = isinstance(numbers, str)
                keys[name] = numbers if is_text else ",".join(map(str, numbers))
        if isinstance(arguments, str | os.PathLike):
            keys["args"] = os.fspath(arguments)
        if isinstance(check := keys.get("check"), os.PathLike):
            keys["check"] = os.fspath(check)
        if not isinstance(flags := keys.get("flags", ""), str):
            require_allowed("--flags", flags)
            keys["flags"] = shlex.join(flags)
        options_of("--flags", keys.get("flags", ""))
        try:
            program = cls.model_validate(keys)
        except ValidationError as error:
            raise UserError(first_problem(error, cls)) from error
        program._arguments = arguments if isinstance(arguments, Mapping) else None
        return program

    @property
    def path(self) -> Path:
        """The source."""
        return Path(self.source)

    @property
    def arguments(self) -> str | Path | Mapping[str, Any] | None:
        """Arguments: a text, a Python file, or by name; None: those of the source."""
        return arguments_of(self.args) if self._arguments is None else self._arguments
