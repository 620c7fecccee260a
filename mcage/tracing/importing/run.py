"""An import: files of other tools become native traces in a folder, all of them or none."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.atomic import TRACE, make_ready, place_of, ready_folder, whole_file
from mcage.geometry import SliceGeometry
from mcage.plain_text import shown, shown_path, visible
from mcage.traces.model import (
    ALLOC,
    MOST_CYCLES,
    MOST_REGISTERS,
    READ,
    RELEASE,
    WRITE,
    Kernel,
    Trace,
)
from mcage.traces.storage import trace_bytes
from mcage.tracing.importing.formats.catalogue import FORMATS
from mcage.tracing.importing.recording import Format, Recording, Window
from mcage.tracing.importing.sources import Enough, Options, Source, Told
from mcage.tracing.importing.windows import Placed, Span, place_windows

# Native traces of what has been recorded.

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
    placed : Placed
        Its windows.
    trace : Trace
        What happened in them.
    """

    name: str
    placed: Placed
    trace: Trace


def build_traces(
    recording: Recording, name: str, source: dict[str, Any]
) -> Iterator[ImportedSlice]:
    """Make a trace of each slice.

    Parameters
    ----------
    recording : Recording
        What an importer has read. Windows that are still open are released at its end.
    name : str
        How the names of the traces begin.
    source : dict
        What the traces keep of where they come from.

    Raises
    ------
    UserError
        Windows do not fit a slice, a pass is too long, or kernels are too many.
    """
    geometry = recording.slice
    origin = min((window.begin for window in recording.windows), default=0)
    spans = [_span(recording, window, origin) for window in recording.windows]
    columns = recording.columns()
    columns["time"] = (columns["time"] - origin) // recording.period
    values = recording.values()
    for placed in place_windows(spans, geometry, name):
        of_slice = placed.place.name(recording.lanes)
        if recording.limits.slices and of_slice not in recording.limits.slices:
            continue
        if not any(span.window.counted.writes for span in placed.spans):
            recording.skipped.setdefault("slices whose windows have no write", [0, "", 0])[0] += 1
            continue
        trace = _trace(placed, columns, values, f"{name} {of_slice}", source, geometry)
        yield ImportedSlice(of_slice, placed, trace)


def _span(recording: Recording, window: Window, origin: int) -> Span:
    size = window.size
    if size is None:
        size = -(-(window.counted.most_register + 1) // recording.granularity)
        size = window.size = min(max(size, 1) * recording.granularity, MOST_REGISTERS)
    end = window.end if window.end is not None else max(recording.last, window.last)
    cycles = ((time - origin) // recording.period for time in (window.begin, window.last, end))
    return Span(window, size, *cycles)


def _trace(
    placed: Placed,
    columns: dict[str, npt.NDArray[Any]],
    values: npt.NDArray[np.uint32],
    name: str,
    source: dict[str, Any],
    geometry: SliceGeometry,
) -> Trace:
    spans, slots = placed.spans, np.array(placed.slots, np.uint16)
    begins = np.array([span.begin for span in spans], np.int64)
    ends = np.array([span.end for span in spans], np.int64)
    sizes = np.array([span.size for span in spans], np.uint16)
    row_of_window = np.full(int(columns["window"].max(initial=0)) + 1, -1)
    numbers = np.array([span.window.number for span in spans])
    row_of_window = np.full(max(len(row_of_window), int(numbers.max()) + 1), -1)
    row_of_window[numbers] = np.arange(len(spans))
    window = row_of_window[columns["window"]]
    here = window >= 0
    window = window[here]
    none, nothing = np.zeros(len(spans), np.uint8), np.full(len(spans), -1, np.int32)
    time = np.concatenate([begins, columns["time"][here], ends])
    kind = np.concatenate([none + ALLOC, columns["kind"][here], none + RELEASE]).astype(np.uint8)
    order = np.lexsort((_ORDER_IN_CYCLE[kind], time))
    start = int(begins.min())
    length = int(ends.max()) - start + 1
    if length > MOST_CYCLES:
        raise UserError(
            f"{name}: is {length:,} cycles long, a trace has at most {MOST_CYCLES:,}; "
            "ask for a part of it: --cycles"
        )
    row = np.concatenate([nothing, columns["value"][here], nothing])[order]
    used, row = _renumbered(row)
    kernels, kernel = _kernels(name, spans)
    kind = kind[order]
    return Trace(
        name=name,
        source=source,
        kernels=kernels,
        cycles=length,
        cycle=time[order] - start,
        kind=kind,
        slot=np.concatenate([slots, slots[window], slots])[order],
        reg=np.concatenate([sizes, columns["reg"][here], none])[order],
        exec_mask=np.concatenate([none, columns["exec_mask"][here], none]).astype(np.uint64)[order],
        value=row,
        values=values[used],
        alloc_event=np.flatnonzero(kind == ALLOC).astype(np.uint32),
        alloc_kernel=kernel,
        alloc_launch=np.array([span.window.origin.launch for span in spans], np.uint32),
        alloc_work_group=_numbered([span.window.origin.work_group for span in spans]),
        alloc_wavefront=_numbered([span.window.origin.wavefront for span in spans]),
        geometry=geometry,
    )


def _renumbered(row: npt.NDArray[np.int32]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Rows of contents that are in use, and for each event its row among these, or -1."""
    used, renumbered = np.unique(row, return_inverse=True)
    others = int(used[0] == -1)
    return used[others:], renumbered.astype(np.int32) - np.int32(others)


def _kernels(name: str, spans: list[Span]) -> tuple[tuple[Kernel, ...], npt.NDArray[np.uint8]]:
    numbers: dict[Kernel, int] = {}
    of_span = []
    for span in spans:
        kernel = Kernel(_shortened(span.window.origin.kernel), span.size)
        of_span.append(numbers.setdefault(kernel, len(numbers)))
    if len(numbers) > _MOST_KERNELS:
        raise UserError(
            f"{name}: has windows of {len(numbers)} kernels, a trace has at most {_MOST_KERNELS}; "
            "ask for fewer: --windows, --cycles"
        )
    return tuple(numbers), np.array(of_span, np.uint8)


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
    given = [free + row if number is None else number for row, number in enumerate(numbers)]
    return np.array(given, np.uint32)


# Files in, files out.

_LONGEST_STEM = 120
_EFFORT = 4


@dataclass(frozen=True)
class Import:
    """What an import has read and written.

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
                {
                    "file": file,
                    "slice": made.name,
                    "windows": made.trace.windows,
                    "writes": made.trace.writes,
                    "reads": made.trace.reads,
                    "cycles": made.trace.cycles,
                    "as_recorded": made.placed.as_recorded,
                }
                for file, made in self.slices
            ],
            "windows": [
                {"registers": window.size} | window.facts | window.counted.facts()
                for window in self.recording.windows
            ],
        }


def facts_of(recording: Recording) -> dict[str, Any]:
    """What was in the files, what was inferred, what was left out; traces keep it as well."""
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
        "gaps": {
            "reads": gaps.reads,
            "before_any_write": gaps.before_any_write,
            "other_contents": gaps.other_contents,
            "share": gaps.share,
        },
    }


def import_traces(
    paths: Sequence[Path],
    format_name: str,
    folder: Path,
    options: Options | None = None,
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
    options : Options, optional
        What the files do not say, and which part of them is wanted.
    told : callable, optional
        Is told how far reading has come.

    Raises
    ------
    UserError
        A file cannot be read or recognised, holds no register write, or does not fit; the folder
        cannot be written. Nothing has been written then.
    """
    options = options or Options()
    sources = [Source(path, told) for path in paths]
    chosen = _format(sources, format_name)
    recording = Recording(options.limits)
    try:
        chosen.read(sources, recording, options)
    except Enough:
        recording.inferred["end"] = "of the part that was asked for; the rest was not read"
    for source in sources:
        if source.cut_line:
            recording.skip("a last line that is cut off", source, source.cut_line)
    if not any(window.counted.writes for window in recording.windows):
        _refuse_empty(sources, chosen, recording)
    stem = sources[0].stem[:_LONGEST_STEM]
    kept = {"imported_from": chosen.title, "files": [path.name for path in paths]}
    made = list(build_traces(recording, stem, kept | facts_of(recording)))
    if not made:
        asked = ", ".join(sorted(options.limits.slices))
        raise UserError(f"{shown_path(paths[0])}: no window lies in {shown(asked)}")
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
    contents = {
        f"{stem}.{of_slice.name}.h5": trace_bytes(of_slice.trace, _EFFORT) for of_slice in made
    }
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
