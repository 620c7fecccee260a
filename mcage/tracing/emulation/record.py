"""A kernel's trace without a GPU, as ``mcage trace emulate`` makes it: run, checked, recorded."""

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage import __version__
from mcage.errors import UserError
from mcage.files.inputs import read_regular
from mcage.plain_text import one_line, said_by, shortened, shown, shown_path
from mcage.traces.model import Trace
from mcage.tracing.emulation.code_object import MOST_BYTES, KernelObject, read_code_object
from mcage.tracing.emulation.compilers import (
    DIGEST_BYTES,
    Compiled,
    PythonFile,
    Sources,
    arguments_from_text,
    checked_arguments,
    compile_opencl,
    compile_triton,
    content_digest,
)
from mcage.tracing.emulation.emulate import GEOMETRIES, Emulated, Emulation, Launch, geometry_of
from mcage.tracing.emulation.program import Program, extent_of, options_of
from mcage.tracing.emulation.waves import Say
from mcage.tracing.importing.run import build_traces, facts_of

_LONGEST_TITLE = 200
_MOST_TOLERANCE = 1e9
_COMPARED_TOGETHER = 1 << 18


class OutputWarning(UserWarning):
    """Something speaks against an output that nobody compared with what it should be."""


@dataclass(frozen=True)
class Recorded:
    """A trace, and what is known of the run.

    Attributes
    ----------
    trace : Trace
        Registers of one SIMD unit.
    outputs : dict of str to array
        What each buffer holds afterwards.
    errors : dict of str to float
        Of each output that was checked: its largest error relative to its largest value.
    tolerance : float
        What the errors may be.
    """

    trace: Trace
    outputs: dict[str, NDArray[Any]]
    errors: dict[str, float] = field(default_factory=dict)
    tolerance: float = 0.0

    @property
    def source(self) -> dict[str, Any]:
        """Origin of the trace."""
        return self.trace.source

    @property
    def warnings(self) -> list[str]:
        """What speaks against outputs that nobody compared: numbers that are none, no change."""
        return list(self.source.get("warnings", ()))


@dataclass(frozen=True, eq=False)
class ReadyKernel:
    """A kernel that has been compiled, with its arguments.

    Attributes
    ----------
    launch : Launch
        What runs.
    compiled : Compiled
        Where the code comes from.
    modules : object
        The Python files of the program.
    arguments : dict of str to array or number
        All arguments, by name.
    """

    launch: Launch
    compiled: Compiled
    modules: "_Modules"
    arguments: dict[str, Any]

    @property
    def place(self) -> str:
        """How errors begin."""
        return shown_path(self.launch.program.path)

    @cached_property
    def digests(self) -> dict[str, str]:
        """Hashes of the source, of the code object, and of names and bytes of all arguments."""
        hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
        for name, value in self.launch.arguments.items():
            hashed.update(f"{name} {getattr(value, 'dtype', '')}".encode())
            hashed.update(
                value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
            )
        code = content_digest(bytes(self.compiled.content))
        source = self.compiled.sources
        return {
            "source": source.digest if source else code,
            "code_object": code,
            "inputs": hashed.hexdigest(),
        }

    @property
    def digest(self) -> str:
        """Hash of the code and of the bytes of all arguments."""
        launched = self.launch.kernel.name, self.launch.grid, self.launch.block
        decisive = self.digests["code_object"], self.digests["inputs"], *launched
        return content_digest(" ".join(map(str, decisive)).encode())

    def run(self, say: Say | None = None, *, keeps: bool = False) -> tuple[Emulation, Emulated]:
        """Run it once; arguments and errors as of `Emulation.run`, with the name of the source."""
        try:
            emulation = Emulation(self.launch)
            return emulation, emulation.run(say, keeps=keeps)
        except UserError as error:
            raise UserError(f"{self.place}: {error}", error.command) from error


def ready_kernel(program: Program) -> ReadyKernel:
    """Compile a kernel and make its arguments.

    Parameters
    ----------
    program : Program
        What is to run.

    Raises
    ------
    UserError
        A tool is missing, or the source or an argument is wrong.
    """
    geometry = geometry_of(program.arch)
    random = np.random.default_rng(program.inputs)
    modules = _Modules(program)
    arguments = checked_arguments(modules.arguments(random), modules.place_of_inputs)
    compiled = _compiled(program, modules, arguments, geometry.components)
    place = shown_path(program.path)
    code = read_code_object(compiled.content, place)
    if code.arch != program.arch:
        raise UserError(f"{place}: is for {shown(code.arch)}, not for {program.arch}")
    kernel = _kernel(program, compiled, code.kernels)
    grid, block = _three(*modules.extent("grid")), _three(*modules.extent("block"))
    if modules.kernel is not None:
        block = block or (64 * modules.kernel.warps, 1, 1)
    if grid is None or block is None:
        missing = "--grid" if grid is None else "--block"
        raise UserError(f"{missing} is missing: X or X,Y or X,Y,Z")
    taken = {a.name for a in kernel.arguments if not a.kind.startswith("hidden_")}
    used = {name: of for name, of in arguments.items() if name in taken or not compiled.names}
    launch = Launch(program, code, kernel, grid, block, used)
    return ReadyKernel(launch, compiled, modules, arguments)


def record_kernel(program: Program, say: Say | None = None) -> Recorded:
    """Compile a kernel, run it on an emulated processor, and record one SIMD unit.

    Parameters
    ----------
    program : Program
        What is run.
    say : callable, optional
        Receives the progress of a long run now and then.

    Raises
    ------
    UserError
        A tool is missing, the source or an argument is wrong, the run cannot go on, or outputs
        differ from what they should be.

    Warns
    -----
    OutputWarning
        Something speaks against an output that nobody compared; see `Recorded.warnings`.
    """
    ready = ready_kernel(program)
    made = recorded(ready, ready.run(say)[1])
    for line in made.warnings:
        warnings.warn(f"{ready.place}: {line}", OutputWarning, stacklevel=2)
    return made


def recorded(ready: ReadyKernel, emulated: Emulated) -> Recorded:
    """Check what a run has computed, and make a trace of what it recorded.

    Raises
    ------
    UserError
        Outputs differ from what they should be, or no register is written.
    """
    errors, tolerance = ready.modules.check(ready.arguments, emulated.outputs)
    source = _facts(ready, emulated)
    if errors:
        source["largest_errors"] = {
            name: f"{error:.2g} of the largest value" for name, error in errors.items()
        }
    source |= _doubts(ready, emulated.outputs, errors)
    name = f"{ready.launch.kernel.name} {ready.launch.program.arch}"
    emulated.recording.tools |= {
        "mcage": __version__,
        "compiler": ready.compiled.facts.get("compiler", ""),
    }
    made = list(build_traces(emulated.recording, name, source | facts_of(emulated.recording)))
    if not made:
        raise UserError(f"{ready.place}: the recorded waves write no register")
    return Recorded(made[0].trace, emulated.outputs, errors, tolerance)


def _doubts(
    ready: ReadyKernel, outputs: Mapping[str, NDArray[Any]], compared: Iterable[str]
) -> dict[str, Any]:
    """Facts about outputs that nobody has compared: their names, and what speaks against them.

    Outputs are the buffers that have changed, and those that the kernel could write.
    """
    before = ready.launch.arguments
    alike = {name for name, of in outputs.items() if before[name].tobytes() == of.tobytes()}
    written_by_type = {
        argument.name
        for argument in ready.launch.kernel.arguments
        if argument.type_name and not argument.is_const
    }
    names = sorted(outputs.keys() - set(compared) - (alike - written_by_type))
    said = []
    if outputs and len(alike) == len(outputs) and not set(compared):
        names, said = sorted(outputs), ["the kernel has changed no buffer"]
    for name in [] if said else names:
        if name in alike:
            said.append(f"output {name} holds what it held before the run")
        elif wrong := _not_finite(before[name], outputs[name]):
            said.append(f"{wrong:,} elements of output {name} have become infinite or no number")
    facts = {
        "not_compared": dict.fromkeys(names, "no function expected says what it should hold"),
        "warnings": said,
    }
    return {key: value for key, value in facts.items() if value}


def _not_finite(before: NDArray[Any], after: NDArray[Any]) -> int:
    """Elements of an array that have become infinite or no number."""
    if after.dtype.kind not in "fc":
        return 0
    return int((~np.isfinite(after) & np.isfinite(before)).sum())


class _Modules:
    """The Python files of a program, and what they say."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.kernel: PythonFile | None = None
        if program.path.suffix == ".py":
            self.sources = Sources.read(program.path)
            self.kernel = PythonFile(program.path)
        arguments = program.arguments
        self.inputs = PythonFile(arguments) if isinstance(arguments, Path) else self.kernel
        self.checks = self.inputs if program.check is None else PythonFile(Path(program.check))

    def arguments(self, random: np.random.Generator) -> dict[str, Any]:
        stated = self.program.arguments
        if isinstance(stated, str):
            return arguments_from_text(stated, random)
        if isinstance(stated, Mapping):
            return dict(stated)
        if self.inputs is None:
            raise UserError("--args is missing: NAME=VALUE ..., or a Python file")
        if self.inputs.value("arguments") is None:
            raise UserError(f"{self.inputs.place}: has no function arguments(random)")
        made = self.inputs.call("arguments", random)
        if not isinstance(made, dict):
            raise UserError(f"{self.inputs.place}: arguments returns no dict")
        return made

    @property
    def place_of_inputs(self) -> str:
        """How errors about arguments begin."""
        if self.inputs is None or isinstance(self.program.arguments, str):
            return "--args"
        return self.inputs.place

    def extent(self, name: str) -> tuple[str, Any]:
        """Grid or block, and where it is from."""
        asked = extent_of(f"--{name}", getattr(self.program, name))
        if asked is not None or self.inputs is None:
            return f"--{name}", asked
        return f"{self.inputs.place}: {name.upper()}", self.inputs.value(name.upper())

    @property
    def title(self) -> str:
        title = self.inputs and self.inputs.value("TITLE")
        return shown(title, _LONGEST_TITLE) if isinstance(title, str) else ""

    def inputs_said(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Kind of each argument, for the facts of the trace."""
        text = {}
        for name, value in arguments.items():
            if isinstance(value, np.ndarray):
                text[name] = f"{value.dtype}[{', '.join(map(str, value.shape))}]"
            else:
                text[name] = shortened(value)
        about = one_line(str((self.inputs and self.inputs.value("__doc__")) or ""))
        if isinstance(self.program.arguments, str):
            about = self.program.arguments
        return text | ({"what they are": about} if about else {})

    def check(
        self, arguments: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]]
    ) -> tuple[dict[str, float], float]:
        """Largest error of each output; refused where it is too large."""
        if self.checks is None or self.checks.value("expected") is None:
            if self.program.check is not None and self.checks is not None:
                raise UserError(f"{self.checks.place}: has no function expected(**arguments)")
            return {}, 0.0
        place = self.checks.place
        copies = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in arguments.items()
        }
        expected = self.checks.call("expected", **copies)
        if not isinstance(expected, dict) or not all(name in outputs for name in expected):
            raise UserError(f"{place}: expected must return a dict of buffers by their names")
        tolerance = self.program.tolerance
        if tolerance is None:
            tolerance = self.checks.value("TOLERANCE", 0.0)
        if not isinstance(tolerance, int | float) or not 0 <= tolerance < _MOST_TOLERANCE:
            raise UserError(f"{place}: TOLERANCE is {shortened(tolerance)}, must be 0 or more")
        errors = {}
        for name, value in expected.items():
            try:
                errors[name] = relative_error(outputs[name], value)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # of a type of the user, among others
                reason = shown(said_by(error), _LONGEST_TITLE)
                raise UserError(f"{place}: expected: {name}: {reason}") from error
            if not errors[name] <= tolerance:
                raise UserError(
                    f"output {name} differs from {place}: by {errors[name]:.3g} of its largest "
                    f"value, at most {tolerance:.3g} is allowed"
                )
        return errors, float(tolerance)


def relative_error(outcome: NDArray[Any], expected: Any) -> float:
    """Largest difference of two arrays, relative to the largest finite value expected.

    Infinite whole must be equal, and so must NaNs.

    Raises
    ------
    TypeError, ValueError
        What is expected is no array of real numbers, or has another number of elements.
    """
    wanted = np.asarray(expected).reshape(-1)
    if wanted.dtype.kind not in "fiub":
        raise TypeError(f"must be an array of numbers, not of {wanted.dtype}")
    if outcome.size != wanted.size:
        raise ValueError(f"has {wanted.size:,} elements, the buffer has {outcome.size:,}")
    whole, largest, scale = outcome.reshape(-1), np.longdouble(0), np.longdouble(0)
    for first in range(0, len(wanted), _COMPARED_TOGETHER):
        # 64-bit integers are exact in no shorter type.
        parts = (of[first : first + _COMPARED_TOGETHER] for of in (whole, wanted))
        with np.errstate(invalid="ignore"):  # some NaNs complain when they are looked at
            values, right = (part.astype(np.longdouble) for part in parts)
            alike = (values == right) | np.isnan(values) & np.isnan(right)
            worst = np.abs(np.where(alike, 0, values - right)).max(initial=0)
        largest = np.maximum(largest, worst)
        scale = np.maximum(scale, np.abs(right[np.isfinite(right)]).max(initial=0))
    return float(largest / (scale or 1))


def _compiled(
    program: Program, modules: _Modules, arguments: Mapping[str, Any], lanes: int
) -> Compiled:
    flags = options_of("--flags", program.flags)
    if program.path.suffix == ".cl":
        return compile_opencl(program.path, program.arch, flags)
    if flags:
        raise UserError(
            f"{shown_path(program.path)}: flags {shortened(' '.join(flags))} are of "
            f"clang, which compiles OpenCL C (.cl) alone; leave them out"
        )
    if modules.kernel is not None:
        compiled = compile_triton(modules.kernel, arguments, program.arch, lanes, program.entry)
        modules.sources.require_unchanged(shown_path(program.path))
        return replace(compiled, sources=modules.sources)
    content = read_regular(program.path, MOST_BYTES)
    return Compiled(content, facts={"compiler": "not known: a code object"})


def _kernel(
    program: Program, compiled: Compiled, kernels: Mapping[str, KernelObject]
) -> KernelObject:
    wanted = program.entry or compiled.kernel
    there = shown(", ".join(kernels), _LONGEST_TITLE)
    if wanted is None and len(kernels) > 1:
        raise UserError(
            f"{shown_path(program.path)}: has {len(kernels)} kernels; choose one with --entry: "
            f"{there}"
        )
    name = wanted or next(iter(kernels))
    if name not in kernels:
        raise UserError(
            f"{shown_path(program.path)}: has no kernel {shown(name)}; there are {there}"
        )
    kernel = kernels[name]
    types = compiled.types.get(name, ())
    arguments = [
        replace(argument, type_name=types[number]) if number < len(types) else argument
        for number, argument in enumerate(kernel.arguments)
    ]
    # Triton names no argument, and adds two pointers to scratch memory, which are null. Behind
    # these follow the hidden ones of a code object of this version.
    if (names := compiled.names) is not None:
        for number, argument in enumerate(arguments):
            if number < len(names):
                arguments[number] = replace(argument, name=names[number])
            elif not argument.kind.startswith("hidden_"):
                arguments[number] = replace(argument, kind="hidden_none")
    return replace(
        kernel, arguments=tuple(arguments), lds_bytes=kernel.lds_bytes + compiled.lds_bytes
    )


def _three(place: str, numbers: Any) -> tuple[int, int, int] | None:
    if numbers is None:
        return None
    try:
        sizes = [index(number) for number in numbers[:4]]
    except KeyboardInterrupt:
        raise
    except BaseException:  # of a type of the user
        sizes = []
    if not 1 <= len(sizes) <= 3 or not 1 <= min(sizes) <= max(sizes) < 1 << 32:
        raise UserError(
            f"{place} {shortened(numbers)}: must be one to three integers, 1 or more each"
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _facts(ready: ReadyKernel, emulated: Emulated) -> dict[str, Any]:
    """Origin of the trace; the recording states what is exact."""
    recording, launch, modules = emulated.recording, ready.launch, ready.modules
    kernel, program = launch.kernel, launch.program
    recording.in_file |= {
        "values": "after the write, as the instruction set says",
        "lanes": "EXEC",
        "registers": "VGPRs"
        + (f", then {kernel.accumulators} AGPRs" if kernel.accumulators else ""),
        "windows": f"{kernel.registers} registers, rounded up to what the processor allocates",
    }
    recording.inferred |= {
        "place": f"SIMD unit 0 of the first of {program.compute_units} compute units, which take "
        "work-groups in turn",
        "entries": "the lowest free slot",
    }
    recording.approximate["time"] = (
        "a simple model: 4 cycles a vector instruction for 64 lanes, 1 for 32; latencies of 500 "
        f"cycles (loads), 64 (LDS) and 100 (scalar loads), times {program.latency:g}"
    )
    if launch.geometry is not None:
        recording.approximate[f"instructions (those of AMD's {program.arch})"] = (
            f"code, registers and times are AMD's; of {launch.geometry.name} are the number of "
            f"entries, {launch.geometry.entries}, and of windows"
        )
    if emulated.approximate:
        names = ", ".join(f"{name} ({of:.1%})" for name, of in emulated.approximate.items())
        recording.approximate["contents"] = (
            f"last bits of {names} of the instructions, which hardware rounds in a way of its own"
        )
    included = ready.compiled.sources.paths[1:] if ready.compiled.sources else ()
    source = {
        "emulated": f"{program.arch} ({GEOMETRIES[program.arch]}), from AMD's public ISA documents",
        "kernel": kernel.name,
        "what it is": modules.title,
        "file": program.path.name,
        "included": [path.name for path in included],
        "digests": ready.digests,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "inputs": modules.inputs_said(launch.arguments),
        "seed": program.inputs,
        "wave_instructions": emulated.instructions,
        **ready.compiled.facts,
    }
    return {key: value for key, value in source.items() if value not in ("", None, [])}
