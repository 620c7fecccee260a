"""A file whose checksum is right, as HDF5 shows it, before anything of it is believed.

A checksum reveals damage, but it does not say who wrote a file: anybody can append a valid one.
So a file with a valid checksum, too, is first read in another process, once for each content, and
must then be as its study declares in each name, type, length and range.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.checksum import MOST_BYTES, verify_checksum
from mcage.files.foreign_hdf5 import ForeignFile
from mcage.plain_text import shown
from mcage.results.variable import Coordinate, Variable

_NETCDF_ATTRIBUTES = {"CLASS", "NAME"}
_FOR_PEOPLE = ("long_name", "comment", "flag_meanings")
_looked_through: dict[str, dict[str, Any]] = {}


class VerifiedFile:
    """What a file holds, and checks that end with a `UserError` naming file and place.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    DamagedFileError
        It has no checksum, or not that of its content.
    UserError
        It cannot be read, or is no plain HDF5 file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        checksum = verify_checksum(path)
        if checksum not in _looked_through:
            _looked_through[checksum] = ForeignFile(path, MOST_BYTES).look_through()
        contents = _looked_through[checksum]
        self.attributes: dict[str, Any] = contents["attributes"]
        self._datasets: dict[str, Any] = contents["datasets"]

    def attribute(self, name: str, kind: type) -> Any:
        """Attribute of the file, of this type."""
        if name not in self.attributes:
            self.refuse(f"attribute {name}", "missing")
        content = self.attributes[name]
        if type(content) is not kind:
            self.refuse(
                f"attribute {name}", "must be text" if kind is str else "must be an integer"
            )
        return content

    def require_datasets(self, names: Iterable[str]) -> None:
        """Refuse a file with more or fewer datasets."""
        expected = set(names)
        for name in sorted(expected ^ set(self._datasets)):
            self.refuse(name, "missing" if name in expected else "does not belong into it")

    def size(self, name: str) -> int:
        """Length of a dataset, which must have one axis and an element."""
        shape = self._datasets[name]["shape"]
        if len(shape) != 1 or not shape[0]:
            self.refuse(name, f"has shape {shape}, must have one axis and an element")
        return int(shape[0])

    def require_array(self, variable: Variable, sizes: Mapping[str, int]) -> None:
        """Refuse another type or shape than is declared, and values beyond those declared."""
        name, dataset = variable.name, self._datasets[variable.name]
        expected = variable.dtype if variable.dtype == "text" else np.dtype(variable.dtype).str
        if dataset["dtype"] != expected:
            self.refuse(name, f"has type {dataset['dtype']}, must be {expected}")
        shape = list(variable.shape(sizes))
        if dataset["shape"] != shape:
            self.refuse(name, f"has shape {dataset['shape']}, must be {shape}")
        if variable.dtype != "text":
            self._require_values(variable, dataset)

    def _require_values(self, variable: Variable, dataset: dict[str, Any]) -> None:
        name = variable.name
        if dataset["inf"] or (dataset["nan"] and not variable.missing):
            self.refuse(name, "has values that are not finite")
        if variable.flags and dataset["low"] is not None:
            flags = variable.flag_values
            known = range(min(flags), max(flags) + 1)
            if dataset["low"] not in known or dataset["high"] not in known:
                self.refuse(name, f"has values other than {flags}")

    def require_within(self, variable: Variable, coordinates: Iterable[Coordinate]) -> None:
        """Refuse values beyond those of the coordinate that bounds the variable, if there is one.

        Parameters
        ----------
        variable : Variable
            A variable of the file.
        coordinates : iterable of Coordinate
            All coordinates.
        """
        for bound in coordinates:
            if bound.variable.name == variable.within:
                labels = bound.variable.dtype == "text"
                most = len(bound.values) - 1 if labels else bound.values[-1]
                low, high = (self._datasets[variable.name][key] for key in ("low", "high"))
                if not 0 <= low <= high <= most:
                    self.refuse(variable.name, f"has values {low} ... {high}, must be 0 ... {most}")

    def require_attributes(self, variable: Variable, expected: Mapping[str, Any]) -> None:
        """Refuse attributes of a dataset that could make a reader take it for something else.

        Texts for people may read differently; what a reader computes with must be the same.
        """
        name, attributes = variable.name, self._datasets[variable.name]["attributes"]
        for key in sorted(set(expected) ^ (set(attributes) - _NETCDF_ATTRIBUTES)):
            what = "missing" if key in expected else "does not belong into it"
            self.refuse(f"attribute {key} of {name}", what)
        for key, content in expected.items():
            if key in _FOR_PEOPLE:
                if not isinstance(attributes[key], str):
                    self.refuse(f"attribute {key} of {name}", "must be text")
            elif not _same(np.asarray(attributes[key]), np.asarray(content)):
                self.refuse(f"attribute {key} of {name}", f"must be {shown(content)}")

    def require_dims(self, variable: Variable) -> None:
        """Refuse an array whose axes do not refer to their dimensions as netCDF-4 has it."""
        name, dataset = variable.name, self._datasets[variable.name]
        is_scale = variable.dims == (name,)
        expected = [] if is_scale else [[dim] for dim in variable.dims]
        scale = {"CLASS": "DIMENSION_SCALE", "NAME": name} if is_scale else {}
        netcdf = {key: dataset["attributes"].get(key) for key in _NETCDF_ATTRIBUTES}
        if dataset["dims"] != expected or {k: v for k, v in netcdf.items() if v} != scale:
            self.refuse(name, f"must have the dimensions {', '.join(variable.dims)}")

    def refuse(self, where: str, what: str) -> NoReturn:
        """Raise the `UserError`."""
        raise UserError(f"{self.path}: {shown(where)}: {what}; not as mcage writes it")


def _same(content: npt.NDArray[Any], expected: npt.NDArray[Any]) -> bool:
    is_float = expected.dtype.kind == "f"
    return content.dtype.kind == expected.dtype.kind and np.array_equal(
        content, expected, equal_nan=is_float
    )
