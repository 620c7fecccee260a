"""Trace files: HDF5 with one dataset per column, as ``docs/trace-format.md`` describes them."""

import io
import json
import math
import os
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.atomic import TRACE, make_ready, whole_file
from mcage.files.hdf5 import ForeignFile, PlainFile
from mcage.files.inputs import MIB, named_file
from mcage.geometry import SliceGeometry, usual_slice
from mcage.plain_text import shown
from mcage.traces.model import (
    COLUMNS,
    MOST_CYCLES,
    Kernel,
    Trace,
    TraceColumn,
    validate_shapes,
    validate_trace,
)

_ATTRIBUTES = ("name", "source", "kernels", "registers", "lanes", "cycles")
_OPTIONAL = ("window_size", "max_windows", "digest")
_GEOMETRY = {
    "registers": "entries",
    "lanes": "components",
    "block_lanes": "block_components",
    "max_windows_hw": "max_windows",
    "granularity": "granularity",
}
"""Attributes that tell the geometry, by the names of its fields; all but two are optional."""
_KERNEL_NAMES = "kernel_names of alloc"
_MOST_CHUNK_BYTES = 1 << 24

MOST_FILE_BYTES = 1 << 30
"""Largest trace file, on disk."""

MOST_BYTES = 1 << 29
"""Largest trace, uncompressed: 25 times the largest that is bundled."""


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file and check all rules of the format.

    Parameters
    ----------
    path : path
        An HDF5 file.

    Raises
    ------
    UserError
        If the file is missing, unreadable, damaged, not a trace or breaks a rule; the message
        names file, dataset and row.
    """
    place = str(named_file(path))
    return _load(place, ForeignFile(place, MOST_FILE_BYTES))


def load_own_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file that ships with mcage, without the precautions that others need."""
    return _load(os.fspath(path), PlainFile(path))


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Check a trace and write it to a file, all or nothing.

    The file appears under its name only when it is complete and on disk; an existing trace is
    replaced, a file of another kind is not.

    Parameters
    ----------
    trace : Trace
        The trace to write.
    path : path
        Where to.

    Raises
    ------
    UserError
        If the trace breaks a rule of the format, or the file cannot be written.
    """
    path = named_file(path)
    make_ready(path, TRACE)
    # Made in memory, since HDF5 does not survive a full disk.
    content = trace_bytes(trace)
    with whole_file(path, TRACE) as file:
        file.write(content)


def trace_bytes(trace: Trace, effort: int = 2) -> bytes:
    """Check a trace; return the content of its file.

    Parameters
    ----------
    trace : Trace
        The trace.
    effort : int
        Of the compression, 1 ... 9: 2 takes a tenth to a quarter of the time of 9, and up to a half
        more of the disk; 0: none, of what is compressed as a whole.

    Raises
    ------
    UserError
        If the trace breaks a rule of the format.
    """
    validate_trace(trace)
    try:
        source = json.dumps(trace.source)
    except (TypeError, ValueError) as error:
        raise UserError(f"trace {trace.name!r}: source: cannot be JSON text: {error}") from error
    sizes = trace.window_sizes
    kernels = [{"name": kernel.name, "N": kernel.window_size} for kernel in trace.kernels]
    # The format of HDF5 1.10 has checksums on its metadata and is smaller by a third or so.
    content = io.BytesIO()
    with h5py.File(content, "w", libver=("v110", "v110")) as file:
        file.attrs["name"] = _text(trace.name)
        file.attrs["source"] = _text(source)
        file.attrs["kernels"] = _text(json.dumps(kernels))
        for attribute, key in _GEOMETRY.items():
            file.attrs[attribute] = getattr(trace.geometry, key)
        file.attrs["max_windows"] = trace.concurrent_windows
        file.attrs["window_size"] = sizes if len(sizes) > 1 else sizes[0]
        file.attrs["cycles"] = trace.cycles
        file.attrs["digest"] = _text(trace.digest())
        for column in COLUMNS:
            held = getattr(trace, column.attribute)
            array = held.astype(column.stored_type(held), copy=False)
            file.create_dataset(
                column.dataset,
                data=array,
                chunks=_chunk_shape(array),
                shuffle=column.shuffled,
                **({"compression": "gzip", "compression_opts": effort} if effort else {}),
            )
        names = json.dumps([kernel.name for kernel in trace.kernels])
        file["alloc"].attrs["kernel_names"] = _text(names)
    return content.getvalue()


_FILETYPE = "filetype"
"""Attribute of other files of mcage."""


def _load(place: str, file: PlainFile | ForeignFile) -> Trace:
    attributes, arrays = _read(place, file)
    trace = _assemble(place, attributes, arrays)
    validate_trace(trace, place)
    _check_redundant(place, trace, attributes)
    return trace


def _read(
    place: str, file: PlainFile | ForeignFile
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Attributes and columns as they are stored, with types, lengths and sizes of a trace."""
    of_file = (*_ATTRIBUTES, *_OPTIONAL, *_GEOMETRY, _FILETYPE)
    wanted = {"": of_file, "alloc": ("kernel_names",)}
    described = file.describe([column.dataset for column in COLUMNS], wanted)
    attributes, datasets = described["attributes"][""], described["datasets"]
    if filetype := attributes.pop(_FILETYPE, None):
        raise UserError(f"{place} holds {shown(filetype)}, not a trace")
    types = {column.dataset: _type(place, column, datasets[column.dataset]) for column in COLUMNS}
    for attribute in _ATTRIBUTES:
        if attribute not in attributes:
            raise UserError(f"{place}: attribute {attribute}: missing; not a trace file")
    shapes = {name: tuple(dataset["shape"]) for name, dataset in datasets.items()}
    validate_shapes(shapes, _geometry(place, attributes), place)
    sizes = {name: types[name].itemsize * math.prod(shape) for name, shape in shapes.items()}
    if (total := sum(sizes.values())) > MOST_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise UserError(
            f"{place}: {largest}: shape {shapes[largest]}; all datasets together have "
            f"{total / MIB:,.0f} MiB uncompressed, at most {MOST_BYTES // MIB} MiB are read"
        )
    attributes[_KERNEL_NAMES] = described["attributes"]["alloc"].get("kernel_names")
    return attributes, {
        column.attribute: file.read(column.dataset, types[column.dataset], shapes[column.dataset])
        for column in COLUMNS
    }


def _type(place: str, column: TraceColumn, dataset: dict[str, Any] | None) -> np.dtype[Any]:
    """Type of a dataset, which is there, and has one of those that its column may have.

    How a column is stored does not matter, as long as all its numbers fit.
    """
    if dataset is None:
        raise UserError(
            f"{place}: {column.dataset}: missing; not a trace file, or an incomplete one"
        )
    stored: np.dtype[Any] = np.dtype(dataset["dtype"])
    expected = [np.dtype(name) for name in (column.stored, column.wide) if name]
    if stored not in expected:
        raise UserError(
            f"{place}: {column.dataset}: has type {stored}, "
            f"must be {' or '.join(kind.name for kind in expected)}"
        )
    return stored


def _assemble(place: str, attributes: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Trace:
    """Build the trace from what the file holds; rules of the format are not checked yet."""
    name = attributes["name"]
    if not isinstance(name, str):
        raise UserError(f"{place}: attribute name: is {shown(name)}, must be text")
    source = _json(place, attributes, "source")
    if not isinstance(source, dict):
        raise UserError(f"{place}: attribute source: must be a JSON object")
    too_late = arrays["cycle"] > MOST_CYCLES
    if too_late.any():
        row = int(np.argmax(too_late))
        raise UserError(
            f"{place}: event/cycle row {row}: cycle {arrays['cycle'].flat[row]} is too late; "
            f"the engines count a pass in 32 bits, at most {MOST_CYCLES} cycles"
        )
    return Trace(
        name=name,
        source=source,
        kernels=_kernels(place, attributes),
        cycles=_integer(place, attributes, "cycles"),
        geometry=_geometry(place, attributes),
        **{
            column.attribute: arrays[column.attribute].astype(column.held, copy=False)
            for column in COLUMNS
        },
    )


def _geometry(place: str, attributes: dict[str, Any]) -> SliceGeometry:
    """The slice; what a file does not say of it is as in `usual_slice`."""
    stated = {
        key: _integer(place, attributes, attribute)
        for attribute, key in _GEOMETRY.items()
        if attribute in attributes
    }
    usual = usual_slice(stated["components"], stated["entries"])
    try:
        return replace(usual, **stated)
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def _kernels(place: str, attributes: dict[str, Any]) -> tuple[Kernel, ...]:
    listed = _json(place, attributes, "kernels")
    try:
        kernels = tuple(Kernel(kernel["name"], kernel["N"]) for kernel in listed)
    except (TypeError, KeyError):
        kernels = ()
    if not all(type(k.name) is str and type(k.window_size) is int for k in kernels) or not kernels:
        raise UserError(
            f'{place}: attribute kernels: must be a JSON list of {{"name": ..., "N": ...}}'
        )
    names = _json(place, attributes, _KERNEL_NAMES)
    if names != [kernel.name for kernel in kernels]:
        raise UserError(
            f"{place}: attribute {_KERNEL_NAMES}: {shown(names)} are not the names in attribute "
            "kernels"
        )
    return kernels


def _integer(place: str, attributes: dict[str, Any], attribute: str) -> int:
    number = attributes[attribute]
    if not isinstance(number, int):
        raise UserError(f"{place}: attribute {attribute}: is {shown(number)}, must be an integer")
    return int(number)


def _json(place: str, attributes: dict[str, Any], attribute: str) -> Any:
    try:
        content = json.loads(attributes[attribute])
        json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{place}: attribute {attribute}: is not JSON text") from error
    return content


def _check_redundant(place: str, trace: Trace, attributes: dict[str, Any]) -> None:
    """Check that the attributes of a file are true of its content."""
    stated_sizes = tuple(np.atleast_1d(attributes.get("window_size", trace.window_sizes)).tolist())
    if stated_sizes != trace.window_sizes:
        raise UserError(
            f"{place}: attribute window_size: is {shown(stated_sizes)}, but the kernels have "
            f"{trace.window_sizes}"
        )
    if "max_windows" in attributes:
        stated_windows = _integer(place, attributes, "max_windows")
        if stated_windows != trace.concurrent_windows:
            raise UserError(
                f"{place}: attribute max_windows: is {stated_windows}, but "
                f"{trace.concurrent_windows} windows are open at once"
            )
    if "digest" in attributes and str(attributes["digest"]) != trace.digest():
        raise UserError(f"{place}: attribute digest: does not belong to this content; damaged")


def _text(text: str) -> npt.NDArray[np.bytes_]:
    """Text of fixed length: HDF5 may search a damaged heap of variable-length text for ever."""
    encoded = text.encode()
    return np.array(encoded, h5py.string_dtype("utf-8", max(1, len(encoded))))


def _chunk_shape(array: npt.NDArray[Any]) -> tuple[int, ...]:
    """One chunk where that is not too large: compression then sees the whole column."""
    row_bytes = array.itemsize * int(np.prod(array.shape[1:]))
    return (min(len(array), _MOST_CHUNK_BYTES // row_bytes), *array.shape[1:])
