"""Open a results file, after making sure that it is one, whole and of a known schema."""

import json
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import h5py
import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.files.hdf5 import ForeignFile
from mcage.files.inputs import MOST_BYTES, DamagedFileError, verify_checksum
from mcage.files.plain_hdf5 import opened
from mcage.plain_text import shown
from mcage.results import writer
from mcage.results.axes import JOINED, Axis, values_of_spec
from mcage.results.header import INSTANCE, SCHEMA_VERSION, Header, header_class
from mcage.results.variable import Coordinate, Variable, dimension_sizes

if TYPE_CHECKING:
    import xarray


# A file whose checksum is right, as HDF5 shows it, before anything of it is believed.
#
# A checksum reveals damage, but it does not say who wrote a file: anybody can append a valid one.
# So a file with a valid checksum, too, is first read in another process, once for each content,
# and must then be as its study declares in each name, type, length and range.

_NETCDF_ATTRIBUTES = {"CLASS", "NAME"}
_FOR_PEOPLE = ("long_name", "comment", "flag_meanings")
_looked_through: dict[str, dict[str, Any]] = {}


class VerifiedFile:
    """Content of a file, and checks that end with a `UserError` naming file and place.

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

    def has(self, name: str) -> bool:
        """Whether there is such a dataset."""
        return name in self._datasets

    def require_array(self, variable: Variable, sizes: Mapping[str, int]) -> None:
        """Refuse another type or shape than is declared, and values beyond those declared."""
        if not self.has(name := variable.name):
            self.refuse(name, "missing")
        dataset = self._datasets[name]
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


# Instances of a results file as arrays, as they were given to its writer.


def read_instances(
    path: Path, header: Header, instances: range, names: Collection[str]
) -> dict[str, NDArray[Any]]:
    """Variables of successive instances of a file that has been verified.

    Parameters
    ----------
    path : Path
        The file.
    header : Header
        Its header.
    instances : range
        Ids of instances that follow one another in the file, too.
    names : collection of str
        Variables with the dimension ``instance``.

    Raises
    ------
    DamagedFileError
        The file cannot be read, although it could be when it was verified.
    """
    earlier = (range(ids.start, min(ids.stop, instances.start)) for ids in header.present)
    first = sum(map(len, earlier))
    place = slice(first, first + len(instances))
    axes = {v.name: v.instance_axis for v in header.variables if v.name in names}
    with _opened(path) as file:
        return {name: file[name][(slice(None),) * axis + (place,)] for name, axis in axes.items()}


def read_sums(path: Path, header: Header) -> dict[str, NDArray[Any]]:
    """Variables that are summed over all instances of the file.

    Parameters
    ----------
    path, header
        As of `read_instances`.

    Raises
    ------
    DamagedFileError
        As `read_instances`.
    """
    with _opened(path) as file:
        return {v.name: file[v.name][...] for v in header.variables if not v.per_instance}


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    try:
        with opened(path) as file:
            yield file
    except (OSError, KeyError) as error:
        raise DamagedFileError(f"{path} is damaged, or has changed meanwhile") from error


OLDEST_SCHEMA = 9
"""Oldest schema that is read."""

NOT_OF_OLDER = {"schema_version", "coordinates"}
"""Attributes of a file that do not follow from its header in this schema."""

LAST_OF_SCHEMA = {
    1: "488bd87",
    2: "2f91099",
    3: "c8f8a59",
    4: "2e104eb",
    5: "f8cad0c",
    6: "981a5c0",
    7: "981a5c0",
    8: "38b5f47",
}
"""Last commit that reads files of a version that is read no more."""


def open_results(path: Path | str) -> "xarray.Dataset":
    """Open a results file lazily, by name of variable and dimension.

    Parameters
    ----------
    path : path
        File that a campaign wrote. `mcage.studies.sweep.header` lists what is in that of a sweep.

    Raises
    ------
    UserError
        The file is missing, not readable, not a results file, damaged, or of a newer mcage.
    """
    import xarray

    from mcage.results.lazy_store import ResultsBackend

    path = Path(path)
    header = read_header(path)
    return xarray.open_dataset(path, engine=ResultsBackend, header=header)


def read_header(path: Path) -> Header:
    """Validate a results file and return the header of the campaign whose results it holds.

    Raises
    ------
    UserError
        As `open_results`.
    """
    try:
        verified = VerifiedFile(path)
    except DamagedFileError as damage:
        raise UserError(f"{damage}: not a results file to rely on") from damage
    filetype = verified.attribute("filetype", str)
    schema = verified.attribute("schema_version", int)
    if filetype != writer.FILETYPE:
        raise UserError(f"{path} holds {shown(filetype)}, not {writer.FILETYPE}")
    if not OLDEST_SCHEMA <= schema <= SCHEMA_VERSION:
        version = shown(verified.attribute("mcage_version", str))
        reader = f"commit {LAST_OF_SCHEMA[schema]}" if schema in LAST_OF_SCHEMA else "that mcage"
        raise UserError(
            f"{path} was written by mcage {version} with schema {schema}; this one takes "
            f"{OLDEST_SCHEMA} to {SCHEMA_VERSION}: use {reader}"
        )
    header = header_in(verified)
    _require_attributes(verified, header)
    _require_arrays(verified, header)
    return header


def header_in(verified: VerifiedFile) -> Header:
    """Header that the attribute ``campaign`` of a results file or a shard holds, in this schema.

    Raises
    ------
    UserError
        It holds none.
    """
    kind = header_class(verified.attribute("study", str))
    text = verified.attribute("campaign", str)
    try:
        if _is_older(verified):
            text = json.dumps(_upgraded(json.loads(text), kind.axes))
        return kind.from_json(text)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        verified.refuse("attribute campaign", str(error))


def _is_older(verified: VerifiedFile) -> bool:
    return bool(verified.attributes["schema_version"] < SCHEMA_VERSION)


def _require_attributes(verified: VerifiedFile, header: Header) -> None:
    """Every attribute of the file says what follows from the header, and no other is there."""
    expected = writer.root_attributes(header)
    _ = verified.attribute(writer.SUMS_CHECKSUM, str)
    for name in set(verified.attributes) - {*expected, writer.SUMS_CHECKSUM}:
        verified.refuse(f"attribute {name}", "does not belong into it")
    free = NOT_OF_OLDER if _is_older(verified) else set()
    for name in expected.keys() - {"campaign"}:
        content = verified.attribute(name, type(expected[name]))
        if name not in free and content != expected[name]:
            verified.refuse(f"attribute {name}", "does not say what the attribute campaign says")


def _require_arrays(verified: VerifiedFile, header: Header) -> None:
    """Every array is there as the header declares it, coordinates with their content."""
    # First of all: a header may promise more instances than there is memory for their ids.
    verified.require_array(INSTANCE, {"instance": header.holds})
    # Of axes, an older file has what `_upgraded` makes those of this schema of.
    axes = {axis.name for axis in header.axes} if _is_older(verified) else set()
    labels = {
        label.variable: label
        for label in header.coordinates
        if label.variable.name not in axes or verified.has(label.variable.name)
    }
    verified.require_datasets(array.name for array in (*labels, *header.variables))
    sizes = dimension_sizes(header.coordinates)
    attributes = {label: writer.description(label) for label in labels}
    attributes |= {v: writer.variable_attributes(v, tuple(labels)) for v in header.variables}
    for array, of_array in attributes.items():
        verified.require_array(array, sizes)
        verified.require_attributes(array, of_array)
        verified.require_dims(array)
    for variable in header.variables:
        verified.require_within(variable, header.coordinates)
    with opened(verified.path) as file:
        for label, coordinate in labels.items():
            if label.name not in axes and _content(file, label.name) != [*coordinate.values]:
                verified.refuse(label.name, "is not what belongs to the other coordinates")


def _content(file: h5py.File, name: str) -> list[Any]:
    dataset = file[name]
    is_text = h5py.check_string_dtype(dataset.dtype)
    content: list[Any] = (dataset.asstr() if is_text else dataset)[:].tolist()
    return content


# Headers of files of an older schema as this one has them.
#
# Schema 10: cases have no temperature. Schema 9, too: the protection of a case was a suffix of its
# technique (``rrcd@secded32``, nothing for ``ecp1``), and its voltages stood in its label alone.

UNNAMED_PROTECTION = "ecp1"
"""Protection of which the names of techniques said nothing."""


def _upgraded(fields: Mapping[str, Any], axes: Sequence[Axis]) -> dict[str, Any]:
    """Fields of a header, as JSON knows them, in this schema.

    Parameters
    ----------
    fields : mapping
        Those of an older schema.
    axes : sequence of Axis
        Axes of the study.

    Raises
    ------
    ValueError, TypeError, LookupError, AttributeError
        They are not.
    """
    if not {"protection", "technique"} <= {axis.name for axis in axes}:
        return dict(fields)
    spec = tomllib.loads(fields["spec_toml"])
    if "cases" in fields:  # of sweeps
        return {**fields, "cases": [_case(case, axes, spec) for case in fields["cases"]]}
    return {**fields, "labels": _labels(fields["labels"], axes, spec)}


def _labels(
    labels: Sequence[Mapping[str, Any]], axes: Sequence[Axis], spec: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Coordinates of a study that declares them: those of cases as of a sweep."""
    variables = {label["variable"]["name"]: label["variable"] for label in labels}
    columns = {name: label["values"] for name, label in zip(variables, labels, strict=True)}
    names = [name for name, variable in variables.items() if variable["dims"] == ["case"]]
    lines = zip(*(columns[name] for name in names), strict=True)
    cases = [_case(dict(zip(names, line, strict=True)), axes, spec) for line in lines]
    variables |= {
        axis.name: asdict(axis.variable())
        for axis in axes
        if axis.name in cases[0] and axis.name not in variables
    }
    columns |= {name: [case[name] for case in cases] for name in cases[0]}
    return [{"variable": of, "values": columns[name]} for name, of in variables.items()]


def _case(
    stored: Mapping[str, Any], axes: Sequence[Axis], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """A case of a sweep."""
    case = dict(stored)
    label = case.pop("label") if "label" in case else case.pop("case")
    technique, _, suffix = case["technique"].partition(JOINED)
    protection = case.get("protection", suffix or UNNAMED_PROTECTION)
    setting = f" {case['environment']} {case['scenario']}"
    voltages = case.get("voltages", label.rpartition(setting)[2].strip())
    return {
        **case,
        **{"case": label, "technique": technique, "protection": protection, "voltages": voltages},
        **values_of_spec(axes, spec, case),
    }
