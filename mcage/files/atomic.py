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
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mcage.errors import UserError
from mcage.files.inputs import CHECKSUM_BYTES, CHECKSUM_MARK, HDF5_MARK, open_regular
from mcage.plain_text import shown_path

# Kinds of files, recognised by their content: a new file replaces only one of its own kind.

HEAD_BYTES = 4096


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    Attributes
    ----------
    name : str
        Words that name this kind in messages.
    fits : callable
        ``fits(head, tail)``: whether a file with these first and last bytes is of this kind.
    """

    name: str
    fits: Callable[[bytes, bytes], bool]

    def is_kind_of(self, path: Path) -> bool:
        """Whether a regular file is of this kind. An empty file is of every kind.

        Raises
        ------
        UnreadableFileError, OSError
            It is no regular file, or cannot be read.
        """
        head, tail = _ends(path)
        return not head or self.fits(head, tail)


def _ends(path: Path) -> tuple[bytes, bytes]:
    with open_regular(path) as stream:
        head = stream.read(HEAD_BYTES) or b""
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - CHECKSUM_BYTES))
        return head, stream.read(CHECKSUM_BYTES) or b""


def same_as(path: Path) -> FileKind:
    """Return the kind of the file that is now at a path: only that content may be replaced.

    Parameters
    ----------
    path : Path
        A file with a checksum, by which it is known again.

    Raises
    ------
    UnreadableFileError, OSError
        It is no regular file, or cannot be read.
    """
    ends = _ends(path)
    return FileKind("the file that was there before", lambda head, tail: (head, tail) == ends)


def _begins(*beginnings: bytes) -> Callable[[bytes, bytes], bool]:
    return lambda head, _: head.startswith(beginnings)


def _is_text(head: bytes) -> bool:
    try:
        getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _is_svg(head: bytes, _: bytes) -> bool:
    return _is_text(head) and b"<svg" in head


def _is_json(head: bytes, _: bytes = b"") -> bool:
    return _is_text(head) and head.lstrip()[:1] in (b"{", b"[")


def _is_csv(head: bytes, _: bytes) -> bool:
    return _is_text(head) and not _is_json(head) and b"," in head.split(b"\n")[0]


def _is_trace(head: bytes, tail: bytes) -> bool:
    return head.startswith(HDF5_MARK) and not tail.startswith(CHECKSUM_MARK)


PNG = FileKind("a PNG figure", _begins(b"\x89PNG\r\n\x1a\n"))
PDF = FileKind("a PDF figure", _begins(b"%PDF-"))
SVG = FileKind("an SVG figure", _is_svg)
JSON = FileKind("a JSON file", _is_json)
CSV = FileKind("a CSV table", _is_csv)
TRACE = FileKind("a trace", _is_trace)

FIGURES = {".png": PNG, ".pdf": PDF, ".svg": SVG}
TABLES = {".json": JSON, ".csv": CSV}


def kind_of_name(path: Path, suffixes: Sequence[str]) -> FileKind:
    """Kind of a file that is to be written, by the end of its name.

    Parameters
    ----------
    path : Path
        Path of the file.
    suffixes : sequence of str
        Ends of a name that are allowed, each a key of `FIGURES` or `TABLES`.

    Raises
    ------
    UserError
        The name ends in none of these.
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        *others, last = suffixes
        known = f"{', '.join(others)} or {last}" if others else last
        raise UserError(f"cannot write {shown_path(path)}: its name must end in {known}")
    return (FIGURES | TABLES)[suffix]


# Destinations of files: before the work begins, mcage checks that a file can be written there.


class OccupiedError(UserError):
    """The destination of a file holds another one, which must not be replaced."""


def place_of(path: Path, beside: str = "") -> Path:
    """Path at which a file will be written; symbolic links are followed.

    Parameters
    ----------
    path : Path
        Destination as the user names it.
    beside : str
        The longest text that is added to this path, for the temporary files and folders beside the
        file.

    Raises
    ------
    UserError
        The name is not valid UTF-8 or is too long, its folder does not exist, or the name belongs
        to a folder, a pipe, a device or a socket.
    """
    if not _is_utf8(path):
        raise UserError(f"cannot write {shown_path(path)}: its name is not valid UTF-8")
    try:
        _check_name(path, beside)
        place = path
        if path.is_symlink():
            place = Path(os.path.realpath(path))
            _check_name(place, beside)
        if place.is_dir():
            raise UserError(f"{shown_path(path)} is a folder: give the name of a file in it")
        mode = place.lstat().st_mode if os.path.lexists(place) else stat.S_IFREG
    except OSError as error:
        raise UserError(f"cannot write {shown_path(path)}: {error.strerror or error}") from error
    if not stat.S_ISREG(mode):
        raise UserError(f"cannot write {shown_path(path)}: it is not a regular file")
    return place


def check_replaceable(place: Path, over: FileKind | None) -> None:
    """Check that writing a file at this place replaces nothing that must be kept.

    Parameters
    ----------
    place : Path
        Path that `place_of` has returned.
    over : FileKind, optional
        Kind of file that may be replaced; by default none.

    Raises
    ------
    OccupiedError
        The place holds something else.
    OSError
        The file at this place cannot be read.
    """
    if not os.path.lexists(place):
        return
    if over is None:
        raise occupied(place)
    if not place.is_file() or not over.is_kind_of(place):
        raise OccupiedError(
            f"cannot write {shown_path(place)}: what is there is not {over.name}, and is not "
            "replaced"
        )


def occupied(place: Path) -> OccupiedError:
    """Error that says that a place is not free."""
    return OccupiedError(f"cannot write {shown_path(place)}: a file of this name is there already")


def _is_utf8(path: Path) -> bool:
    try:
        return "\0" not in str(path) and bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def _check_name(place: Path, beside: str) -> None:
    """Check that the folder of a file exists, and that its file system allows names so long."""
    if not place.parent.is_dir():
        raise UserError(
            f"cannot write {shown_path(place)}: there is no folder {shown_path(place.parent)}"
        )
    first, *_ = beside.split("/")
    longest = os.pathconf(place.parent, "PC_NAME_MAX") - len(first)
    if len(os.fsencode(place.name)) > longest:
        raise UserError(
            f"cannot write {shown_path(place)}: its name has {len(os.fsencode(place.name))} bytes; "
            f"at most {longest} are possible there"
        )
    longest = os.pathconf(place.parent, "PC_PATH_MAX") - 1 - len(beside)  # a zero byte ends it
    if len(os.fsencode(place)) > longest:
        raise UserError(
            f"cannot write {shown_path(place)}: its path has {len(os.fsencode(place))} bytes; "
            f"at most {longest} are possible"
        )


_TEMPORARY = re.compile(r"\.mcage-(?P<destination>[0-9a-f]{12})-[0-9a-f]{16}\.partial")
_WITHOUT_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)

_in_work: set[Path] = set()
"""Temporary files that this process is writing."""


@contextmanager
def whole_file(path: Path, over: FileKind | None = None) -> Iterator[BinaryIO]:
    """Open a new file for writing; it appears as ``path`` when the block succeeds.

    The data reach the disk before the name does, and the name reaches it before this function
    returns. A crash at any moment leaves either no file of this name or the old one. A block that
    closes the stream has brought the data to the disk by itself.

    Parameters
    ----------
    path : Path
        Destination; a symbolic link is followed.
    over : FileKind, optional
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


def make_ready(path: Path, over: FileKind | None = None) -> None:
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


def _give_name(temporary: Path, place: Path, over: FileKind | None) -> None:
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
