"""Reads plain HDF5: nothing that leads out of the file, and no type but numbers and text.

HDF5 crashes, or searches for ever, on some files that are damaged or made to do harm. So this
module is also a program: `mcage.files.foreign_hdf5` runs it in a process of its own, which has
limits on time and memory, and which may die. It therefore imports nothing of mcage, and what its
functions take and return can be sent as JSON, but for the arrays themselves.
"""

import errno
import json
import math
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

MOST_CHUNK_BYTES = 64 << 20
"""Largest chunk of a dataset, uncompressed: HDF5 holds a whole one in memory."""

MOST_ATTRIBUTE_BYTES = 16 << 20
MOST_DEFLATION = 1032
"""Bytes that one byte of deflated data can stand for, at most (zlib, technical details)."""

NETCDF_LINKS = ("DIMENSION_LIST", "REFERENCE_LIST")
"""Attributes in which netCDF-4 refers from arrays to their dimensions and back."""

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_FILTERS = (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32)
_NUMBERS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT)
_MOST_NUMBER_BYTES = 8
_SLAB_BYTES = 8 << 20
_MOST_LETTERS = 300
_MEMORY_BYTES = 384 << 20
"""Memory that the process may take beyond what it has when it starts."""


class NotPlainError(Exception):
    """A file holds what is not read; the text says where and what, without the file's name."""


def opened(path: str | os.PathLike[str]) -> h5py.File:
    """Open a file for reading, also where no locks are offered: none is ever changed."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
    return h5py.File(path, "r", locking=False)


def describe(
    path: str, datasets: Sequence[str], attributes: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Types and shapes of datasets, and the content of attributes; no data is read.

    Parameters
    ----------
    path : str
        The file.
    datasets : sequence of str
        Paths of datasets inside the file.
    attributes : mapping of str to sequence of str
        Names of attributes by the path of their group; the root group is ``""``.

    Returns
    -------
    dict
        ``datasets``: ``{"dtype", "shape"}`` by path, None where there is no such dataset.
        ``attributes``: by group, the contents by name; those that are missing are left out.

    Raises
    ------
    NotPlainError
        One of them is no plain dataset or attribute.
    Exception
        Whatever h5py raises on a damaged file.
    """
    with opened(path) as file:
        return {
            "datasets": {name: _described(_item(file, name), name) for name in datasets},
            "attributes": {
                group: _attributes(_item(file, group), group, names)
                for group, names in attributes.items()
            },
        }


def slabs(path: str, dataset: str) -> Iterator[npt.NDArray[Any]]:
    """Content of one dataset that `describe` has described, in pieces along its first axis.

    Raises
    ------
    NotPlainError, Exception
        As in `describe`.
    """
    with opened(path) as file:
        item = _item(file, dataset)
        _require_plain(item, dataset)
        if not item.shape:
            yield item[()]
            return
        row_bytes = item.dtype.itemsize * math.prod(item.shape[1:])
        chunk_rows = item.chunks[0] if item.chunks else 1
        chunks = max(1, _SLAB_BYTES // max(1, row_bytes * chunk_rows))
        for start in range(0, item.shape[0], chunks * chunk_rows):
            yield item[start : start + chunks * chunk_rows]


def look_through(path: str) -> dict[str, Any]:
    """Read everything in a file without groups, and tell what there is.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    dict
        ``attributes`` of the file by name, and ``datasets`` by name, each with ``dtype``
        (``"text"`` for text of variable length), ``shape``, ``attributes``, ``dims`` (names of
        the datasets that its ``DIMENSION_LIST`` refers to, an entry for each axis) and, of a
        dataset of numbers that is not empty, ``low`` and ``high`` (of those that are finite, else
        None), ``nan`` and ``inf`` (whether any is).

    Raises
    ------
    NotPlainError
        It holds groups, links, types, filters or references that are not plain, text that is not
        UTF-8, or states more data than its size on disk can hold.
    Exception
        Whatever h5py raises on a damaged file.
    """
    most_bytes = MOST_DEFLATION * os.path.getsize(path)
    with opened(path) as file:
        names = [_text(name, "the name of a dataset") for name in file.id]
        items = {name: _item(file, name) for name in names}
        for name, item in items.items():
            _require_plain(item, name, text_allowed=True)
            _require_known_filters(item, name)
            most_bytes -= item.nbytes
        if most_bytes < 0:
            raise NotPlainError("states more data than a file of this size can hold")
        return {
            "attributes": _attributes(file, "", list(file.attrs)),
            "datasets": {name: _looked_through(file, item, name) for name, item in items.items()},
        }


def _item(file: h5py.File, path: str) -> Any:
    """Object at a path that consists of hard links, None if there is none."""
    item, names = file, path.split("/") if path else []
    for depth, name in enumerate(names, start=1):
        # Not `name in item`, which opens what a link leads to.
        if not isinstance(item, h5py.Group) or not item.id.links.exists(name.encode()):
            return None
        if item.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
            link = "/".join(names[:depth])
            raise NotPlainError(
                f"{link}: is a soft or external link; all data must be in the file itself"
            )
        item = item[name]
    return item


def _described(dataset: Any, name: str) -> dict[str, Any] | None:
    if not isinstance(dataset, h5py.Dataset):
        return None
    _require_plain(dataset, name)
    return {"dtype": dataset.dtype.str, "shape": list(dataset.shape)}


def _require_plain(dataset: Any, name: str, *, text_allowed: bool = False) -> None:
    if not isinstance(dataset, h5py.Dataset):
        raise NotPlainError(f"{name}: is no dataset")
    creation = dataset.id.get_create_plist()
    # First of all: asked for its shape, a virtual dataset opens other files.
    if creation.get_layout() == h5py.h5d.VIRTUAL:
        raise NotPlainError(f"{name}: is a virtual dataset; all data must be in the file itself")
    if creation.get_external_count():
        raise NotPlainError(f"{name}: lies in another file; all data must be in the file itself")
    if dataset.id.get_space().get_simple_extent_type() == h5py.h5s.NULL:
        raise NotPlainError(f"{name}: has a null dataspace, so it holds nothing")
    kind = dataset.id.get_type().get_class()
    is_number = kind in _NUMBERS and dataset.dtype.itemsize <= _MOST_NUMBER_BYTES
    if not is_number and not (text_allowed and kind == h5py.h5t.STRING):
        numbers = "numbers or text" if text_allowed else "numbers"
        raise NotPlainError(f"{name}: has type {dataset.dtype}, must be plain {numbers}")
    chunk_bytes = dataset.dtype.itemsize * math.prod(dataset.chunks or (0,))
    if chunk_bytes > MOST_CHUNK_BYTES:
        raise NotPlainError(
            f"{name}: has chunks of {chunk_bytes >> 20:,} MiB; "
            f"at most {MOST_CHUNK_BYTES >> 20} MiB are read"
        )


def _require_known_filters(dataset: h5py.Dataset, name: str) -> None:
    creation = dataset.id.get_create_plist()
    used = [creation.get_filter(place)[0] for place in range(creation.get_nfilters())]
    unknown = [number for number in used if number not in _FILTERS]
    if unknown:
        raise NotPlainError(f"{name}: is stored with filter {unknown[0]}, which mcage never uses")


def _looked_through(file: h5py.File, dataset: h5py.Dataset, name: str) -> dict[str, Any]:
    is_text = dataset.id.get_type().get_class() == h5py.h5t.STRING
    names = [key for key in dataset.attrs if key not in NETCDF_LINKS]
    description: dict[str, Any] = {
        "dtype": "text" if is_text else dataset.dtype.str,
        "shape": list(dataset.shape),
        "attributes": _attributes(dataset, name, names),
        "dims": _dimensions(file, dataset, name),
    }
    if is_text:
        for text in np.atleast_1d(dataset[()]).flat:
            _text(text, name)
        return description
    return description | _extremes(dataset)


def _extremes(dataset: h5py.Dataset) -> dict[str, Any]:
    """Smallest and largest number, and which are none, over the whole dataset."""
    low, high, nan, inf = math.inf, -math.inf, False, False
    for part in dataset.iter_chunks() if dataset.chunks else [()]:
        numbers = np.atleast_1d(dataset[part])
        if numbers.dtype.kind == "f":
            nan = nan or bool(np.isnan(numbers).any())
            inf = inf or bool(np.isinf(numbers).any())
            if nan or inf:
                numbers = numbers[np.isfinite(numbers)]
        if numbers.size:
            low, high = min(low, numbers.min().item()), max(high, numbers.max().item())
    empty = low > high
    return {
        "low": None if empty else low,
        "high": None if empty else high,
        "nan": nan,
        "inf": inf,
    }


def _dimensions(file: h5py.File, dataset: h5py.Dataset, name: str) -> list[list[str]]:
    """Names of the datasets that the axes refer to; also reads the references back."""
    held = dataset.attrs
    for key in NETCDF_LINKS:
        if key in held:
            _require_references(held.get_id(key), f"{name}: attribute {key}")
    if "REFERENCE_LIST" in held:
        held["REFERENCE_LIST"]
    axes = held.get("DIMENSION_LIST", ())
    return [[_name(file, reference, name) for reference in axis] for axis in axes]


def _name(file: h5py.File, reference: h5py.Reference, where: str) -> str:
    """Name of the dataset that a reference of another leads to."""
    target = h5py.h5r.dereference(reference, file.id)
    name = target and h5py.h5i.get_name(target)
    if not name:
        raise NotPlainError(f"{where}: an axis refers to nothing")
    return _text(name, where).removeprefix("/")


def _require_references(attribute: h5py.h5a.AttrID, where: str) -> None:
    kind = attribute.get_type()
    if kind.get_class() == h5py.h5t.VLEN:
        kinds = [kind.get_super().get_class()]
    elif kind.get_class() == h5py.h5t.COMPOUND:
        kinds = [kind.get_member_class(member) for member in range(kind.get_nmembers())]
    else:
        kinds = []
    if kinds not in ([h5py.h5t.REFERENCE], [h5py.h5t.REFERENCE, h5py.h5t.INTEGER]):
        raise NotPlainError(f"{where}: is no list of references")
    _require_small(attribute, where)


def _attributes(item: Any, where: str, names: Sequence[str]) -> dict[str, Any]:
    if item is None:
        return {}
    held = item.attrs
    return {name: _attribute(held, where, name) for name in names if name in held}


def _attribute(held: h5py.AttributeManager, where: str, name: str) -> Any:
    """Content of an attribute: a text, a number, or a list of them."""
    place = f"attribute {name} of {where}" if where else f"attribute {name}"
    attribute = held.get_id(name)
    if attribute.get_type().get_class() not in (*_NUMBERS, h5py.h5t.STRING):
        raise NotPlainError(f"{place}: must be text or numbers")
    _require_small(attribute, place)
    content = held[name]
    if isinstance(content, str | bytes):
        return _text(content, place)
    numbers = np.asarray(content)
    if numbers.dtype.kind in "OS":
        return [_text(part, place) for part in numbers.flat]
    return numbers.tolist()


def _require_small(attribute: h5py.h5a.AttrID, place: str) -> None:
    space = attribute.get_space()
    if space.get_simple_extent_type() == h5py.h5s.NULL:
        raise NotPlainError(f"{place}: has a null dataspace, so it holds nothing")
    content_bytes = space.get_simple_extent_npoints() * attribute.get_type().get_size()
    if content_bytes > MOST_ATTRIBUTE_BYTES:
        most = f"at most {MOST_ATTRIBUTE_BYTES:,} are read"
        raise NotPlainError(f"{place}: has {content_bytes:,} bytes; {most}")


def _text(content: str | bytes, place: str) -> str:
    """Text that is text: h5py lets any bytes pass."""
    try:
        return content.decode() if isinstance(content, bytes) else content.encode().decode()
    except UnicodeError as error:
        raise NotPlainError(f"{place}: is not UTF-8") from error


def serve(connection: Connection) -> None:
    """Answer requests until the other end is closed.

    A request is JSON: ``{"action", "arguments", "seconds"}``, the last the processor time after
    which the system ends this process. The answer to ``describe`` and ``look_through`` is JSON,
    ``{"answer"}`` or ``{"refused"}``; to ``slabs`` it is ``{"bytes"}`` before each piece, then
    the piece, and at the end the sum of the bytes as ``{"answer"}``, or ``{"refused"}``.
    """
    _tell(connection, answer="ready")
    while True:
        try:
            request = json.loads(connection.recv_bytes())
        except EOFError:
            return
        _limit_time(request["seconds"])
        try:
            _tell(connection, answer=_act(connection, request["action"], request["arguments"]))
        except OSError as error:
            if isinstance(error, BrokenPipeError | ConnectionError):
                return
            _tell(connection, refused=refusal(error))
        except Exception as error:  # h5py meets a damaged file with any kind of exception
            _tell(connection, refused=refusal(error))


def refusal(error: Exception) -> str:
    """Why a file is not read, in one short line without the file's name."""
    lines = str(error).splitlines() or [type(error).__name__]
    plain = isinstance(error, NotPlainError)
    text = str(error) if plain else f"not a readable HDF5 file, or damaged: {lines[0]}"
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_LETTERS])


def _act(connection: Connection, action: str, arguments: dict[str, Any]) -> Any:
    if action == "describe":
        return describe(**arguments)
    if action == "look_through":
        return look_through(**arguments)
    sent = 0
    for piece in slabs(**arguments):
        content = np.ascontiguousarray(piece).reshape(-1).view(np.uint8)
        if content.nbytes:
            _tell(connection, bytes=content.nbytes)
            connection.send_bytes(content.data)
            sent += content.nbytes
    return sent


def _tell(connection: Connection, **message: Any) -> None:
    connection.send_bytes(json.dumps(message).encode())


def _limit_memory() -> None:
    with open("/proc/self/statm", encoding="ascii") as status:
        pages = int(status.read().split()[0])
    _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + _MEMORY_BYTES)
    _lower(resource.RLIMIT_CORE, 0)


def _limit_time(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + seconds)


def _lower(limit: int, value: int) -> None:
    """Set a soft limit, as far as the hard one allows."""
    _, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def main(descriptor: int) -> None:
    """Limit this process, and answer the requests of the connection with this descriptor."""
    _limit_memory()
    serve(Connection(descriptor))


if __name__ == "__main__":
    main(int(sys.argv[1]))
