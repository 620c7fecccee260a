"""An import: files of other tools become native traces in a folder, all of them or none."""

import os
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.atomic import TRACE, make_ready, place_of, ready_folder, whole_file
from mcage.geometry import SliceGeometry
from mcage.plain_text import shown, visible
from mcage.traces.model import ALLOC, MOST_CYCLES, READ, RELEASE, WRITE, Kernel, Trace
from mcage.traces.storage import trace_bytes
from mcage.tracing.importing import cutracer, gem5, mgpusim, multi2sim, nvbit, plain, recorder
from mcage.tracing.importing.recording import Format, Place, Recording, WindowLog
from mcage.tracing.importing.sources import ImportOptions, Source, Told

FORMATS: tuple[Format, ...] = (
    *(plain.FORMAT, recorder.FORMAT, gem5.FORMAT, multi2sim.FORMAT, cutracer.FORMAT),
    *(nvbit.FORMAT, mgpusim.FORMAT, nvbit.ACCELSIM_FORMAT),
)
"""Every format, in the order in which a file is tried to be recognised."""

# Which slice holds a window, and which of its slots: as the file says, or first-fit.

_FREE = -1


@dataclass(frozen=True)
class SliceWindows:
    """Windows of a slice.

    Attributes
    ----------
    place : Place
        Which slice, with unit and part.
    windows : list of WindowLog
        In the order of their allocation.
    slots : list of int
        Slot of each.
    as_recorded : bool
        Whether every window lies where the file says that it lay; it may end a cycle earlier then.
    """

    place: Place
    windows: list[WindowLog]
    slots: list[int]
    as_recorded: bool


def place_windows(
    windows: Sequence[WindowLog], geometry: SliceGeometry, name: str
) -> list[SliceWindows]:
    """Give every window a slice and a slot.

    Windows whose unit and part are known stay there, and keep their entries where every window of
    the slice has known ones that are whole slots. All others are placed first-fit: each in the
    lowest free slot, a work-group whose unit is not known in the first unit that has room for all
    of it, that holds no window of the same slot, and that the file does not name.

    Parameters
    ----------
    windows : sequence of WindowLog
        Windows of a finished recording.
    geometry : SliceGeometry
        The slices.
    name : str
        How errors begin.

    Returns
    -------
    list of Placed
        One for each slice, ordered by unit and part.

    Raises
    ------
    UserError
        A slice has no room for a window.
    """
    slices: dict[Place, list[WindowLog]] = defaultdict(list)
    loose = []
    for window in sorted(windows, key=lambda window: window.begin):
        if window.place.unit is None:
            loose.append(window)
        else:
            slices[window.place].append(window)
    placed = []
    for place, of_slice in slices.items():
        whole_name = f"{name} {place.name(geometry.components)}"
        placed.append(_placed_in(place, of_slice, geometry.entries, whole_name))
    placed += _packed(loose, geometry.entries, name, {place.unit for place in slices})
    return sorted(placed, key=lambda of_slice: (of_slice.place.unit or 0, of_slice.place.part))


class _Entries:
    """Entries of a slice, and until which cycle each is in use."""

    def __init__(self, entries: int) -> None:
        self.until = np.full(entries, _FREE, np.int64)
        self.slots_until = np.full(entries, _FREE, np.int64)

    def slot_for(self, size: int, begin: int) -> int | None:
        """Lowest slot of so many registers that is free from a cycle on, and its number too."""
        slots = len(self.until) // size
        until = self.until[: slots * size].reshape(slots, size).max(axis=1)
        free = np.flatnonzero(np.maximum(until, self.slots_until[:slots]) < begin)
        return int(free[0]) if len(free) else None

    def take(self, slot: int, window: WindowLog) -> None:
        self.until[slot * window.size : (slot + 1) * window.size] = window.end
        self.slots_until[slot] = window.end


def _placed_in(place: Place, windows: list[WindowLog], entries: int, name: str) -> SliceWindows:
    recorded = _as_recorded(place, windows, entries)
    if recorded:
        return recorded
    held, slots = _Entries(entries), []
    for window in windows:
        slot = held.slot_for(window.size, window.begin)
        if slot is None:
            in_use = int((held.until >= window.begin).sum())
            raise UserError(
                f"{name}: a window of {window.size} registers opens in cycle {window.begin}, when "
                f"{in_use} of the {entries} entries of a slice are in use; "
                "the recorded register file was larger, or the windows were not open at a time"
            )
        held.take(slot, window)
        slots.append(slot)
    return SliceWindows(place, windows, slots, as_recorded=False)


def _as_recorded(place: Place, windows: list[WindowLog], entries: int) -> SliceWindows | None:
    """Windows where the file says that they lay, if these are whole slots and free in time.

    A release in the cycle in which the next window takes the same entries happens a cycle earlier.
    """
    until = np.full(entries, _FREE, np.int64)
    holder = np.full(entries, -1)
    of_slot: dict[int, int] = {}
    ends, slots = [window.end for window in windows], []
    for number, window in enumerate(windows):
        first = window.first_entry
        if first is None or first % window.size or first + window.size > entries:
            return None
        slot, wanted = first // window.size, slice(first, first + window.size)
        others = set(holder[wanted][until[wanted] >= window.begin].tolist())
        if slot in of_slot and ends[of_slot[slot]] >= window.begin:
            others.add(of_slot[slot])
        for other in others:
            if ends[other] > window.begin or windows[other].last >= window.begin:
                return None
            ends[other] = window.begin - 1
        until[wanted], holder[wanted], of_slot[slot] = window.end, number, number
        slots.append(slot)
    for window, end in zip(windows, ends, strict=True):
        window.end = end
    return SliceWindows(place, windows, slots, as_recorded=True)


def _packed(
    windows: list[WindowLog], entries: int, name: str, named_units: Set[int | None]
) -> Iterator[SliceWindows]:
    """Work-groups whose unit is not known, each in the first unit with room for all of it."""
    units = [unit for unit in range(len(windows) + len(named_units)) if unit not in named_units]
    held: dict[Place, _Entries] = defaultdict(lambda: _Entries(entries))
    slices: dict[Place, list[tuple[WindowLog, int]]] = defaultdict(list)
    groups: dict[tuple[int, int], list[WindowLog]] = defaultdict(list)
    for window in windows:
        group = window.origin.work_group
        alone = -1 - window.number
        groups[window.origin.launch, alone if group is None else group].append(window)
    busy: dict[tuple[int, int], int] = {}
    for of_group in groups.values():
        for window, slot in zip(
            of_group, _first_room(of_group, held, busy, name, units), strict=True
        ):
            slices[window.place].append((window, slot))
    for place, of_slice in slices.items():
        of_slice.sort(key=lambda pair: pair[0].begin)
        placed, slots = zip(*of_slice, strict=True)
        yield SliceWindows(place, list(placed), list(slots), False)


def _first_room(
    group: list[WindowLog],
    held: dict[Place, _Entries],
    busy: dict[tuple[int, int], int],
    name: str,
    units: Sequence[int],
) -> list[int]:
    """Put all windows of a work-group into the first unit that has room; their slots there.

    ``busy`` is until when a slot of a unit, as the file names it, is in use.
    """
    begin = group[0].begin
    for unit in units:
        named = [(unit, window.slot) for window in group if window.slot is not None]
        if any(busy.get(slot, _FREE) >= begin for slot in named):
            continue
        places = [Place(unit, window.place.part) for window in group]
        trial = {place: deepcopy(held[place]) for place in places}
        unused = all((of_place.until == _FREE).all() for of_place in trial.values())
        slots: list[int] = []
        for window, place in zip(group, places, strict=True):
            slot = trial[place].slot_for(window.size, begin)
            if slot is None:
                break
            trial[place].take(slot, window)
            slots.append(slot)
        else:
            held.update(trial)
            for window, place in zip(group, places, strict=True):
                window.place = place
                if window.slot is not None:
                    busy[unit, window.slot] = window.end
            return slots
        if unused:
            break
    raise UserError(
        f"{name}: a work-group has windows of {sum(window.size for window in group)} registers, "
        f"more than have room in slices of {len(held[Place(units[0])].until)} entries"
    )


# Native traces of what has been recorded.

_KIND = np.array([ALLOC, RELEASE, WRITE, READ, WRITE, WRITE], np.uint8)
"""Kinds of a trace, by those of a recording."""

_ORDER_IN_CYCLE = np.argsort([ALLOC, WRITE, READ, RELEASE]).astype(np.uint8)
_LONGEST_NAME = 200
_MOST_KERNELS = 256


@dataclass(frozen=True)
class ImportedSlice:
    """A trace that an import has made.

    Attributes
    ----------
    name : str
        What the slice is called: ``cu0.simd1``.
    as_recorded : bool
        Whether every window lies where the file says that it lay.
    trace : Trace
        What happened in its windows.
    """

    name: str
    as_recorded: bool
    trace: Trace


def build_traces(
    recording: Recording, name: str, source: dict[str, Any]
) -> Iterator[ImportedSlice]:
    """Make a trace of each slice.

    Parameters
    ----------
    recording : Recording
        What an importer has read, finished.
    name : str
        How the names of the traces begin.
    source : dict
        What the traces keep of where they come from.

    Raises
    ------
    UserError
        Windows do not fit a slice, a pass is too long, or kernels are too many.
    """
    for placed in place_windows(recording.windows, recording.slice, name):
        of_slice = placed.place.name(recording.lanes)
        if recording.slices and of_slice not in recording.slices:
            continue
        if not any(window.counted["writes"] for window in placed.windows):
            recording.skip("slices whose windows have no write")
            continue
        trace = _trace(placed, recording, f"{name} {of_slice}", source)
        yield ImportedSlice(of_slice, placed.as_recorded, trace)


def _trace(placed: SliceWindows, recording: Recording, name: str, source: dict[str, Any]) -> Trace:
    windows, slots = placed.windows, np.array(placed.slots, np.uint16)
    begins = np.array([window.begin for window in windows], np.int64)
    ends = np.array([window.end for window in windows], np.int64)
    sizes = np.array([window.size for window in windows], np.uint16)
    row_of_window = np.full(len(recording.windows), -1, np.int32)
    row_of_window[[window.number for window in windows]] = np.arange(len(windows))
    columns, values = recording.columns(), recording.values()
    window = row_of_window[columns["window"]]
    here = slice(None) if len(windows) == len(recording.windows) else window >= 0
    window = window[here]
    none, nothing = np.zeros(len(windows), np.uint8), np.full(len(windows), -1, np.int32)
    time = np.concatenate([begins, columns["time"][here], ends])
    kind = np.concatenate([none + ALLOC, _KIND[columns["kind"][here]], none + RELEASE])
    kind = kind.astype(np.uint8)
    order = np.lexsort((_ORDER_IN_CYCLE[kind], time))
    cycle = time[order]
    del time
    start = int(begins.min())
    length = int(ends.max()) - start + 1
    if length > MOST_CYCLES:
        raise UserError(
            f"{name}: is {length:,} cycles long, a trace has at most {MOST_CYCLES:,}; "
            "ask for a part of it: --windows"
        )
    row = np.concatenate([nothing, columns["value"][here], nothing])[order]
    used = np.zeros(len(values) + 1, np.bool_)  # the last one is that of -1: no contents
    used[row] = True
    renumbered = np.cumsum(used, dtype=np.int32) - np.int32(1)
    renumbered[-1] = -1
    no_lanes = none.astype(np.uint64)
    kernels = [Kernel(_shortened(window.origin.kernel), window.size) for window in windows]
    numbers = {kernel: number for number, kernel in enumerate(dict.fromkeys(kernels))}
    if len(numbers) > _MOST_KERNELS:
        raise UserError(
            f"{name}: has windows of {len(numbers)} kernels, a trace has at most {_MOST_KERNELS}; "
            "ask for fewer: --windows"
        )
    kind = kind[order]
    return Trace(
        name=name,
        source=source,
        kernels=tuple(numbers),
        cycles=length,
        cycle=np.subtract(cycle, start, out=cycle),
        kind=kind,
        slot=np.concatenate([slots, slots[window], slots])[order],
        reg=np.concatenate([sizes, columns["reg"][here], none])[order],
        exec_mask=np.concatenate([no_lanes, columns["exec_mask"][here], no_lanes])[order],
        value=renumbered[row],
        values=values if used[:-1].all() else values[used[:-1]],
        alloc_event=np.flatnonzero(kind == ALLOC).astype(np.uint32),
        alloc_kernel=np.array([numbers[kernel] for kernel in kernels], np.uint8),
        alloc_launch=np.array([window.origin.launch for window in windows], np.uint32),
        alloc_work_group=_numbered([window.origin.work_group for window in windows]),
        alloc_wavefront=_numbered([window.origin.wavefront for window in windows]),
        geometry=recording.slice,
    )


def _shortened(name: str) -> str:
    """Name of a kernel; templates make names of kilobytes, which then end in a digest."""
    name = visible(name)
    if len(name) <= _LONGEST_NAME:
        return name
    digest = blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{name[:_LONGEST_NAME]}... {digest}"


def _numbered(numbers: list[int | None]) -> npt.NDArray[np.uint32]:
    """Numbers of work-groups or wavefronts; those that are not known get some that are free."""
    free = max((number for number in numbers if number is not None), default=-1) + 1
    known = [free + row if number is None else number for row, number in enumerate(numbers)]
    return np.array(known, np.uint32)


# Files in, files out.

_LONGEST_STEM = 120

COUNTED = ("windows", "writes", "reads", "cycles")
"""Facts about each trace."""


@dataclass(frozen=True)
class Import:
    """Report of an import: files read, traces written.

    Attributes
    ----------
    format : Format
        The format of the files.
    recording : Recording
        What they hold.
    slices : list of (str, ImportedSlice)
        File name of each trace, and the trace.
    """

    format: Format
    files: tuple[str, ...]
    recording: Recording
    slices: tuple[tuple[str, ImportedSlice], ...]

    def facts(self) -> dict[str, Any]:
        """All that is known of it, as ``--json`` prints it."""
        return {
            "format": self.format.name,
            "files": list(self.files),
            "lanes": self.recording.lanes,
            **facts_of(self.recording),
            "traces": [
                {"file": file, "slice": made.name}
                | {key: getattr(made.trace, key) for key in COUNTED}
                | {"as_recorded": made.as_recorded}
                for file, made in self.slices
            ],
            "windows": [
                {
                    **{"slice": window.place.name(self.recording.lanes), **asdict(window.origin)},
                    **{"registers": window.size, "lanes": window.lanes},
                }
                | window.facts
                | window.counted
                for window in self.recording.windows
            ],
        }


def facts_of(recording: Recording) -> dict[str, Any]:
    """Content of the files, inferences and omissions; traces have them as well."""
    gaps = recording.gaps
    return {
        "approximate": recording.approximate,
        "in_file": recording.in_file,
        "inferred": recording.inferred,
        "tools": recording.tools,
        "skipped": {
            reason: {"records": count, "first": f"{file}: line {line}" if file else ""}
            for reason, (count, file, line) in recording.skipped.items()
        },
        "gaps": asdict(gaps) | {"share": gaps.share},
    }


def import_traces(
    paths: Sequence[Path],
    format_name: str,
    folder: Path,
    options: ImportOptions | None = None,
    told: Told | None = None,
) -> Import:
    """Read files of another tool and write a trace for each slice.

    Parameters
    ----------
    paths : sequence of Path
        Files of one run: plain, ``.gz`` or ``.zst``.
    format_name : str
        Name of their format, or ``auto``.
    folder : Path
        Where the traces go; it is made if it is not there.
    options : ImportOptions, optional
        What the files do not say, and which part of them is wanted.
    told : callable, optional
        Receives the progress of reading.

    Raises
    ------
    UserError
        A file cannot be read or recognised, holds no register write, or does not fit; the folder
        cannot be written. Nothing has been written then.
    """
    options = options or ImportOptions()
    sources = [Source(path, told) for path in paths]
    chosen = _format(sources, format_name)
    recording = chosen.reader(sources, options).read_all()
    for source in sources:
        if source.cut_line:
            recording.skip("a last line that is cut off", source, source.cut_line)
    stem = sources[0].stem[:_LONGEST_STEM]
    kept = {"imported_from": chosen.title, "files": [path.name for path in paths]}
    written = any(window.counted["writes"] for window in recording.windows)
    made = list(build_traces(recording, stem, kept | facts_of(recording))) if written else []
    if not made:
        _refuse_empty(sources, chosen, recording)
    files = _write(made, stem, folder)
    names = tuple(path.name for path in paths)
    return Import(chosen, names, recording, tuple(zip(files, made, strict=True)))


def _format(sources: Sequence[Source], name: str) -> Format:
    names = ", ".join(known.name for known in FORMATS)
    if name != "auto":
        for known in FORMATS:
            if known.name == name:
                return known
        raise UserError(f"no format {shown(name)!r}; there are auto, {names}")
    chosen: Format | None = None
    for source in sources:
        fitting = next((known for known in FORMATS if known.recognises(source)), None)
        if fitting is None:
            source.refuse(f"its format is not recognised; give it with --format: {names}")
        if chosen not in (None, fitting):
            assert chosen
            source.refuse(f"its format is {fitting.name}, that of the others is {chosen.name}")
        chosen = fitting
    if chosen is None:
        raise UserError("no file to import")
    return chosen


def _refuse_empty(sources: Sequence[Source], chosen: Format, recording: Recording) -> None:
    if recording.slices:
        sources[0].refuse(f"no window lies in {shown(', '.join(sorted(recording.slices)))}")
    skipped = "; ".join(
        f"{count:,} x {reason}" + (f" (first in line {line} of {file})" if file else "")
        for reason, (count, file, line) in recording.skipped.items()
    )
    windows = f"{len(recording.windows):,} windows, " if recording.windows else ""
    sources[0].refuse(
        f"{windows}no register write that can be imported as {chosen.name}"
        + (f"; left out: {skipped}" if skipped else "")
    )


def _write(made: Sequence[ImportedSlice], stem: str, folder: Path) -> list[str]:
    """Write the traces; all of them get their names when all are on the disk, or none does."""
    contents = {f"{stem}.{of_slice.name}.h5": trace_bytes(of_slice.trace) for of_slice in made}
    with ready_folder(folder):
        for file in contents:
            make_ready(folder / file, TRACE)
        with ExitStack() as files:
            for file, content in contents.items():
                stream = files.enter_context(whole_file(folder / file, TRACE))
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
                stream.close()  # there may be more slices than files that may be open
            with _as_before_on_failure([place_of(folder / file) for file in contents]):
                files.close()
    return list(contents)


@contextmanager
def _as_before_on_failure(paths: Sequence[Path]) -> Iterator[None]:
    """Put back the files that the block replaces, as far as the file system has hard links."""
    new = [path for path in paths if not os.path.lexists(path)]
    before: dict[Path, Path] = {}
    try:
        for path in set(paths).difference(new):
            aside = path.with_name(f".mcage-{secrets.token_hex(8)}.before")
            with suppress(OSError):
                os.link(path, aside)
                before[path] = aside
        yield
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        for path, aside in before.items():
            os.replace(aside, path)
        raise
    finally:
        for aside in before.values():
            aside.unlink(missing_ok=True)
