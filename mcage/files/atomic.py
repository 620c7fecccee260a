"""Files that are either there and whole, or not there.

A file is written under a temporary name in the folder of its destination. The name is random and
new, so that no other file is opened by mistake. The process that writes the file holds a lock on
it: a temporary file without a lock was left by a process that was killed.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from mcage.errors import UserError
from mcage.files.destination import check_replaceable, occupied, place_of
from mcage.files.kinds import Kind
from mcage.plain_text import shown_path

_TEMPORARY = re.compile(r"\.mcage-(?P<destination>[0-9a-f]{12})-[0-9a-f]{16}\.partial")
_WITHOUT_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)

_in_work: set[Path] = set()
"""Temporary files that this process is writing."""


@contextmanager
def whole_file(path: Path, over: Kind | None = None) -> Iterator[BinaryIO]:
    """Open a new file for writing; it appears as ``path`` when the block succeeds.

    The data reach the disk before the name does, and the name reaches it before this function
    returns. A crash at any moment leaves either no file of this name or the old one. A block that
    closes the stream has brought the data to the disk by itself.

    Parameters
    ----------
    path : Path
        Destination; a symbolic link is followed.
    over : Kind, optional
        Kind of file that may be replaced. By default no file is replaced, even if it appears while
        the new one is written.

    Raises
    ------
    OccupiedError
        The destination holds a file that must not be replaced.
    UserError
        The file cannot be written: no such folder, no permission, disk full; or it is there, and
        its name may not outlast a power failure.
    """
    place = place_of(path)
    try:
        check_replaceable(place, over)
        temporary, stream = _new_temporary(place)
        try:
            with stream:
                yield stream
                if not stream.closed:
                    stream.flush()
                    os.fsync(stream.fileno())
                _give_name(temporary, place, over)
        finally:
            _remove(temporary)
    except OSError as error:
        raise UserError(f"cannot write {shown_path(path)}: {error.strerror or error}") from error
    make_name_last(place)


@contextmanager
def ready_folder(folder: Path) -> Iterator[None]:
    """Make a folder, with those around it, in which the block writes files.

    Those that were not there before and are empty at the end are removed again.

    Raises
    ------
    UserError
        The folder cannot be made.
    """
    with ExitStack() as stack:
        for parent in reversed((folder, *folder.parents)):
            if not os.path.lexists(parent):
                stack.callback(_remove_if_empty, parent)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror
            raise UserError(f"cannot make the folder {shown_path(folder)}: {why}") from error
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def make_ready(path: Path, over: Kind | None = None) -> None:
    """Check, before the work begins, that `whole_file` will be able to write its destination.

    Temporary files that killed processes left for this destination are removed.

    Raises
    ------
    UserError
        For the same reasons as `whole_file`.
    """
    place = place_of(path)
    try:
        check_replaceable(place, over)
        remove_abandoned_beside(place)
        temporary, stream = _new_temporary(place)
        stream.close()
        _remove(temporary)
    except OSError as error:
        raise UserError(f"cannot write {shown_path(path)}: {error.strerror or error}") from error


def is_temporary(path: Path) -> bool:
    """Whether this is the name of a temporary file of `whole_file`."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_abandoned_beside(place: Path) -> None:
    """Remove the temporary files that killed processes have left for this destination."""
    for path in place.parent.iterdir():
        match = _TEMPORARY.fullmatch(path.name)
        if match and match["destination"] == _digest(place):
            remove_abandoned(path)


def remove_abandoned(path: Path) -> None:
    """Remove a temporary file unless a process still writes it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
        finally:
            os.close(descriptor)


def remove_all_in_work() -> None:
    """Remove the temporary files of this process before it ends without leaving its blocks."""
    for path in tuple(_in_work):
        with suppress(OSError):
            path.unlink()


def make_name_last(place: Path) -> None:
    """Bring the name of a new file or folder, which is there whole, to the disk.

    Raises
    ------
    UserError
        The folder around it cannot be flushed.
    """
    try:
        flush_folder(place.parent)
    except OSError as error:
        raise UserError(
            f"cannot make sure that {shown_path(place)} outlasts a power failure: its folder "
            f"cannot be flushed ({error.strerror or error})"
        ) from error


def flush_folder(path: Path) -> None:
    """Make sure that new names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(place: Path) -> str:
    return hashlib.blake2b(os.fsencode(place.name), digest_size=6).hexdigest()


def _new_temporary(place: Path) -> tuple[Path, BinaryIO]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    while True:
        name = f".mcage-{_digest(place)}-{secrets.token_hex(8)}.partial"
        path = place.absolute().with_name(name)
        _in_work.add(path)
        try:
            descriptor = os.open(path, flags, 0o666)
        except BaseException:
            _in_work.discard(path)
            raise
        if _locked(descriptor, path):
            return path, os.fdopen(descriptor, "w+b")
        os.close(descriptor)
        _in_work.discard(path)


def _locked(descriptor: int, path: Path) -> bool:
    """Lock a new temporary file; false if another process has just removed it as abandoned."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: no process removes files there
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _give_name(temporary: Path, place: Path, over: Kind | None) -> None:
    check_replaceable(place, over)
    if over:
        os.replace(temporary, place)
        return
    try:
        os.link(temporary, place)  # unlike a rename, a link replaces no file
    except FileExistsError:
        raise occupied(place) from None
    except OSError as error:
        if error.errno not in _WITHOUT_HARD_LINKS:
            raise
        os.replace(temporary, place)


def _remove(temporary: Path) -> None:
    with suppress(FileNotFoundError):
        temporary.unlink()
    _in_work.discard(temporary)
