"""AMD code objects: kernels with their arguments and descriptors, and the text of instructions.

What a code object holds is laid down in LLVM's "User Guide for AMDGPU Backend" (code object V3 and
later: ELF notes, kernel descriptor). Instructions are disassembled by ``llvm-objdump``.
"""

import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from mcage.errors import UserError
from mcage.files.inputs import MIB
from mcage.plain_text import one_line, said_by, shortened, shown

MOST_BYTES = 64 * MIB
"""Largest code object, on disk and as it is loaded."""

MOST_ITEMS = 1024
"""Work-items of a work-group, at most."""

_TOOL_VERSIONS = range(25, 16, -1)
_TOOL_SECONDS = 60
_WAITING = 10
"""Wall-clock time after which a program is ended, in units of its processor time."""

_SLEEPS = 3.0
"""Seconds between two looks; a program that sleeps at both and has done nothing is ended."""

SECONDS_VARIABLE = "MCAGE_COMPILER_SECONDS"
"""Environment variable with the processor time that clang, ld.lld or llvm-objdump may take."""

_MOST_TEXT = 64 * MIB
_MOST_TOOL_MEMORY = 4 << 30
_MOST_METADATA = 4 * MIB
_MOST_ROWS = 1 << 20
_MOST_LETTERS = 4096
_MOST_REASON = 200


def tool(name: str) -> str:
    """Path of a program of LLVM 17 or later, such as ``llvm-objdump``.

    Raises
    ------
    UserError
        There is none; the message says what to install.
    """
    for candidate in (*(f"{name}-{version}" for version in _TOOL_VERSIONS), name):
        if (path := shutil.which(candidate)) and (candidate != name or _is_recent(path)):
            return path
    package = {"llvm-objdump": "llvm-19", "ld.lld": "lld-19", "clang": "clang-19"}[name]
    raise UserError(
        f"{name} of LLVM {min(_TOOL_VERSIONS)} or later is not installed; Debian "
        f"has it in {package}",
        "apt install clang-19 lld-19 llvm-19",
    )


def _is_recent(path: str) -> bool:
    version = re.search(
        r"(?:LLVM|clang|LLD) (?:version )?(\d+)\.", run_tool([path, "--version"])[1]
    )
    return version is not None and int(version[1]) >= min(_TOOL_VERSIONS)


def run_tool(command: Sequence[str], place: str = "") -> tuple[int, str, str]:
    """Exit status, output and errors of a program, whose time, memory and files are bounded.

    Parameters
    ----------
    command : sequence of str
        Its path and arguments.
    place : str
        How errors begin.

    Raises
    ------
    UserError
        It cannot be started, takes too long, writes too much, or is ended by a signal.
    """
    name = f"{place}: {Path(command[0]).name}" if place else command[0]
    seconds, before = _tool_seconds(), _seconds_of_programs()
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        try:
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=os.environ | {"TMPDIR": folder},
            ) as started:
                _bound(started.pid, seconds)
                try:
                    status = _ended(started, seconds, name)
                except BaseException:
                    started.kill()
                    raise
        except subprocess.TimeoutExpired as error:
            raise UserError(
                f"{name} has not ended after {_WAITING * seconds} s, with {seconds} s or less of "
                f"processor time"
            ) from error
        except OSError as error:
            raise UserError(f"{command[0]}: {error.strerror}") from error
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read(_MOST_TEXT).decode(errors="replace"))
    if why := _end(status, texts[1], _seconds_of_programs() - before, seconds):
        raise UserError(f"{name} {why}")
    return status, texts[0], texts[1]


def _ended(started: subprocess.Popen[bytes], seconds: int, name: str) -> int:
    """Exit status of a program, once it has ended; one that only sleeps is refused."""
    before, end = "", time.monotonic() + _WAITING * seconds
    while True:
        left = end - time.monotonic()
        try:
            return started.wait(max(0.0, min(_SLEEPS, left)))
        except subprocess.TimeoutExpired:
            if left <= _SLEEPS:
                raise
        before, last = _sleeping(started.pid), before
        if before and before == last:
            raise UserError(
                f"{name} waits for a file and does nothing else: is an #include a FIFO?"
            )


def _sleeping(process: int) -> str:
    """Processor time of a process that sleeps and has no child; empty if it is another's turn."""
    with suppress(OSError, IndexError):
        if not Path(f"/proc/{process}/task/{process}/children").read_text().split():
            facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            if facts[0] == "S":
                return " ".join(facts[11:13])
    return ""


def _seconds_of_programs() -> float:
    """Processor time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tool_seconds() -> int:
    """Processor time that a program of LLVM may take."""
    asked = os.environ.get(SECONDS_VARIABLE) or str(_TOOL_SECONDS)
    if not re.fullmatch(r"[1-9]\d{0,5}", asked, re.ASCII):
        raise UserError(f"{SECONDS_VARIABLE} is {shortened(asked)}, must be 1 ... 999999 seconds")
    return int(asked)


_OUT_OF_MEMORY = re.compile("out of memory|bad_alloc|failed to map segment|Cannot allocate memory")
_STACK = re.compile(r"PLEASE submit a bug report|Stack dump:|IO failure on output stream")


def _end(status: int, errors: str, used: float, seconds: int) -> str:
    """Limit that ended a program that has not ended by itself, if any.

    Programs of LLVM may fail while they say that their time is used up.
    """
    if status == 0:
        return ""
    if status == -signal.SIGXCPU or (status < 0 and used >= seconds):
        return f"takes more than {seconds} s of processor time; {SECONDS_VARIABLE} allows more"
    if status == -signal.SIGXFSZ:
        return f"writes more than {_MOST_TEXT // MIB} MiB"
    if _OUT_OF_MEMORY.search(errors):
        return f"has run out of memory; it may take {_MOST_TOOL_MEMORY // MIB:,} MiB"
    if status < 0:
        name = f" ({signal.Signals(-status).name})" if -status in set(signal.Signals) else ""
        cause = "; out of memory?" if -status in (signal.SIGKILL, signal.SIGABRT) else ""
        return f"was ended by signal {-status}{name}{cause}"
    if _STACK.search(errors) and not _STACK.split(errors)[0].strip():
        return "has crashed: a defect of it, or too little memory"
    return ""


def _bound(process: int, seconds: int) -> None:
    """Bound the time and memory of a process, and what it writes into a file."""
    limits = (
        (resource.RLIMIT_AS, _MOST_TOOL_MEMORY),
        (resource.RLIMIT_FSIZE, _MOST_TEXT),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, most in limits:
        with suppress(ProcessLookupError, PermissionError, ValueError):
            hard = resource.prlimit(process, kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(process, kind, (most, hard))


# Content of the file.

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_NOTE = struct.Struct("<III")
_AMDGPU, _LOAD, _NOTES, _RELOCATIONS = 224, 1, 7, 4
_SYMBOLS = (2, 11)  # all, and those that remain in a file that was stripped
_METADATA, _ABSOLUTE, _RELATIVE = 32, 3, 13


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: where it lies in the segment of arguments, and what it is.

    ``kind`` is ``by_value``, ``global_buffer``, ``dynamic_shared_pointer``, or one of those that a
    runtime fills in. ``alignment`` is that of the LDS to which a pointer points. ``is_const`` is
    whether the kernel cannot write through a pointer; False as well where no type is known.
    """

    name: str
    kind: str
    offset: int
    size: int
    type_name: str = ""
    alignment: int = 1
    is_const: bool = False


@dataclass(frozen=True)
class KernelObject:
    """A kernel of a code object.

    Parameters
    ----------
    name : str
        Its name.
    entry : int
        Address of its first instruction, relative to that of the code object.
    descriptor : bytes
        Its kernel descriptor, 64 bytes.
    arguments : tuple of Argument
        What it is called with.
    argument_bytes, lds_bytes, scratch_bytes : int
        Sizes of the segments of arguments, LDS and private memory (of a work-item).
    registers, accumulators : int
        VGPRs of a wave, AGPRs included, and these alone.
    lanes : int
        Work-items of a wave: 64 or 32.
    block : tuple of int or None
        Work-items of a work-group in x, y, z, where the source demands them.
    most_items : int
        Work-items of a work-group for which it was compiled, at most.
    most_groups : tuple of int
        Work-groups in x, y, z for which it was compiled, at most.
    unknown : str
        Why it cannot be launched: what its metadata ask for and nobody here knows.
    """

    name: str
    entry: int
    descriptor: bytes
    arguments: tuple[Argument, ...]
    argument_bytes: int
    lds_bytes: int
    scratch_bytes: int
    registers: int
    accumulators: int
    lanes: int
    block: tuple[int, ...] | None = None
    most_items: int = MOST_ITEMS
    most_groups: tuple[int, ...] = (MOST_BYTES,) * 3
    unknown: str = ""

    def field(self, offset: int, first: int, bits: int) -> int:
        """Bits of the descriptor: `bits` of them, from bit `first` of the word at `offset`."""
        return (
            int.from_bytes(self.descriptor[offset : offset + 4], "little") >> first
            & (1 << bits) - 1
        )


@dataclass(frozen=True)
class CodeObject:
    """A code object as a loader sees it.

    Parameters
    ----------
    arch : str
        Processor, such as ``gfx90a``.
    kernels : dict of str to KernelObject
        Kernels by name.
    image : bytearray
        Its memory, from its lowest address on, which is 0.
    relative : list of (int, int)
        Where an address of the image itself has to be written, and which.
    listing : dict of int to str
        Text of each instruction by its address, of all code.
    """

    arch: str
    kernels: dict[str, KernelObject]
    image: bytearray
    relative: list[tuple[int, int]] = field(default_factory=list)
    listing: dict[int, tuple[str, int]] = field(default_factory=dict)


class _Elf:
    """The parts of an ELF file; what does not lie in the file is refused."""

    def __init__(self, content: bytes, place: str) -> None:
        self.content, self.place = content, place
        self.rows_left = _MOST_ROWS
        if len(content) > MOST_BYTES:
            self.fail(f"has more than {MOST_BYTES // MIB} MiB")
        if content[:6] != b"\x7fELF\x02\x01" or len(content) < _HEADER.size:
            self.fail("is no 64-bit ELF file")
        header = _HEADER.unpack_from(content)
        if header[2] != _AMDGPU:
            self.fail(f"is an ELF file of machine {header[2]}, not of AMDGPU ({_AMDGPU})")
        self.flags = header[7]
        self.segments = self.table(_SEGMENT, header[5], header[10])
        self.sections = self.table(_SECTION, header[6], header[12])

    def fail(self, why: str) -> NoReturn:
        raise UserError(f"{self.place}: {why}")

    def bytes_at(self, offset: int, size: int) -> bytes:
        if offset + size > len(self.content):
            self.fail("is cut off or damaged: a part lies outside of the file")
        return self.content[offset : offset + size]

    def table(self, row: struct.Struct, offset: int, rows: int) -> list[tuple[int, ...]]:
        self.rows_left -= rows
        if self.rows_left < 0:
            self.fail(f"has tables of more than {_MOST_ROWS:,} rows")
        return list(row.iter_unpack(self.bytes_at(offset, rows * row.size)))

    def sections_of(self, *kinds: int) -> list[tuple[int, ...]]:
        return [section for section in self.sections if section[1] in kinds]

    def rows_of(self, section: tuple[int, ...], row: struct.Struct) -> list[tuple[int, ...]]:
        return self.table(row, section[4], section[5] // row.size)

    def text(self, section: int, offset: int) -> str:
        if section >= len(self.sections):
            self.fail("is damaged: a table of names is missing")
        start = self.sections[section][4] + offset
        end = self.content.find(b"\0", start, start + _MOST_LETTERS)
        return self.content[start:end].decode(errors="replace") if end >= 0 else ""

    def symbols(self) -> dict[str, int]:
        """Value of each symbol."""
        return {
            self.text(section[6], symbol[0]): symbol[4]
            for section in self.sections_of(*_SYMBOLS)
            for symbol in self.rows_of(section, _SYMBOL)
        }

    def image(self) -> bytearray:
        loaded = [segment for segment in self.segments if segment[0] == _LOAD]
        end = max((segment[3] + segment[6] for segment in loaded), default=0)
        if not 0 < end <= MOST_BYTES:
            self.fail(f"loads {shortened(end)} bytes, must be 1 ... {MOST_BYTES:,}")
        if sum(segment[5] for segment in loaded) > len(self.content):
            self.fail("is damaged: it loads parts of the file twice")
        image = bytearray(end)
        for segment in loaded:
            size = min(segment[5], segment[6])
            image[segment[3] : segment[3] + size] = self.bytes_at(segment[2], size)
        return image

    def metadata(self) -> dict[str, Any]:
        import msgpack  # type: ignore[import-untyped]

        for section in self.sections_of(_NOTES):
            if section[5] < _NOTE.size:
                continue
            name, size, kind = _NOTE.unpack(self.bytes_at(section[4], _NOTE.size))
            start = _NOTE.size + -(-name // 4) * 4
            if kind == _METADATA and start + size <= section[5]:
                if size > _MOST_METADATA:
                    self.fail(f"has more than {_MOST_METADATA // MIB} MiB of metadata")
                text = self.bytes_at(section[4] + start, size)
                try:
                    metadata = msgpack.unpackb(text)
                except Exception as error:  # whatever a library raises of a damaged text
                    raise UserError(f"{self.place}: its metadata is damaged") from error
                if isinstance(metadata, dict):
                    return metadata
        self.fail("has no metadata of AMD's code objects, version 3 or later")


_PROCESSOR = re.compile(r"gfx[0-9a-f]{3,4}")
_MACHINES = {0x2C: "gfx900", 0x36: "gfx1030", 0x3F: "gfx90a", 0x41: "gfx1100", 0x4C: "gfx942"}
"""Lowest byte of the flags in the header (EF_AMDGPU_MACH), of the processors that are emulated."""


def _processor(elf: _Elf, target: str) -> str:
    """Processor of a code object, by its header and by the target of its metadata.

    The last part of a target is the processor with its features, whatever stands before:
    ``amdgcn-amd-amdhsa--gfx90a:xnack-``, ``amdgpu9.0a-amd-amdhsa-unknown-gfx90a``.
    """
    named = target.partition(":")[0].rpartition("-")[2]
    machine = elf.flags & 0xFF
    arch = _MACHINES.get(machine, "")
    if target and named != arch and (arch or named in _MACHINES.values()):
        elf.fail(
            f"is for {arch or f'machine {machine:#x}'} by its header, for {shown(target)} by its "
            "metadata"
        )
    if not _PROCESSOR.fullmatch(arch or named):
        elf.fail(f"is for {shown(target) or 'no processor'}, must be for one such as gfx90a")
    return arch or named


def read_code_object(content: bytes, place: str) -> CodeObject:
    """Read a code object and disassemble its code.

    Parameters
    ----------
    content : bytes
        The ELF file.
    place : str
        How errors begin.

    Raises
    ------
    UserError
        It is none, is damaged, or ``llvm-objdump`` is missing or refuses it.
    """
    elf = _Elf(content, place)
    metadata = elf.metadata()
    arch = _processor(elf, str(metadata.get("amdhsa.target", "")))
    if unknown := shown(", ".join(sorted(map(str, metadata.keys() - _KEYS)))):
        elf.fail(f"its metadata have keys that are not known: {unknown}")
    version = metadata.get("amdhsa.version")
    if not isinstance(version, list) or version[:1] != [1]:
        elf.fail(f"has metadata of version {shortened(version)}, must be 1.0 or later, below 2.0")
    image, symbols = elf.image(), elf.symbols()
    kernels: dict[str, KernelObject] = {}
    listed = metadata.get("amdhsa.kernels")
    try:
        for facts in listed if isinstance(listed, list) else []:
            kernel = _kernel(facts, image, symbols)
            kernels[kernel.name] = kernel
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{place}: its metadata is damaged: {shown(said_by(error), _MOST_REASON)}"
        ) from error
    if not kernels:
        elf.fail("has no kernel")
    relative = []
    for section in elf.sections_of(_RELOCATIONS):
        for offset, info, addend in elf.rows_of(section, _RELOCATION):
            if offset + 8 > len(image) or info & 0xFFFFFFFF not in (_ABSOLUTE, _RELATIVE):
                elf.fail(f"has a relocation that is not supported, of type {info & 0xFFFFFFFF}")
            if info & 0xFFFFFFFF == _ABSOLUTE:
                elf.fail("needs a symbol of another code object")
            relative.append((offset, addend))
    return CodeObject(arch, kernels, image, relative, _listing(content, arch, place))


def _kernel(facts: dict[str, Any], image: bytearray, symbols: dict[str, int]) -> KernelObject:
    name, symbol = _name(facts[".name"]), _name(facts[".symbol"])
    if symbol not in symbols:
        raise ValueError(f"kernel {name} has no symbol {symbol}")
    start = symbols[symbol]
    descriptor = bytes(image[start : start + 64])
    if len(descriptor) != 64:
        raise ValueError(f"the descriptor of {name} lies outside of its memory")

    def size(key: str) -> int:
        return _size(facts.get(key, 0))

    arguments = tuple(
        _argument(argument, number, size(".kernarg_segment_size"))
        for number, argument in enumerate(facts.get(".args", []))
    )
    lanes = _size(facts[".wavefront_size"])
    if lanes not in (32, 64):
        raise ValueError(f"{name} has waves of {lanes} lanes")
    entry = start + int.from_bytes(descriptor[16:24], "little", signed=True)
    block = facts.get(".reqd_workgroup_size")
    if block is not None and (not isinstance(block, list) or len(block) != 3):
        raise ValueError(f"{name} asks for work-groups of {shortened(block)}")
    return KernelObject(
        name,
        entry,
        descriptor,
        arguments,
        size(".kernarg_segment_size"),
        size(".group_segment_fixed_size"),
        size(".private_segment_fixed_size"),
        size(".vgpr_count"),
        size(".agpr_count"),
        lanes,
        None if block is None else tuple(map(_size, block)),
        _size(facts[".max_flat_workgroup_size"]),
        tuple(
            _size(min(facts.get(f".max_num_workgroups_{axis}", MOST_BYTES), MOST_BYTES))
            for axis in "xyz"
        ),
        _unknown(facts),
    )


_KEYS = {"amdhsa.version", "amdhsa.target", "amdhsa.kernels", "amdhsa.printf"}
"""Keys of a code object. A kernel that prints ends at the buffer for its output."""

_KERNEL_KEYS = {
    *(".name", ".symbol", ".args", ".kernarg_segment_size", ".wavefront_size", ".vgpr_count"),
    *(".agpr_count", ".group_segment_fixed_size", ".private_segment_fixed_size"),
    *(".reqd_workgroup_size", ".max_flat_workgroup_size"),
    *(".max_num_workgroups_x", ".max_num_workgroups_y", ".max_num_workgroups_z", ".kind"),
    # Keys that change nothing: hints, languages, counts of what the descriptor says as well, whole
    # work-groups only, and how compute units share an LDS. A stack that outgrows the private
    # memory is refused where it does.
    *(".language", ".language_version", ".workgroup_size_hint", ".vec_type_hint", ".sgpr_count"),
    *(".kernarg_segment_align", ".sgpr_spill_count", ".vgpr_spill_count"),
    *(".uniform_work_group_size", ".workgroup_processor_mode", ".uses_dynamic_stack"),
}
_ARGUMENT_KEYS = {
    *(".name", ".type_name", ".size", ".offset", ".value_kind", ".pointee_align"),
    # Keys that change nothing: accesses of a kernel to a buffer.
    *(".address_space", ".access", ".actual_access", ".is_const", ".is_restrict", ".is_volatile"),
    *(".is_pipe", ".value_type"),
}


def _unknown(facts: dict[str, Any]) -> str:
    """Unknown requests in the metadata of a kernel, in words."""
    if facts.get(".kind", "normal") != "normal":
        return f"is run by a runtime: its .kind is {shortened(facts['.kind'])}"
    keys = facts.keys() - _KERNEL_KEYS
    for argument in facts.get(".args", []):
        keys |= argument.keys() - _ARGUMENT_KEYS
    named = ", ".join(sorted(map(str, keys)))
    return f"its metadata have keys that are not known: {shown(named)}" if named else ""


def _argument(facts: dict[str, Any], number: int, segment: int) -> Argument:
    name = _name(facts.get(".name", f"arg{number}"))
    offset, size = _size(facts[".offset"]), _size(facts[".size"])
    if offset + size > segment:
        raise ValueError(f"argument {name} lies outside of the {segment} bytes of all arguments")
    kind = _name(facts[".value_kind"])
    if kind in _POINTERS and size != _POINTERS[kind]:
        raise ValueError(f"argument {name}, a {kind}, has {size} bytes")
    alignment = _size(facts.get(".pointee_align", 1))
    if alignment.bit_count() != 1:
        raise ValueError(f"argument {name} has an alignment of {alignment} bytes")
    type_name, is_const = _name(facts.get(".type_name", "")), bool(facts.get(".is_const"))
    return Argument(name, kind, offset, size, type_name, alignment, is_const)


_POINTERS = {"global_buffer": 8, "dynamic_shared_pointer": 4}
"""Sizes of the pointers that are arguments."""


def _name(text: Any) -> str:
    if not isinstance(text, str) or len(text) > _MOST_LETTERS or not text.isprintable():
        raise ValueError(f"{shortened(text)} is not a name")
    return text


def _size(number: Any) -> int:
    if type(number) is not int or not 0 <= number <= MOST_BYTES:
        raise ValueError(f"{shortened(number)} is not a size")
    return number


NEEDS_NEWER = "needs_newer_llvm-objdump"
"""How a text ends that lacks a part of its instruction."""

_LINE = re.compile(r"\t(.*?)\s*// ([0-9A-F]{12}):((?: [0-9A-F]{8})+)")


_UNKNOWN = re.compile(r"\.long 0x([0-9a-f]{8})$")
_WORD_WITH_SOURCES = (0b110101, 0b110011)
_UNUSED_SOURCES = (18, 9)
_MOST_PASSES = 64


def _listing(content: bytes, arch: str, place: str) -> dict[int, tuple[str, int]]:
    """Text and length of each instruction, by its address.

    Compilers newer than the disassembler write 128, the inline constant 0, as third or second
    source of instructions (VOP3) that have fewer. Where one is not known, that field is cleared.
    """
    patched = bytearray(content)
    for _ in range(_MOST_PASSES):
        listing = _disassembled(bytes(patched), arch, place)
        if not _clear_unused_sources(patched, listing, place):
            break
    if not listing:
        raise UserError(f"{place}: has no code for {arch or 'an AMD GPU'}")
    return listing


def _clear_unused_sources(
    content: bytearray, listing: dict[int, tuple[str, int]], place: str
) -> bool:
    changed = False
    segments = [row for row in _Elf(bytes(content), place).segments if row[0] == _LOAD]
    for address, (text, _) in listing.items():
        match = _UNKNOWN.match(text)
        if not match or int(match[1], 16) >> 26 not in _WORD_WITH_SOURCES:
            continue
        for segment in segments:
            offset = address - segment[3] + segment[2] + 4
            if segment[3] <= address < segment[3] + segment[5] - 4 and offset + 4 <= len(content):
                word = int.from_bytes(content[offset : offset + 4], "little")
                for shift in _UNUSED_SOURCES:
                    if word >> shift & 0x1FF == 128:
                        word &= ~(0x1FF << shift)
                        content[offset : offset + 4] = word.to_bytes(4, "little")
                        changed = True
                        break
    return changed


def _disassembled(content: bytes, arch: str, place: str) -> dict[int, tuple[str, int]]:
    with tempfile.NamedTemporaryFile(suffix=".co") as file:
        file.write(content)
        file.flush()
        command = [tool("llvm-objdump"), "-d", f"--mcpu={arch}", file.name]
        status, text, errors = run_tool(command, place)
    if status:
        why = shown(one_line(errors.replace(file.name, "")), _MOST_REASON)
        raise UserError(f"{place}: llvm-objdump refuses it: {why or f'exit status {status}'}")
    listing = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            instruction, first = match[1], int(match[3][1:9], 16)
            if arch.startswith("gfx11") and _loses_half(instruction, first):
                instruction = f"{instruction} {NEEDS_NEWER}"
            listing[int(match[2], 16)] = (instruction, 4 * match[3].count(" "))
    return listing


def _loses_half(text: str, first: int) -> bool:
    """Whether a text does not say which halves of 16-bit registers its instruction means.

    Disassemblers before LLVM 22 leave that out of some long encodings (VOP3) for processors of
    generation 11, and in short ones they print the upper half of v1 as v129.
    """
    name, _, operands = text.partition(" ")
    if "16" not in name or "op_sel" in text or ".h" in text or ".l" in text:
        return False
    if first >> 26 == _WORD_WITH_SOURCES[0]:
        return bool(first >> 11 & 15)
    if not name.endswith("_e32"):
        return False
    parts = operands.split(",")
    if name.startswith("v_cvt"):  # one of both operands has 32 bits
        parts = parts[1:] if name.endswith("16_e32") else parts[:1]
    return any(re.search(r"v(12[89]|1[3-9]\d|2\d\d)$", part.strip()) for part in parts)
