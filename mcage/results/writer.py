"""Write a results file: netCDF-4 through h5py, instances streamed in, the same bytes every time.

No clock, host name or library version goes into the file, and instances are written in chunks of
a fixed size however they arrive: two sweeps with the same results give identical files. Chunks
carry checksums for readers that know nothing of the seal (`mcage.files.checksum`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.files.hdf5 import new_hdf5
from mcage.results.attributes import description, root_attributes, variable_attributes
from mcage.results.conform import Arrays
from mcage.results.header import SweepHeader
from mcage.results.schema import COORDINATES, VARIABLES, Variable, dimension_sizes

INSTANCES_PER_CHUNK = 2048


@contextmanager
def new_results(path: Path, campaign: SweepHeader) -> Iterator["ResultsWriter"]:
    """Open a writer for the results of ``campaign``; ``path`` appears when the block succeeds.

    Raises
    ------
    OccupiedError
        A file of this name is there, or has appeared meanwhile.
    UserError
        The file cannot be written.
    ValueError
        Fewer or more instances were appended than the campaign has.
    """
    with new_hdf5(path, track_order=True) as file:
        writer = ResultsWriter(file, campaign)
        yield writer
        writer.finish()


class ResultsWriter:
    """Takes arrays of any number of instances, in order; memory does not grow with them."""

    def __init__(self, file: h5py.File, campaign: SweepHeader) -> None:
        self._file = file
        self._sizes = dimension_sizes(campaign)
        self._written = 0
        self._waiting: list[dict[str, npt.NDArray[Any]]] = []
        self._sums: dict[str, npt.NDArray[Any]] = {
            v.name: np.zeros(v.shape(self._sizes), v.dtype) for v in VARIABLES if not v.per_instance
        }
        file.attrs.update(root_attributes(campaign))
        _write_coordinates(file, campaign)
        for variable in VARIABLES:
            self._create(variable)

    def append(self, arrays: Arrays) -> None:
        """Add the next instances.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            As `mcage.results.conform.conforming` returns them.
        """
        self._waiting.append({v.name: arrays[v.name] for v in VARIABLES if v.per_instance})
        for name, total in self._sums.items():
            total += arrays[name]
        while self._waiting_instances() >= INSTANCES_PER_CHUNK:
            self._write(INSTANCES_PER_CHUNK)

    def finish(self) -> None:
        """Write what waits for its chunk to fill, and the sums."""
        if self._waiting_instances():
            self._write(self._waiting_instances())
        if self._written != self._sizes["instance"]:
            raise ValueError(f"{self._written} instances written of {self._sizes['instance']}")
        for name, total in self._sums.items():
            self._file[name][...] = total

    def _waiting_instances(self) -> int:
        return sum(piece["workload"].shape[0] for piece in self._waiting)

    def _write(self, count: int) -> None:
        rest: dict[str, npt.NDArray[Any]] = {}
        stop = self._written + count
        for variable in VARIABLES:
            if not variable.per_instance:
                continue
            axis = variable.dims.index("instance")
            array = np.concatenate([piece[variable.name] for piece in self._waiting], axis)
            place = (slice(None),) * axis
            self._file[variable.name][(*place, slice(self._written, stop))] = array[
                (*place, slice(count))
            ]
            rest[variable.name] = array[(*place, slice(count, None))]
        self._waiting = [rest]
        self._written = stop

    def _create(self, variable: Variable) -> None:
        shape = variable.shape(self._sizes)
        # One case to a chunk, because tables and figures read case by case.
        limits = {"case": 1, "instance": INSTANCES_PER_CHUNK}
        chunks = tuple(
            min(size, limits.get(dim, size)) for dim, size in zip(variable.dims, shape, strict=True)
        )
        is_float = np.dtype(variable.dtype).kind == "f"
        dataset = self._file.create_dataset(
            variable.name,
            shape,
            variable.dtype,
            chunks=chunks,
            shuffle=True,
            compression="gzip",
            compression_opts=4,
            fletcher32=True,
            fillvalue=np.nan if is_float else 0,
            track_times=False,
        )
        dataset.attrs.update(variable_attributes(variable))
        for axis, dim in enumerate(variable.dims):
            dataset.dims[axis].attach_scale(self._file[dim])


def _write_coordinates(file: h5py.File, campaign: SweepHeader) -> None:
    for coordinate in COORDINATES:
        variable, values = coordinate.variable, coordinate.values(campaign)
        if isinstance(values, range):  # not by way of a list: there may be a million instances
            values = np.arange(values.start, values.stop)
        dtype = h5py.string_dtype() if variable.dtype == "text" else np.dtype(variable.dtype)
        dataset = file.create_dataset(
            variable.name, data=np.asarray(values, dtype=dtype), track_times=False
        )
        dataset.attrs.update(description(variable))
        (dim,) = variable.dims
        if dim == variable.name:
            dataset.make_scale(dim)
        else:
            dataset.dims[0].attach_scale(file[dim])
