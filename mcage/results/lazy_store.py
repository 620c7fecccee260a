"""The arrays of a results file as xarray takes them, each read when its values are asked for.

xarray's own way asks for every dimension of every array again and again: four fifths of what it
takes to show a small file. Here everything but the values comes from the header, which has been
checked. Imports xarray, which takes long: to be imported where it is needed.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from xarray import Dataset
from xarray import Variable as XarrayVariable
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from mcage.files.plain_hdf5 import opened
from mcage.results import writer
from mcage.results.header import Header
from mcage.results.variable import Variable, dimension_sizes


class ResultsBackend(BackendEntrypoint):
    """Opens results files of which the header has been read."""

    def open_dataset(  # type: ignore[override]
        self, filename_or_obj: Path, *, drop_variables: None, header: Header
    ) -> Dataset:
        """Dataset of a file.

        Parameters
        ----------
        filename_or_obj : Path
            The file.
        drop_variables : None
            As xarray has it.
        header : Header
            What `mcage.results.reader.read_header` has returned for it.
        """
        file, sizes = StoredFile(filename_or_obj), dimension_sizes(header.coordinates)
        labels = {}
        for label in sorted(header.coordinates, key=lambda label: not label.is_scale):
            of = label.variable
            values = np.array(writer.content_of(label), str if of.dtype == "text" else of.dtype)
            # Fast: xarray would ask whether they are an array of Dask, and import that.
            described = writer.description(of)
            labels[of.name] = XarrayVariable(of.dims, values, described, fastpath=True)
        arrays = {}
        for of in header.variables:
            lazy = indexing.LazilyIndexedArray(_StoredArray(file, of, sizes))
            said = file.dataset(of.name).attrs  # in the words of the code that wrote the file
            described = {name: said[name] for name in writer.description(of)}
            arrays[of.name] = XarrayVariable(of.dims, lazy, described, writer.storage(of, sizes))
        sums = file.dataset("/").attrs[writer.SUMS_CHECKSUM].decode()
        attributes = writer.root_attributes(header) | {
            "campaign": header.to_json(),
            writer.SUMS_CHECKSUM: sums,
        }
        attributes.pop("coordinates", None)  # which xarray would take for names
        results = Dataset(arrays, labels, attributes)
        results.set_close(file.close)
        return results


class StoredFile:
    """A results file, opened again where it has been closed, and by a pickle."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = os.path.abspath(path), opened(path)

    def __reduce__(self) -> tuple[type["StoredFile"], tuple[Path]]:
        return StoredFile, (Path(self._path),)

    def dataset(self, name: str) -> h5py.Dataset:
        """An array of the file."""
        if not self._file:
            self._file = opened(self._path)
        return self._file[name]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _StoredArray(BackendArray):
    """One array, or the part of it that is asked for."""

    def __init__(self, file: StoredFile, variable: Variable, sizes: Mapping[str, int]) -> None:
        self._file, self._name = file, variable.name
        self.shape, self.dtype = variable.shape(sizes), np.dtype(variable.dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> npt.NDArray[Any]:
        kind = indexing.IndexingSupport.OUTER_1VECTOR
        part: npt.NDArray[Any] = indexing.explicit_indexing_adapter(
            key, self.shape, kind, self._part
        )
        return part

    def _part(self, key: tuple[Any, ...]) -> Any:
        return self._file.dataset(self._name)[key]
