"""HDF5 files of one format: whole or absent, with a checksum, and an error if the disk is full.

A file that mcage itself has made is read here, too; `mcage.files.foreign_hdf5` reads all others.
"""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.files import plain_hdf5
from mcage.files.atomic import whole_file
from mcage.files.checksum import append_checksum_to
from mcage.files.kinds import Kind

if TYPE_CHECKING:
    from typing_extensions import Buffer

LIBRARY_VERSIONS = ("v110", "v110")
"""Oldest HDF5 format (2016) whose metadata all carry checksums, the lists of chunks too."""


def write_hdf5(
    path: Path, fill: Callable[[h5py.File], None], over: Kind | None = None, **options: Any
) -> None:
    """Write a new HDF5 file; ``path`` appears, with its checksum, once the file is whole.

    Python raises KeyboardInterrupt in the main thread, also while HDF5 has it write, and HDF5 takes
    that for a write that was made. So another thread writes: it finishes the file, or none appears.

    Parameters
    ----------
    path : Path
        Where to.
    fill : callable
        Writes into the open file.
    over : Kind, optional
        Kind of file that may be replaced; by default none.
    options
        Further arguments of `h5py.File`.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_write, path, fill, over, options).result()


def _write(
    path: Path, fill: Callable[[h5py.File], None], over: Kind | None, options: dict[str, Any]
) -> None:
    with whole_file(path, over) as stream:
        content = _NeverFails(stream.fileno())
        try:
            with h5py.File(content, "w", libver=LIBRARY_VERSIONS, **options) as file:
                fill(file)
        finally:
            if content.failure:
                raise content.failure
        append_checksum_to(stream)


class _NeverFails(io.RawIOBase):
    """File under HDF5 that remembers its first failed write or cut and drops all later ones.

    HDF5 kills the process if either fails while it closes a file. After a failure the file is
    thrown away, so what it holds then does not matter.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.failure: OSError | None = None
        self._descriptor = descriptor
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += os.fstat(self._descriptor).st_size
        self._position = offset
        return offset

    def write(self, data: "Buffer", /) -> int:
        content = memoryview(data).cast("B")
        written = 0
        while written < content.nbytes and not self.failure:
            try:
                written += os.pwrite(self._descriptor, content[written:], self._position + written)
            except OSError as error:
                self.failure = error
        self._position += content.nbytes
        return content.nbytes

    def readinto(self, buffer: "Buffer", /) -> int:
        count = os.preadv(self._descriptor, [buffer], self._position)
        self._position += count
        return count

    def truncate(self, size: int | None = None, /) -> int:
        length = self._position if size is None else size
        try:
            if not self.failure:
                os.ftruncate(self._descriptor, length)
        except OSError as error:
            self.failure = error
        return length


@dataclass(frozen=True)
class PlainFile:
    """An HDF5 file that this process reads, because mcage itself has made it."""

    path: str | os.PathLike[str]

    def describe(
        self, datasets: Sequence[str], attributes: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Types and shapes of datasets, and attributes: as `plain_hdf5.describe`."""
        return plain_hdf5.describe(os.fspath(self.path), datasets, attributes)

    def read(self, dataset: str, dtype: npt.DTypeLike, shape: Sequence[int]) -> npt.NDArray[Any]:
        """Content of a dataset that `describe` has described with this type and shape."""
        pieces = [
            np.empty((0, *shape[1:]), dtype),
            *plain_hdf5.slabs(os.fspath(self.path), dataset),
        ]
        return np.concatenate(pieces)
