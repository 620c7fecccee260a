"""Arrays that users write themselves: an NPZ file with a column for each property of an event."""

import math
import zipfile
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mcage.files.inputs import MIB, open_regular
from mcage.plain_text import said_by, shown
from mcage.traces.importing.formats.format import Format
from mcage.traces.importing.formats.plain.events import PlainEvents
from mcage.traces.importing.limits import Options
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.sources import Source
from mcage.traces.importing.windows import Origin, Place
from mcage.traces.model import ALLOC, READ, RELEASE
from mcage.traces.storage import MOST_BYTES, MOST_FILE_BYTES

REQUIRED = ("cycle", "kind", "window", "reg", "value", "values")
OPTIONAL = (
    *("exec", "kernel", "kernels", "launch", "work_group", "wavefront", "unit", "part", "entry"),
)
_LARGEST = {"cycle": 1 << 62, "window": 1 << 62, "exec": 1 << 64, "values": 1 << 32}
_OTHERS_LARGEST = 1 << 32


def _recognises(source: Source) -> bool:
    return source.head.startswith(b"PK\x03\x04")


def _read(sources: Sequence[Source], recording: Recording, options: Options) -> None:
    for source in sources:
        _Arrays(source, recording).read()


class _Arrays:
    """One file, while it is read."""

    def __init__(self, source: Source, recording: Recording) -> None:
        self.source, self.recording = source, recording
        self.row = 0
        self.events = PlainEvents(recording, self.fail)

    def fail(self, why: str) -> NoReturn:
        self.source.refuse(f"event {self.row}: {why}")

    def read(self) -> None:
        arrays = self.arrays()
        values = np.ascontiguousarray(arrays["values"], "<u4")
        lanes = values.shape[1]
        if lanes not in (32, 64) or self.recording.lanes not in (0, lanes):
            self.source.refuse(f"values has {lanes} columns; must be 32 or 64, in all files")
        self.recording.has_lanes(lanes)
        every_lane = (1 << lanes) - 1
        masks = arrays.get("exec")
        for row, (kind, time, name, register, number) in enumerate(self.rows(arrays)):
            self.row = row
            if kind == ALLOC:
                self.alloc(arrays, name, time, register)
            elif kind == RELEASE:
                self.events.release(name, time)
            elif kind == READ:
                self.recording.read(self.events.access(name, time, register), time, register)
            else:
                window = self.events.access(name, time, register)
                mask = every_lane if masks is None else int(masks[row])
                if not 0 < mask <= every_lane:
                    self.fail(f"a write of the lanes {mask:#x}; must be 1 ... {every_lane:#x}")
                if not 0 <= number < len(values):
                    self.fail(f"row {number} of values does not exist; there are {len(values)}")
                content = values[number]
                if mask != every_lane:
                    content = content[_bits(mask, lanes)]
                self.recording.write(window, time, register, mask, content)
        self.events.end()

    def rows(self, arrays: dict[str, npt.NDArray[Any]]) -> Any:
        """Events as tuples of integers, some thousand at once."""
        columns = [arrays[name] for name in ("kind", "cycle", "window", "reg", "value")]
        for first in range(0, len(columns[0]), 4096):
            yield from zip(*(c[first : first + 4096].tolist() for c in columns), strict=True)

    def alloc(self, arrays: dict[str, npt.NDArray[Any]], name: int, time: int, size: int) -> None:
        def given(column: str) -> int | None:
            return int(arrays[column][self.row]) if column in arrays else None

        kernel, number, names = "kernel", given("kernel"), arrays.get("kernels")
        if number is not None and names is not None:
            if number >= len(names):
                self.fail(f"kernel {number} is not in kernels, which has {len(names)}")
            kernel = str(names[number])
        origin = Origin(kernel, given("launch") or 0, given("work_group"), given("wavefront"))
        place = Place(given("unit"), given("part") or 0)
        self.events.alloc(name, time, size, origin, place, given("entry"))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays of the file, with the types, shapes and ranges that they may have."""
        try:
            with (
                open_regular(self.source.path, MOST_FILE_BYTES) as stream,
                zipfile.ZipFile(stream) as archive,
            ):
                arrays = self.checked(archive)
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
            self.source.refuse(f"no NPZ file: {said_by(error)}")
        for name in REQUIRED:
            if name not in arrays:
                self.source.refuse(f"has no array {name!r}")
        events = arrays["kind"].size
        for name, array in arrays.items():
            per_event = name not in ("values", "kernels")
            if array.ndim != 1 + (name == "values") or (per_event and len(array) != events):
                wanted = f"({events},), as kind has" if per_event else "[rows, lanes]"
                self.source.refuse(f"{name} has shape {array.shape}, must have {wanted}")
            if name != "kernels":
                self.check_range(name, array)
        bad = np.flatnonzero(arrays["kind"] > READ)
        if len(bad):
            self.row = int(bad[0])
            self.fail(f"kind {arrays['kind'][self.row]}: must be {ALLOC} ... {READ}")
        return arrays

    def check_range(self, name: str, array: npt.NDArray[Any]) -> None:
        if array.dtype.kind not in "iu":
            self.source.refuse(f"{name} has type {array.dtype}, must be integers")
        largest = _LARGEST.get(name, _OTHERS_LARGEST) - 1
        low = -1 if name == "value" else 0
        if array.size and not (int(array.min()) >= low and int(array.max()) <= largest):
            bad = tuple(np.argwhere((array < low) | (array > largest))[0].tolist())
            why = f"{name} is {array[bad]}, must be {low} ... {largest:,}"
            if name != "values":
                self.row = bad[0]
                self.fail(why)
            self.source.refuse(f"row {bad[0]}, lane {bad[1]}: {why}")

    def checked(self, archive: zipfile.ZipFile) -> dict[str, npt.NDArray[Any]]:
        """Arrays that are known by name; their size is known before they are read."""
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        strange = [name for name in members if name not in REQUIRED + OPTIONAL]
        if strange:
            known = ", ".join(REQUIRED + OPTIONAL)
            self.source.refuse(f"array {shown(strange[0])!r} is unknown; there are {known}")
        total = sum(info.file_size for info in members.values())
        if total > 2 * MOST_BYTES:
            self.source.refuse(
                f"its arrays have {total / MIB:,.0f} MiB; at most {2 * MOST_BYTES // MIB} are read"
            )
        return {name: self.array(name, archive, info) for name, info in members.items()}

    def array(self, name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
        try:
            with archive.open(info) as stream:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0
                if version != (1, 0):
                    read = np.lib.format.read_array_header_2_0
                shape, _, dtype = read(stream)
                if dtype.hasobject or math.prod(shape) * dtype.itemsize > info.file_size:
                    raise ValueError("its data are not as its header says")
            with archive.open(info) as stream:
                array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        except Exception as error:  # of damaged data, zlib and NumPy raise whatever they do
            self.source.refuse(f"array {name!r} cannot be read: {said_by(error)}")
        return array


def _bits(mask: int, lanes: int) -> npt.NDArray[np.bool_]:
    return (np.uint64(mask) >> np.arange(lanes, dtype=np.uint64) & np.uint64(1)).astype(bool)


FORMAT = Format("npz", "plain NPZ", _recognises, _read)
