"""CUTracer's ``reg_trace``: what registers hold before or after each instruction.

A launch is a file: JSON lines (``.ndjson``, whose line of metadata has the SASS of all instructions
in newer versions; in older ones each record has its own), or text (``.log``)::

    CTX 0x5a46d0 - CTA 1,0,0 - warp 4 - SHF.L.U32 R2, R2, 0x2, RZ ;:
      * Reg0_T00: 0x00000008 ... Reg0_T31: 0x00000008

Whether contents are those before or after the instruction is not in the file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import prod
from typing import Any

from mcage.tracing.importing import nvbit
from mcage.tracing.importing.recording import Format, Place, contents_of
from mcage.tracing.importing.sass import ZERO, SassInstruction, instruction_of
from mcage.tracing.importing.sources import Source

_TYPE = re.compile(rb'"type" *: *"(?:kernel_metadata|reg_trace|opcode_only|mem_\w+|tma_trace)"')
_REGISTERS = re.compile(rb'"regs" *: *\[')
_TEXT = re.compile(
    rb"CTX \w+ - CTA (\d{1,10}),(\d{1,10}),(\d{1,10}) - warp (\d{1,9}) - ([^\n]*?):\s*\Z"
)
MOST_ROWS = 16
"""Rows that a record of the tool has room for; others overwrite one another."""

MOST_ROWS_OF_OLD = 8
"""The same in versions before 2026-02-11, which do not number them."""


def _recognises(source: Source) -> bool:
    head = source.head[: 1 << 16]
    if _TYPE.search(head) or (_REGISTERS.search(head) and b'"warp"' in head):
        return True
    return any(_TEXT.match(line) for line in head.split(b"\n", 200)[:200])


class _Records(nvbit.Warps):
    """Reads CUTracer's files: one launch each, or several in versions before 2026-02-05."""

    record_begins = _TEXT
    row_begins = b"  * Reg"

    def prepare(self) -> None:
        super().prepare()
        values = self.options.values
        self.after = values == "after"
        self.launches = map(nvbit.RecordedLaunch, count())
        why = "as --values says" if values else "CUTracer's default"
        self.recording.inferred["point"] = f"{values or 'before'} the instruction, {why}"

    def read(self) -> None:
        self.launch = next(self.launches)
        self.launch_id: int | None = None
        self.instructions: dict[int, SassInstruction] = {}
        self.first_warp: dict[tuple[int, ...], int] = {}
        self.ended: set[tuple[int, ...]] = set()
        super().read()

    def is_of_launch(self, number: int) -> None:
        """Begin another launch if the record at hand has another number."""
        if self.launch_id not in (None, number):
            self.begin_launch()
        self.launch_id = number

    def begin_launch(self) -> None:
        """Take what follows for another launch of the same kernel."""
        for key in list(self.running):
            self.end(key)
        self.launch = replace(self.launch, number=next(self.launches).number, started=set())
        self.launch_id = None
        self.first_warp.clear()
        self.ended.clear()

    def take(self, line: bytes) -> None:
        if line[:1] in b"{\0" and line:
            self.complete()
            self.take_object(line)
        elif not line.startswith(b"  * UR"):
            self.take_text(line)

    def require_point(self) -> None:
        """Refuse contents after the instruction that are read as those before it."""
        if not self.contradict():
            return
        why = "registers hold something else before they are written than they held last"
        if self.options.values is None:
            self.source.refuse(
                f"{why}; these seem to be contents after the instruction: --values after (or "
                "--values before, if you know that they are not)"
            )
        self.recording.approximate["contents"] = f"{why}; still taken as --values says"

    def take_object(self, line: bytes) -> None:
        """Take an object; a null byte may stand in place of its brace."""
        if line.startswith(b"\0"):
            line = b"{" + line[1:]
        content = self.object_of(line)
        if content is None:
            self.skip("lines that are no JSON object")
            return
        kind = content.get("type", "reg_trace" if "regs" in content else None)
        if kind == "kernel_metadata":
            self.metadata(content)
        elif kind == "reg_trace":
            self.reg_trace(content)
        else:
            what = kind if isinstance(kind, str) and kind.isidentifier() else "unknown"
            self.skip(f"{what[:40]} records, which hold no registers")

    def metadata(self, content: Mapping[str, Any]) -> None:
        """Take what the first line says of the kernel."""
        if self.running or self.ended:
            self.begin_launch()
        launch = self.launch
        grid, block = _three(content.get("grid"), 1), _three(content.get("block"), 1)
        if grid and block and prod(block) <= 1024:
            launch.grid, launch.block = grid, block
        registers = content.get("nregs")
        if type(registers) is int and 0 < registers <= ZERO:
            launch.registers = registers
        for key in ("mangled_name", "unmangled_name"):
            if isinstance(content.get(key), str) and content[key]:
                launch.kernel = content[key]
        if isinstance(content.get("cubin_path"), str):
            checksum = content.get("kernel_checksum")
            if isinstance(checksum, str):
                self.recording.tools["kernel checksum"] = checksum[:64]
        instructions = content.get("instructions")
        if not isinstance(instructions, dict):
            instructions = {}
        for name, said in instructions.items():
            sass = said.get("sass") if isinstance(said, dict) else None
            if isinstance(sass, str) and name.isdecimal() and len(name) < 10:
                self.instructions[int(name)] = instruction_of(sass)

    def reg_trace(self, content: Mapping[str, Any]) -> None:
        cta, warp = _three(content.get("cta"), 0), content.get("warp")
        if cta is None or type(warp) is not int or not 0 <= warp < 1 << 32:
            self.skip("records without CTA or warp")
            return
        if isinstance(content.get("sass"), str):
            instruction = instruction_of(content["sass"])
        else:
            number_of = content.get("opcode_id")
            known = self.instructions.get(number_of) if type(number_of) is int else None
            if known is None:
                self.skip("records whose instruction is not known")
                return
            instruction = known
        if type(launch_id := content.get("grid_launch_id")) is int:
            self.is_of_launch(launch_id)
        rows = [contents_of(row, nvbit.LANES) for row in _list(content.get("regs"))]
        indices = _list(content.get("regs_indices"))
        shown = _numbered(instruction, indices, rows) if indices else _unnumbered(instruction, rows)
        if shown is None or None in rows:
            self.unfit()
        self.take_of(cta, warp, instruction, shown or {})

    def take_record(self, match: re.Match[bytes], rows: Sequence[bytes | None]) -> None:
        instruction = instruction_of(match[5].decode("utf-8", "replace"))
        shown = _unnumbered(instruction, rows)
        if shown is None:
            self.unfit()
        cta = int(match[1]), int(match[2]), int(match[3])
        self.take_of(cta, int(match[4]), instruction, shown or {})

    def take_of(
        self,
        cta: tuple[int, int, int],
        warp_number: int,
        instruction: SassInstruction,
        shown: nvbit.Shown,
    ) -> None:
        """Take a record of a warp, whose first one opens its window."""
        key, launch = (*cta, warp_number), self.launch
        if key in self.ended:
            self.skip("records of warps that have ended")
            return
        if key not in self.running:
            if launch.warps_of_cta:
                warp_in_cta = warp_number % launch.warps_of_cta
            else:
                warp_in_cta = max(warp_number - self.first_warp.setdefault(cta, warp_number), 0)
            facts = {"cta": list(cta), "warp_in_cta": warp_in_cta, "warp": warp_number}
            place = Place(None, warp_in_cta % nvbit.PARTITIONS)
            known = warp_in_cta if launch.block else None
            self.begin(key, launch, place, known, facts, launch.cta_number(cta))
        self.record(key, instruction, shown)

    def end(self, key: tuple[int, ...]) -> None:
        super().end(key)
        self.ended.add(key)

    def finish(self) -> None:
        """Say what was concluded."""
        super().finish()
        self.require_point()
        self.recording.inferred["place"] = (
            "partition = warp in CTA mod 4; CTAs fill one SM after the other"
        )

    def unfit(self) -> None:
        self.skip("records whose rows do not fit the instruction")


def _three(content: Any, least: int) -> tuple[int, int, int] | None:
    if not isinstance(content, list) or len(content) != 3:
        return None
    if not all(type(part) is int and least <= part < 1 << 31 for part in content):
        return None
    return content[0], content[1], content[2]


def _registers(instruction: SassInstruction, indices: Sequence[int]) -> list[int]:
    """Registers that the file names: `ZERO` and more for RZ, whose parts it calls 255, 0, 1."""
    numbers = nvbit.numbers_of(instruction, len(indices), of_memory=True) or []
    if [number & 0xFF for number in numbers] == list(indices):
        return numbers
    numbers = []
    for index in indices:
        follows = bool(numbers) and numbers[-1] >= ZERO and index == (numbers[-1] + 1) & 0xFF
        numbers.append(numbers[-1] + 1 if follows else index)
    return numbers


def _numbered(
    instruction: SassInstruction, indices: Sequence[Any], rows: Sequence[bytes | None]
) -> nvbit.Shown | None:
    """Rows by the registers that the file names."""
    if not len(indices) == len(rows) <= MOST_ROWS:
        return None
    if not all(type(index) is int and index >= 0 for index in indices):
        return None
    numbered = zip(_registers(instruction, indices), rows, strict=True)
    return {index: row for index, row in numbered if row is not None and index < ZERO}


def _unnumbered(instruction: SassInstruction, rows: Sequence[bytes | None]) -> nvbit.Shown | None:
    """Rows of a version that does not number them, in which addresses have a row since 2026-02-11.

    Where it cannot be seen whether they have, the rows are not used.
    """
    if len(rows) > MOST_ROWS_OF_OLD:
        return None
    addresses = sum(in_memory for _, in_memory in instruction.operands)
    others = len(instruction.operands) - addresses
    if not addresses:
        return nvbit.rows_of(instruction, rows, of_memory=False)
    moved = others * (instruction.moved or 0)
    if (instruction.moved is None and others) or len(rows) not in (moved, moved + addresses):
        return None
    return nvbit.rows_of(instruction, rows, of_memory=len(rows) > moved)


def _list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []


FORMAT = Format("cutracer", "CUTracer's reg_trace", _recognises, _Records)
