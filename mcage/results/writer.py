"""Write a results file: netCDF-4 through h5py, instances streamed in, the same bytes every time.

No clock, host name or library version goes into the file, and instances are written in chunks of
a fixed size however they arrive: two campaigns with the same results give identical files. Chunks
carry checksums, too, for readers that do not verify that of the file (`mcage.files.inputs`).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.files.atomic import FileKind
from mcage.files.hdf5 import write_hdf5
from mcage.results.header import SCHEMA_VERSION, Header
from mcage.results.variable import Coordinate, Variable, dimension_sizes

# The attributes of a results file: what the netCDF and CF conventions want, and who wrote it.

FILETYPE = "mcage-results"


def root_attributes(header: Header) -> dict[str, Any]:
    """Attributes of the file: all of the header that is not in coordinates.

    ``campaign`` repeats the whole header, in a place whose damage HDF5 notices: texts of variable
    length and coordinates have no checksum but that of the file.
    """
    extent: dict[str, Any] = {}
    if header.stopping:
        rule = json.dumps(asdict(header.stopping), sort_keys=True)
        extent |= {"stopping": rule, "stopped": header.stopped}
    if header.absent:
        extent["absent_instances"] = json.dumps(header.absent)
    return {
        "Conventions": "CF-1.8",
        "filetype": FILETYPE,
        "schema_version": SCHEMA_VERSION,
        "study": header.study,
        "mcage_version": header.codes[0].version,
        "code_digest": header.codes[0].digest,
        "codes": json.dumps([asdict(code) for code in header.codes], sort_keys=True),
        "accepted_other_code": int(header.accepted_other_code),
        "spec": header.spec_toml,
        "spec_digest": header.spec_digest,
        "seed": header.seed,
        "engine": header.engine,
        "engine_reason": header.engine_reason,
        "device": header.device,
        "campaign": np.bytes_(header.to_json().encode()),
        **header.declaration(),
        **extent,
    }


def description(variable: Variable) -> dict[str, Any]:
    """Attributes that say what an array means; all that a coordinate has."""
    attributes: dict[str, Any] = {"units": variable.units, "long_name": variable.long_name}
    comments = [variable.comment] if variable.comment else []
    if variable.missing:
        comments.append(f"NaN {variable.missing}.")
    if comments:
        attributes["comment"] = " ".join(comments)
    if variable.flags:
        attributes["flag_values"] = np.array(variable.flag_values, variable.dtype)
        attributes["flag_meanings"] = " ".join(name for name, _ in variable.flags)
    return attributes


def variable_attributes(variable: Variable, coordinates: tuple[Variable, ...]) -> dict[str, Any]:
    """Attributes of a computed array: its description, its fill value, its further labels.

    Parameters
    ----------
    variable : Variable
        The array.
    coordinates : tuple of Variable
        All coordinates of the file.
    """
    attributes = description(variable)
    if np.dtype(variable.dtype).kind == "f":
        # Without the attribute, readers do not mask what HDF5 itself knows to be fill.
        attributes["_FillValue"] = np.array([np.nan], variable.dtype)
    dims = set(variable.dims)
    labels = [
        label.name
        for label in coordinates
        if label.dims != (label.name,) and set(label.dims) <= dims
    ]
    if labels:
        attributes["coordinates"] = " ".join(labels)
    return attributes


def storage(variable: Variable, sizes: Mapping[str, int]) -> dict[str, Any]:
    """How an array lies in the file, in xarray's words, by which a copy is as small.

    Parameters
    ----------
    variable : Variable
        The array.
    sizes : mapping of str to int
        Size of each dimension.
    """
    # One case to a chunk, because tables and figures read case by case.
    most = {"case": 1, "instance": INSTANCES_PER_CHUNK}
    chunks = {dim: min(sizes[dim], most.get(dim, sizes[dim])) for dim in variable.dims}
    packing = {"shuffle": True, "zlib": True, "complevel": 4} if variable.per_instance else {}
    where = {"chunksizes": tuple(chunks.values()), "preferred_chunks": chunks}
    return {**where, **packing, "fletcher32": True}


def content_of(coordinate: Coordinate) -> Any:
    """Content of a coordinate as NumPy takes it; ids of instances not by way of a list."""
    values = coordinate.values
    return np.arange(values.start, values.stop) if isinstance(values, range) else values


# The border between computing and storing: arrays must be as their study declares them.

Arrays = Mapping[str, npt.NDArray[np.generic]]


def conforming(
    header: Header, arrays: Arrays, instances: int
) -> dict[str, npt.NDArray[np.generic]]:
    """Return the computed arrays of ``instances`` instances in the declared types.

    Parameters
    ----------
    header : Header
        Declares the variables and the sizes of the other dimensions.
    arrays : mapping of str to ndarray
        One array for each variable. Any float type may stand for a float, any
        integer type for an integer whose range holds the values.
    instances : int
        Length of the ``instance`` axis.

    Raises
    ------
    ValueError
        A variable is missing, unknown, of the wrong shape or kind, out of range, or NaN where
        no value may be missing.
    """
    declared = {variable.name for variable in header.variables}
    if set(arrays) != declared:
        raise ValueError(
            "computed variables differ from the declared ones: "
            f"missing {sorted(declared - set(arrays))}, "
            f"unknown {sorted(set(arrays) - declared)}"
        )
    sizes = {**dimension_sizes(header.coordinates), "instance": instances}
    return {v.name: _conforming(v, np.asarray(arrays[v.name]), sizes) for v in header.variables}


def _conforming(
    variable: Variable, array: npt.NDArray[np.generic], sizes: Mapping[str, int]
) -> npt.NDArray[np.generic]:
    dtype = np.dtype(variable.dtype)
    if array.shape != variable.shape(sizes):
        raise ValueError(f"{variable.name}: shape {array.shape}, not {variable.shape(sizes)}")
    if dtype.kind == "f":
        if array.dtype.kind != "f":
            raise ValueError(f"{variable.name}: type {array.dtype}, not a float")
        if np.isinf(array).any() or (not variable.missing and np.isnan(array).any()):
            raise ValueError(f"{variable.name}: values that are not finite")
        return array.astype(dtype, copy=False)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{variable.name}: type {array.dtype}, not an integer")
    allowed = np.iinfo(dtype)
    low, high = int(array.min()), int(array.max())
    if low < allowed.min or high > allowed.max:
        raise ValueError(f"{variable.name}: values {low} ... {high} do not fit into {dtype}")
    if variable.flags and not np.isin(array, variable.flag_values).all():
        raise ValueError(f"{variable.name}: values other than {variable.flag_values}")
    return array.astype(dtype, copy=False)


def joined(
    variables: Iterable[Variable], parts: Iterable[Arrays]
) -> dict[str, npt.NDArray[np.generic]]:
    """Arrays of several ranges of instances, in rising order, as those of one range.

    Parameters
    ----------
    variables : iterable of Variable
        Variables of the parts.
    parts : iterable of mapping
        The arrays of each range.
    """
    pieces_of_all = list(parts)
    if len(pieces_of_all) == 1:
        return {variable.name: pieces_of_all[0][variable.name] for variable in variables}
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for variable in variables:
        pieces = [part[variable.name] for part in pieces_of_all]
        if variable.per_instance:
            arrays[variable.name] = np.concatenate(pieces, axis=variable.instance_axis)
        else:
            arrays[variable.name] = np.sum(pieces, axis=0)
    return arrays


def stacked(parts: Iterable[Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Arrays of several cases, of the same names, with a first dimension for the cases."""
    cases = list(parts)
    return {name: np.stack([case[name] for case in cases]) for name in cases[0]}


INSTANCES_PER_CHUNK = 2048
CHUNKS_TOGETHER = 2
"""So many chunks are written at once: to open a dataset holds Python's lock, to pack does not."""

SUMS_CHECKSUM = "sums_checksum"
"""Attribute of the file: checksum of the arrays that are summed over its instances."""


def checksum_of(sums: Arrays) -> str:
    """Checksum of arrays by name: 64 hexadecimal digits."""
    content = hashlib.blake2b(digest_size=32)
    for name in sorted(sums):
        content.update(name.encode() + b"\0" + np.ascontiguousarray(sums[name]).tobytes())
    return content.hexdigest()


def write_results(
    path: Path, header: Header, pieces: Iterable[Arrays], over: FileKind | None = None
) -> None:
    """Write the results of a campaign; ``path`` appears once the file is whole.

    Parameters
    ----------
    path : Path
        Results file.
    header : Header
        The campaign.
    pieces : iterable of mapping of str to ndarray
        Arrays of successive instances, as `mcage.results.writer.conforming` returns them; of any
        number of instances, in order. Memory does not grow with their number.

    Raises
    ------
    OccupiedError
        A file of this name is there, or has appeared meanwhile.
    UserError
        The file cannot be written.
    ValueError
        The pieces have fewer or more instances than the header says that the file holds.
    """

    def fill(file: h5py.File) -> None:
        content = _Content(file, header)
        for arrays in pieces:
            content.append(arrays)
        content.finish()

    write_hdf5(path, fill, over, track_order=True)


class _Content:
    """The content of a results file as instances arrive."""

    def __init__(self, file: h5py.File, header: Header) -> None:
        self._file = file
        self._coordinates = tuple(label.variable for label in header.coordinates)
        self._variables = [v for v in header.variables if v.per_instance]
        self._sizes = dimension_sizes(header.coordinates)
        self._written = 0
        self._waiting: list[dict[str, npt.NDArray[Any]]] = []
        self._sums: dict[str, npt.NDArray[Any]] = {
            v.name: np.zeros(v.shape(self._sizes), v.dtype)
            for v in header.variables
            if not v.per_instance
        }
        checksum = {SUMS_CHECKSUM: np.bytes_(checksum_of(self._sums))}
        file.attrs.update(root_attributes(header) | checksum)
        self._scales = _write_coordinates(file, header.coordinates)
        for variable in header.variables:
            self._create(variable)
        file.flush()  # so that all but instances lies at the beginning

    def append(self, arrays: Arrays) -> None:
        """Add the next instances."""
        self._waiting.append({v.name: arrays[v.name] for v in self._variables})
        for name, total in self._sums.items():
            if name in arrays:
                total += arrays[name]
        together = CHUNKS_TOGETHER * INSTANCES_PER_CHUNK
        while self._waiting_instances() >= together:
            self._write(together)

    def finish(self) -> None:
        """Write what waits for its chunk to fill, and the sums."""
        if self._waiting_instances():
            self._write(self._waiting_instances())
        if self._written != self._sizes["instance"]:
            raise ValueError(f"{self._written} instances written of {self._sizes['instance']}")
        for name, total in self._sums.items():
            self._file[name][...] = total
        self._file.attrs.modify(SUMS_CHECKSUM, np.bytes_(checksum_of(self._sums)))

    def _waiting_instances(self) -> int:
        first = self._variables[0]
        return sum(piece[first.name].shape[first.instance_axis] for piece in self._waiting)

    def _write(self, count: int) -> None:
        rest: dict[str, npt.NDArray[Any]] = {}
        stop = self._written + count
        for variable in self._variables:
            axis = variable.instance_axis
            array = np.concatenate([piece[variable.name] for piece in self._waiting], axis)
            place = (slice(None),) * axis
            # Opened for this write alone: chunks are packed when a dataset is closed.
            dataset = self._file[variable.name]
            dataset[(*place, slice(self._written, stop))] = array[(*place, slice(count))]
            rest[variable.name] = array[(*place, slice(count, None))]
        self._waiting = [rest]
        self._written = stop

    def _create(self, variable: Variable) -> None:
        shape, how = variable.shape(self._sizes), storage(variable, self._sizes)
        dataset = self._file.create_dataset(
            variable.name,
            shape,
            variable.dtype,
            chunks=how["chunksizes"],
            shuffle=how.get("shuffle", False),
            compression="gzip" if "zlib" in how else None,
            compression_opts=how.get("complevel"),
            fletcher32=how["fletcher32"],
            fillvalue=np.nan if np.dtype(variable.dtype).kind == "f" else 0,
            track_times=False,
        )
        if not variable.per_instance:  # its place is taken now, and its length does not change
            dataset[...] = self._sums[variable.name]
        dataset.attrs.update(variable_attributes(variable, self._coordinates))
        for axis, dim in enumerate(variable.dims):
            h5py.h5ds.attach_scale(dataset.id, self._scales[dim].id, axis)


def _write_coordinates(
    file: h5py.File, coordinates: Iterable[Coordinate]
) -> dict[str, h5py.Dataset]:
    """Write the coordinates; return those that are scales of dimensions, open."""
    scales = {}
    for coordinate in sorted(coordinates, key=lambda label: not label.is_scale):
        variable = coordinate.variable
        dtype = h5py.string_dtype() if variable.dtype == "text" else np.dtype(variable.dtype)
        dataset = file.create_dataset(
            variable.name, data=np.asarray(content_of(coordinate), dtype=dtype), track_times=False
        )
        dataset.attrs.update(description(variable))
        (dim,) = variable.dims
        if dim == variable.name:
            dataset.make_scale(dim)
            scales[dim] = dataset
        else:
            h5py.h5ds.attach_scale(dataset.id, scales[dim].id, 0)
    return scales
