"""MGPUSim's ``-debug-isa``: the whole state of a wavefront after each instruction.

A compute unit is a file, ``isa_GPU[1].CU0.debug``, with an object in each line and the comma in
front of it::

    [
    {"wg":[0,0,0],"wf":0,"Inst":"v_add_u32_e32 v2, vcc, v1, v2",...,"EXECLo":4294967295,...,
     "VGPRs":[[64 numbers],..],"LDS":"base64"}                                  (in one line)
    ,{...}

    ]

``wf`` is the first work-item of the wavefront in its work-group. The simulator emulates: there is
no time. A wavefront that comes again after its ``s_endpgm`` belongs to the next launch.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mcage.geometry import GCN
from mcage.tracing.importing.recording import (
    Format,
    Origin,
    Place,
    Reader,
    WindowLog,
    contents_of,
    lanes_of,
)
from mcage.tracing.importing.sources import Source

LANES = 64
SIMDS = 4

_CU = re.compile(r"CU(\d{1,5})")
_REGISTERS = re.compile(r"v(\d{1,3})\Z|v\[(\d{1,3}):(\d{1,3})\]\Z", re.ASCII)
_MOST_WAVES = 1 << 16
_RETURNS = ("read", "rtn", "swizzle", "permute", "consume", "append", "ordered_count")


def _recognises(source: Source) -> bool:
    head = source.head[: 1 << 16]
    begins = head.lstrip()[:1] == b"["
    if begins and b'"wg":[' in head and b'"Inst":"' in head:
        return True
    return begins and source.path.name.startswith("isa_GPU[")


@dataclass(frozen=True, slots=True)
class VectorOperands:
    """Vector registers of an instruction, from its text."""

    written: tuple[int, ...]
    read: tuple[int, ...]
    ends: bool


@dataclass
class _Wave:
    """A wavefront that runs; `rows` are its registers as the file shows them."""

    window: WindowLog
    rows: list[Any]


class _Units(Reader):
    """Reads the files of compute units."""

    def prepare(self) -> None:
        self.recording.has_lanes(LANES)

    def read(self) -> None:
        self.launch = self.waves = 0
        self.running: dict[tuple[int, ...], _Wave] = {}
        self.ended: set[tuple[int, ...]] = set()
        self.groups: dict[tuple[int, ...], int] = {}
        named = _CU.search(self.source.path.name)
        self.unit = int(named[1]) if named else None
        self.time = max(self.recording.last + 1, 0) if self.unit is None else 0
        self.changes, self.nothing = 0, True
        super().read()
        if self.nothing:
            self.source.refuse(
                "holds no instruction; the released simulator logs only the work-group (75, 1), "
                "which most runs do not have (amd/emu/isadebugger.go)"
            )
        for wave in self.running.values():
            self.recording.close_window(wave.window, max(self.time, wave.window.last))
        if self.changes:
            self.recording.inferred["writes"] = (
                f"{self.changes:,} of them from contents that had changed"
            )

    def finish(self) -> None:
        """Say what was in the files, and what was concluded."""
        self.recording.in_file |= {
            "values": "after the instruction",
            "lanes": "EXEC",
            "sizes": "registers that are shown",
            "registers": "numbers in the window",
        }
        self.recording.inferred |= {
            "windows": "from the first record to s_endpgm",
            "reads": "source registers, by the text of the instruction",
            "place": "compute unit by the name of the file; SIMD = wavefront mod 4",
        }
        self.recording.approximate["time"] = "one record, one cycle; the simulator emulates"

    def take(self, line: bytes) -> None:
        line = line.strip().strip(b",")
        if line in (b"[", b"]", b""):
            return
        self.nothing = False
        content = self.object_of(line)
        if content is None:
            self.skip("lines that are no JSON object")
            return
        group, text, rows = (content.get(key) for key in ("wg", "Inst", "VGPRs"))
        numbers = [*(group if isinstance(group, list) else ())]
        numbers += [content.get(key) for key in ("wf", "EXECLo", "EXECHi")]
        good = len(numbers) == 6 and all(type(part) is int for part in numbers)
        if (
            not good
            or not all(0 <= part < 1 << 32 for part in numbers)
            or not isinstance(text, str)
            or not isinstance(rows, list)
        ):
            self.skip("records without work-group, wavefront, EXEC or registers")
            return
        self.record(tuple(numbers[:4]), text, numbers[5] << 32 | numbers[4], rows)

    def record(self, key: tuple[int, ...], text: str, exec_mask: int, rows: list[Any]) -> None:
        instruction = instruction_of(text)
        wave = self.running.get(key)
        if wave is None:
            wave = self.begin(key, instruction, exec_mask, rows)
            if wave is None:
                return
        elif len(rows) != len(wave.rows):
            self.skip("records with another number of registers than before")
            return
        window, time = wave.window, self.time
        self.time += 1
        for register in instruction.read:
            if register < len(rows):
                self.recording.read(window, time, register)
        for register in instruction.written:
            if register < len(rows):
                self.write(wave, time, register, exec_mask, rows[register])
        if rows != wave.rows:
            self.find_others(wave, time, rows)
        if instruction.ends:
            self.recording.close_window(window, time)
            del self.running[key]
            self.ended.add(key)

    def begin(
        self,
        key: tuple[int, ...],
        instruction: VectorOperands,
        exec_mask: int,
        rows: list[Any],
    ) -> _Wave | None:
        """Open a window; what its first record shows has been preloaded, but for what it wrote."""
        if not rows or any(contents_of(row, LANES) is None for row in rows):
            self.skip("records whose registers cannot be read")
            return None
        if len(self.running) >= _MOST_WAVES:
            self.fail(f"more than {_MOST_WAVES:,} wavefronts run at once")
        if key in self.ended:
            self.launch += 1
            self.ended.clear()
            self.groups.clear()
        exists = exec_mask or (1 << LANES) - 1
        lanes = exists.bit_length()
        group = self.groups.setdefault(key[:3], len(self.groups))
        facts = {
            **{"work_group": list(key[:3]), "first_work_item": key[3]},
            "preloaded": [],
        }
        origin = Origin("kernel", self.launch, group, self.waves & 0xFFFF_FFFF)
        place = Place(self.unit, self.waves % SIMDS)
        self.waves += 1
        size = min(len(rows), GCN.entries)
        window = self.recording.open_window(
            self.time, size, origin, place, lanes=lanes, facts=facts
        )
        for register, row in enumerate(rows[: GCN.entries]):
            contents = contents_of(row, LANES)
            assert contents is not None
            if register not in instruction.written and any(contents):
                window.facts["preloaded"].append(register)
                self.recording.preload(window, register, exists, lanes_of(contents, exists))
        wave = self.running[key] = _Wave(window, list(rows))
        return wave

    def write(self, wave: _Wave, time: int, register: int, lanes: int, row: Any) -> None:
        contents = contents_of(row, LANES)
        if contents is None:
            self.skip("registers that cannot be read")
        else:
            self.recording.write(wave.window, time, register, lanes, lanes_of(contents, lanes))
            wave.rows[register] = row

    def find_others(self, wave: _Wave, time: int, rows: list[Any]) -> None:
        """Record what has changed although the instruction does not name it, in its lanes."""
        for register, row in enumerate(rows):
            if row == wave.rows[register]:
                continue
            before, after = contents_of(wave.rows[register], LANES), contents_of(row, LANES)
            if before is None or after is None:
                self.skip("registers that cannot be read")
                continue
            differs = np.frombuffer(before, "<u4") != np.frombuffer(after, "<u4")
            lanes = int(np.packbits(differs, bitorder="little").view("<u8")[0])
            self.changes += 1
            self.write(wave, time, register, lanes, row)


@lru_cache(1 << 14)
def instruction_of(text: str) -> VectorOperands:
    """Which vector registers an instruction writes and reads, from its text."""
    name, _, rest = text.strip().partition(" ")
    parts = [part.strip() for part in rest.split(",")]
    words = [word for part in parts for word in part.split()[:1]]
    numbers = [_numbers(word) for word in words]
    writes = name.startswith(
        ("v_", "flat_", "global_", "buffer_", "tbuffer_", "image_", "scratch_")
    )
    writes |= name.startswith("ds_") and any(kind in name for kind in _RETURNS)
    if "store" in name or name.startswith("v_cmp") or ("atomic" in name and "glc" not in text):
        writes = False
    written = numbers[0] if writes and numbers else ()
    if name.startswith("v_swap") and len(numbers) > 1:
        written += numbers[1]
    sources = numbers[1:] if writes else numbers
    read = dict.fromkeys(number for part in sources for number in part)
    return VectorOperands(written, tuple(read), name == "s_endpgm")


def _numbers(word: str) -> tuple[int, ...]:
    match = _REGISTERS.match(word.strip("-|"))
    if not match:
        return ()
    if match[1]:
        return (int(match[1]),)
    first, last = int(match[2]), int(match[3])
    return tuple(range(first, last + 1)) if first <= last < first + 32 else ()


FORMAT = Format("mgpusim", "MGPUSim's -debug-isa", _recognises, _Units)
