"""Reads plain HDF5: nothing that leads out of the file, and no type but numbers and text.

HDF5 crashes, or searches for ever, on some files that are damaged or made to do harm. So this
module is also a program: `mcage.files.hdf5` runs it in a process of its own, which has
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
from typing import Any, NamedTuple

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
_IN_FILE = "all data must be in the file itself"
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
        groups = {group: _item(file.id, group) for group in attributes}
        return {
            "datasets": {name: _described(_item(file.id, name), name) for name in datasets},
            "attributes": {g: _attributes(item, g, attributes[g]) for g, item in groups.items()},
        }


def slabs(path: str, dataset: str) -> Iterator[npt.NDArray[Any]]:
    """Content of one dataset that `describe` has described, in pieces along its first axis.

    Raises
    ------
    NotPlainError, Exception
        As in `describe`.
    """
    with opened(path) as file:
        item = h5py.Dataset(_plain(_item(file.id, dataset), dataset).id)
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
        As in `describe`.
    """
    most_bytes = MOST_DEFLATION * os.path.getsize(path)
    with opened(path) as file:
        names = [_text(name, "the name of a dataset") for name in file.id]
        items = {name: _plain(_item(file.id, name), name, text_allowed=True) for name in names}
        for name, item in items.items():
            if unknown := item.filters - {*_FILTERS}:
                text = f"is stored with filter {min(unknown)}, which mcage never uses"
                raise NotPlainError(f"{name}: {text}")
            most_bytes -= item.content_bytes
        if most_bytes < 0:
            raise NotPlainError("states more data than a file of this size can hold")
        at = {item.id: name for name, item in items.items()}
        return {
            "attributes": _attributes(file.id, "", _names_of_attributes(file.id)),
            "datasets": {name: _looked_through(item, name, at) for name, item in items.items()},
        }


class _Plain(NamedTuple):
    """A dataset of numbers or of text that lies in the file itself."""

    id: h5py.h5d.DatasetID
    filters: set[int]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    is_text: bool

    @property
    def content_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def description(self) -> dict[str, Any]:
        return {"dtype": "text" if self.is_text else self.dtype.str, "shape": list(self.shape)}

    def content(self) -> Iterator[npt.NDArray[Any]]:
        """All of it, chunk by chunk if it is large."""
        if self.chunks and self.content_bytes > _SLAB_BYTES:
            large = h5py.Dataset(self.id)
            yield from (large[chunk] for chunk in large.iter_chunks())
        else:
            content = np.zeros(self.shape, self.dtype)
            self.id.read(h5py.h5s.ALL, h5py.h5s.ALL, content)
            yield content


def _item(file: h5py.h5f.FileID, path: str) -> Any:
    """Object at a path that consists of hard links, None if there is none."""
    item, names = file, path.split("/") if path else []
    for depth, name in enumerate(names, start=1):
        # Not `name in item`, which opens what a link leads to.
        if not isinstance(item, h5py.h5g.GroupID) or not item.links.exists(name.encode()):
            return None
        if item.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
            link = "/".join(names[:depth])
            raise NotPlainError(f"{link}: is a soft or external link; {_IN_FILE}")
        item = h5py.h5o.open(item, name.encode())
    return item


def _described(item: Any, name: str) -> dict[str, Any] | None:
    return _plain(item, name).description if isinstance(item, h5py.h5d.DatasetID) else None


def _plain(item: Any, name: str, *, text_allowed: bool = False) -> _Plain:
    if not isinstance(item, h5py.h5d.DatasetID):
        raise NotPlainError(f"{name}: is no dataset")
    creation = item.get_create_plist()
    # First of all: asked for its shape, a virtual dataset opens other files.
    if creation.get_layout() == h5py.h5d.VIRTUAL:
        raise NotPlainError(f"{name}: is a virtual dataset; {_IN_FILE}")
    if creation.get_external_count():
        raise NotPlainError(f"{name}: lies in another file; {_IN_FILE}")
    space, kind = item.get_space(), item.get_type()
    if space.get_simple_extent_type() == h5py.h5s.NULL:
        raise NotPlainError(f"{name}: has a null dataspace, so it holds nothing")
    dtype, is_text = kind.dtype, kind.get_class() == h5py.h5t.STRING
    is_number = kind.get_class() in _NUMBERS and dtype.itemsize <= _MOST_NUMBER_BYTES
    if not is_number and not (text_allowed and is_text):
        numbers = "numbers or text" if text_allowed else "numbers"
        raise NotPlainError(f"{name}: has type {dtype}, must be plain {numbers}")
    chunks = creation.get_chunk() if creation.get_layout() == h5py.h5d.CHUNKED else None
    chunk_bytes = dtype.itemsize * math.prod(chunks or (0,))
    if chunk_bytes > MOST_CHUNK_BYTES:
        most = f"at most {MOST_CHUNK_BYTES >> 20} MiB are read"
        raise NotPlainError(f"{name}: has chunks of {chunk_bytes >> 20:,} MiB; {most}")
    filters = {creation.get_filter(place)[0] for place in range(creation.get_nfilters())}
    return _Plain(item, filters, dtype, space.get_simple_extent_dims(), chunks, is_text)


def _looked_through(dataset: _Plain, name: str, at: Mapping[Any, str]) -> dict[str, Any]:
    held = _names_of_attributes(dataset.id)
    description = {
        **dataset.description,
        "attributes": _attributes(dataset.id, name, [k for k in held if k not in NETCDF_LINKS]),
        "dims": _dimensions(dataset.id, name, [k for k in NETCDF_LINKS if k in held], at),
    }
    if not dataset.is_text:
        return description | _extremes(dataset)
    for texts in dataset.content():
        for text in texts.flat:
            _text(text, name)
    return description


def _extremes(dataset: _Plain) -> dict[str, Any]:
    """Smallest and largest number, and which are none, over the whole dataset."""
    low, high, nan, inf = math.inf, -math.inf, False, False
    for numbers in dataset.content():
        if numbers.dtype.kind == "f":
            nan = nan or bool(np.isnan(numbers).any())
            inf = inf or bool(np.isinf(numbers).any())
            if nan or inf:
                numbers = numbers[np.isfinite(numbers)]
        if numbers.size:
            low, high = min(low, numbers.min().item()), max(high, numbers.max().item())
    ends = {"low": None, "high": None} if low > high else {"low": low, "high": high}
    return ends | {"nan": nan, "inf": inf}


def _dimensions(
    dataset: h5py.h5d.DatasetID, name: str, links: Sequence[str], at: Mapping[Any, str]
) -> list[list[str]]:
    """Names of the datasets that the axes refer to; also reads the references back."""
    axes: Any = ()
    for key in links:
        attribute = h5py.h5a.open(dataset, key.encode())
        _require_references(attribute, f"{name}: attribute {key}")
        content = np.zeros(attribute.shape, attribute.dtype)
        attribute.read(content)
        axes = content if key == "DIMENSION_LIST" else axes
    targets = [[h5py.h5r.dereference(reference, dataset) for reference in axis] for axis in axes]
    if any(target not in at for axis in targets for target in axis):
        raise NotPlainError(f"{name}: an axis refers to no dataset")
    return [[at[target] for target in axis] for axis in targets]


def _require_references(attribute: h5py.h5a.AttrID, where: str) -> None:
    kind = attribute.get_type()
    kinds = []
    if kind.get_class() == h5py.h5t.VLEN:
        kinds = [kind.get_super().get_class()]
    elif kind.get_class() == h5py.h5t.COMPOUND:
        kinds = [kind.get_member_class(member) for member in range(kind.get_nmembers())]
    if kinds not in ([h5py.h5t.REFERENCE], [h5py.h5t.REFERENCE, h5py.h5t.INTEGER]):
        raise NotPlainError(f"{where}: is no list of references")
    _require_small(attribute.get_space(), kind, where)


def _names_of_attributes(item: Any) -> list[str]:
    names: list[bytes] = []
    h5py.h5a.iterate(item, names.append)
    return [_text(name, "the name of an attribute") for name in names]


def _attributes(item: Any, where: str, names: Sequence[str]) -> dict[str, Any]:
    held = (name for name in names if item and h5py.h5a.exists(item, name.encode()))
    return {name: _attribute(item, where, name) for name in held}


def _attribute(item: Any, where: str, name: str) -> Any:
    """Content of an attribute: a text, a number, or a list of them."""
    place = f"attribute {name} of {where}" if where else f"attribute {name}"
    attribute = h5py.h5a.open(item, name.encode())
    kind, space = attribute.get_type(), attribute.get_space()
    if kind.get_class() not in (*_NUMBERS, h5py.h5t.STRING):
        raise NotPlainError(f"{place}: must be text or numbers")
    _require_small(space, kind, place)
    content = np.zeros(space.get_simple_extent_dims(), kind.dtype)
    attribute.read(content)
    if content.dtype.kind not in "OS":
        return content.tolist()
    texts = [_text(part, place) for part in content.flat]
    return texts if content.ndim else texts[0]


def _require_small(space: h5py.h5s.SpaceID, kind: h5py.h5t.TypeID, place: str) -> None:
    if space.get_simple_extent_type() == h5py.h5s.NULL:
        raise NotPlainError(f"{place}: has a null dataspace, so it holds nothing")
    content_bytes = space.get_simple_extent_npoints() * kind.get_size()
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
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = math.ceil(used.ru_utime + used.ru_stime) + request["seconds"]
        _lower(resource.RLIMIT_CPU, seconds)
        try:
            _tell(connection, answer=_act(connection, request["action"], request["arguments"]))
        except ConnectionError:
            return
        except Exception as error:  # h5py meets a damaged file with any kind of exception
            _tell(connection, refused=refusal(error))


def refusal(error: Exception) -> str:
    """Why a file is not read, in one short line without the file's name."""
    lines = str(error).splitlines() or [type(error).__name__]
    plain = isinstance(error, NotPlainError)
    text = str(error) if plain else f"not a readable HDF5 file, or damaged: {lines[0]}"
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_LETTERS])


def _act(connection: Connection, action: str, arguments: dict[str, Any]) -> Any:
    if action != "slabs":
        function: Any = describe if action == "describe" else look_through
        return function(**arguments)
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


def _lower(limit: int, value: int) -> None:
    """Set a soft limit, as far as the hard one allows."""
    _, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def main(descriptor: int) -> None:
    """Limit this process, and answer the requests of the connection with this descriptor."""
    with open("/proc/self/statm", encoding="ascii") as status:
        pages = int(status.read().split()[0])
    _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + _MEMORY_BYTES)
    _lower(resource.RLIMIT_CORE, 0)
    serve(Connection(descriptor))


if __name__ == "__main__":
    main(int(sys.argv[1]))
