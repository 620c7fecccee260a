"""Files that are either there and whole, or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcage.errors import UserError

TEMPORARY_SUFFIX = ".partial"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path in the same folder; on success its file becomes ``path``.

    The data reach the disk before the name does, and the name before the block is left; a
    crash at any moment leaves either no file of this name or the old one.

    Raises
    ------
    UserError
        The file cannot be written: no such folder, no permission, disk full.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
