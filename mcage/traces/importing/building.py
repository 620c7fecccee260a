"""Native traces of what has been recorded: one for each slice."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.geometry import GCN, NVIDIA
from mcage.plain_text import visible
from mcage.traces.importing.placement import Placed, Span, place_windows
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.windows import MOST_REGISTERS, Window
from mcage.traces.model import ALLOC, READ, RELEASE, WRITE, Kernel, Trace
from mcage.traces.validation import MOST_CYCLES

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
    geometry = GCN if recording.lanes == GCN.components else NVIDIA
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
        trace = _trace(placed, columns, values, f"{name} {of_slice}", source)
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
) -> Trace:
    spans, slots = placed.spans, np.array(placed.slots, np.uint16)
    begins = np.array([span.begin for span in spans], np.int64)
    ends = np.array([span.end for span in spans], np.int64)
    sizes = np.array([span.size for span in spans], np.uint8)
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
        geometry=GCN if values.shape[1] == GCN.components else NVIDIA,
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
