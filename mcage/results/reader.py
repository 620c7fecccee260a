"""Open a results file, after making sure that it is one, whole and of a known schema."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
from mcage.results.header import OLDEST_STUDY, SCHEMA_VERSION, Header, header_class
from mcage.results.older import OLDEST_SCHEMA, upgraded
from mcage.results.variable import Coordinate, Variable

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

    from mcage.results.lazy_store import LazyStore

    path = Path(path)
    header = read_header(path)
    results = xarray.open_dataset(LazyStore(path, header))
    return results.set_coords([coordinate.variable.name for coordinate in header.coordinates])


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
    header = _header(verified)
    _require_campaign(verified, header)
    known = {*writer.root_attributes(header), writer.SUMS_CHECKSUM}
    for name in set(verified.attributes) - known:
        verified.refuse(f"attribute {name}", "does not belong into it")
    for variable in header.variables:
        verified.require_within(variable, header.coordinates)
    return header


def _require_campaign(verified: VerifiedFile, header: Header) -> None:
    """The whole header in one text says what the other attributes and the coordinates say."""
    _ = verified.attribute(writer.SUMS_CHECKSUM, str)
    try:
        fields = json.loads(verified.attribute("campaign", str))
        if _from_json(type(header), fields, verified) == header:
            return
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        pass
    verified.refuse("attribute campaign", "does not say what the others say")


def study_of(verified: VerifiedFile) -> str:
    """Study that a file names; files from before studies had names are those of sweeps."""
    if "study" not in verified.attributes:
        return OLDEST_STUDY
    study: str = verified.attribute("study", str)
    return study


def _header(verified: VerifiedFile) -> Header:
    study = study_of(verified)
    kind = header_class(study)
    try:
        variables, coordinates = kind.declared(study, verified.attributes)
    except ValueError as error:
        verified.refuse("header", str(error))
    _require_declared(verified, variables, coordinates)
    with opened(verified.path) as file:
        labels = (c.name for c in coordinates if c.name != "instance")
        contents: dict[str, Any] = {name: _content(file, name) for name in labels}
        grid = kind.grid_fields(study, verified.attributes, contents)
        header = _from_fields(verified, kind, grid, file["instance"].size)
        contents["instance"] = file["instance"][:]
    _require_coordinates(verified, contents, header)
    return header


def _require_declared(
    verified: VerifiedFile, variables: tuple[Variable, ...], coordinates: tuple[Variable, ...]
) -> None:
    """Every array is there, as it is declared, and nothing else is."""
    arrays = [*coordinates, *variables]
    verified.require_datasets(array.name for array in arrays)
    dims = dict.fromkeys(dim for array in arrays for dim in array.dims)
    sizes = {dim: verified.size(dim) for dim in dims}
    for array in arrays:
        is_coordinate = array in coordinates
        attributes = (
            writer.description(array)
            if is_coordinate
            else writer.variable_attributes(array, coordinates)
        )
        verified.require_array(array, sizes)
        verified.require_attributes(array, attributes)
        verified.require_dims(array)


def _from_fields(
    verified: VerifiedFile, kind: type[Header], grid: dict[str, Any], instances: int
) -> Header:
    rule = _optional(verified, "stopping")
    fields = {
        "spec_toml": verified.attribute("spec", str),
        "spec_digest": verified.attribute("spec_digest", str),
        "seed": verified.attribute("seed", int),
        "engine": verified.attribute("engine", str),
        "engine_reason": verified.attribute("engine_reason", str),
        "device": verified.attribute("device", str),
        "stopped": verified.attribute("stopped", str) if rule else "",
        **grid,
    }
    try:
        fields["stopping"] = _rule(rule) if rule else None
        absent = json.loads(_optional(verified, "absent_instances") or "[]")
        fields["absent"] = absent
        fields["instances"] = instances + sum(last - first + 1 for first, last in absent)
        fields["codes"] = json.loads(verified.attribute("codes", str))
        return _from_json(kind, fields, verified)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        verified.refuse("header", str(error))


def _from_json(kind: type[Header], fields: dict[str, Any], verified: VerifiedFile) -> Header:
    """Header of its fields, in this schema."""
    text = json.dumps(fields)
    if _is_older(verified):
        text = json.dumps(upgraded(json.loads(text), kind.axes))
    return kind.from_json(text)


def _is_older(verified: VerifiedFile) -> bool:
    return bool(verified.attributes["schema_version"] < SCHEMA_VERSION)


def _optional(verified: VerifiedFile, name: str) -> str:
    return str(verified.attribute(name, str)) if name in verified.attributes else ""


def _rule(text: str) -> Any:
    """Fields of a stopping rule; files from before studies had names call a group a chip."""
    rule = json.loads(text)
    if isinstance(rule, dict) and "slices_per_chip" in rule:
        rule["group_size"] = rule.pop("slices_per_chip")
    return rule


def _content(file: h5py.File, name: str) -> list[Any]:
    dataset = file[name]
    is_text = h5py.check_string_dtype(dataset.dtype)
    content: list[Any] = (dataset.asstr() if is_text else dataset)[:].tolist()
    return content


def _require_coordinates(
    verified: VerifiedFile, contents: Mapping[str, Any], header: Header
) -> None:
    """Every coordinate says what follows from the header."""
    of_cases = {axis.name for axis in header.axes} if _is_older(verified) else set()
    for coordinate in header.coordinates:
        name = coordinate.variable.name
        if name in of_cases:  # as `upgraded` makes it of what the file has
            continue
        if not np.array_equal(contents[name], writer.content_of(coordinate)):
            verified.refuse(name, "is not what belongs to the other coordinates")
