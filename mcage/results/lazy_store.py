"""The arrays of a results file as xarray takes them, each read when its values are asked for.

xarray's own way asks for every dimension of every array again and again: four fifths of what it
takes to show a small file. Here names and dimensions come from the header, which has been checked.
Imports xarray, which takes long: to be imported where it is needed.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from xarray import Variable
from xarray.backends import BackendArray
from xarray.backends.common import AbstractDataStore
from xarray.core import indexing

from mcage.files.plain_hdf5 import opened
from mcage.results.header import SCHEMA_VERSION, Header
from mcage.results.variable import Coordinate
from mcage.results.writer import content_of, description, root_attributes

OF_NETCDF = {
    *("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"),
    *("_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCProperties"),
}
"""Attributes of which the netCDF-4 format keeps its own account; they are shown to nobody."""


class LazyStore(AbstractDataStore):
    """A results file whose header has been read.

    Parameters
    ----------
    path : Path
        The file.
    header : Header
        What `mcage.results.reader.read_header` has returned for it.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._header = os.path.abspath(path), header
        self._file = opened(path)
        arrays = [*(coordinate.variable for coordinate in header.coordinates), *header.variables]
        self._dims = {array.name: array.dims for array in arrays}
        self._is_older = int(self._file.attrs["schema_version"]) < SCHEMA_VERSION
        self._of_cases = {axis.name for axis in header.axes}

    def __reduce__(self) -> tuple[type["LazyStore"], tuple[Path, Header]]:
        """A pickle opens the file again."""
        return LazyStore, (Path(self._path), self._header)

    def get_variables(self) -> Mapping[str, Variable]:
        """Every array, in the order of the file; coordinates of cases as the header has them."""
        arrays = {name: self._variable(name) for name in self._file}
        return arrays | {
            coordinate.variable.name: _in_memory(coordinate)
            for coordinate in self._header.coordinates
            if self._is_older and coordinate.variable.name in self._of_cases
        }

    def get_attrs(self) -> Mapping[str, Any]:
        """Attributes of the file, as one of this schema has them."""
        attributes = _attributes(self._file)
        if self._is_older:
            attributes |= {n: _plain(v) for n, v in root_attributes(self._header).items()}
        return attributes

    def get_encoding(self) -> dict[str, Any]:
        """How to write the file again: no dimension can grow."""
        return {"unlimited_dims": set(), "source": self._path}

    def dataset(self, name: str) -> h5py.Dataset:
        """An array of the file, which is opened again if it has been closed, as xarray does."""
        if not self._file:
            self._file = opened(self._path)
        return self._file[name]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _variable(self, name: str) -> Variable:
        item, dims = h5py.h5d.open(self._file.id, name.encode()), self._dims[name]
        lazy = indexing.LazilyIndexedArray(_StoredArray(self, name, item))
        return Variable(
            dims, lazy, _attributes(h5py.Dataset(item)), self._encoding(item, lazy.dtype, dims)
        )

    def _encoding(
        self, item: h5py.h5d.DatasetID, dtype: np.dtype[Any], dims: tuple[str, ...]
    ) -> dict[str, Any]:
        """How the array lies in the file, in xarray's words, so that a copy is as small."""
        creation = item.get_create_plist()
        is_chunked = creation.get_layout() == h5py.h5d.CHUNKED
        chunks = creation.get_chunk() if is_chunked else None
        filters = [creation.get_filter(place) for place in range(creation.get_nfilters())]
        options = {code: values for code, _, values, _ in filters}
        encoding = {
            "dtype": str if h5py.check_string_dtype(dtype) else dtype,
            "contiguous": chunks is None,
            "chunksizes": chunks,
            "shuffle": h5py.h5z.FILTER_SHUFFLE in options,
            "fletcher32": h5py.h5z.FILTER_FLETCHER32 in options,
            "source": self._path,
            "original_shape": item.shape,
        }
        if chunks:
            encoding["preferred_chunks"] = dict(zip(dims, chunks, strict=True))
        if h5py.h5z.FILTER_DEFLATE in options:
            (level,) = options[h5py.h5z.FILTER_DEFLATE]
            encoding |= {"zlib": True, "complevel": level}
        return encoding


def _in_memory(coordinate: Coordinate) -> Variable:
    """A coordinate that the file does not have as this schema has it."""
    values: Any = content_of(coordinate)
    dtype = object if coordinate.variable.dtype == "text" else coordinate.variable.dtype
    return Variable(
        coordinate.variable.dims, np.array(values, dtype), description(coordinate.variable)
    )


class _StoredArray(BackendArray):
    """One array, or the part of it that is asked for."""

    def __init__(self, store: LazyStore, name: str, item: h5py.h5d.DatasetID) -> None:
        self._store, self._name = store, name
        self.shape, self.dtype = item.shape, item.dtype
        self._is_text = h5py.check_string_dtype(self.dtype) is not None

    def __getitem__(self, key: indexing.ExplicitIndexer) -> npt.NDArray[Any]:
        kind = indexing.IndexingSupport.OUTER_1VECTOR
        part: npt.NDArray[Any] = indexing.explicit_indexing_adapter(
            key, self.shape, kind, self._part
        )
        return part

    def _part(self, key: tuple[Any, ...]) -> Any:
        dataset = self._store.dataset(self._name)
        return (dataset.asstr() if self._is_text else dataset)[key]


def _attributes(item: h5py.HLObject) -> dict[str, Any]:
    """Attributes of an array or of the file; lists of one number are numbers, all text is str."""
    held = item.attrs
    return {name: _plain(held[name]) for name in held if name not in OF_NETCDF}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.shape == (1,):
        return value[0]
    return value.decode() if isinstance(value, bytes) else value
