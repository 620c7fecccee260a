"""The place of a file to be written: whether a file can lie there is asked before the work."""

import os
import stat
from pathlib import Path

from mcage.errors import UserError
from mcage.files.kinds import Kind
from mcage.plain_text import shown_path


class OccupiedError(UserError):
    """Something stands where a file is to be written that must not be replaced."""


def place_of(path: Path, beside: str = "") -> Path:
    """Path at which a file is going to lie; symbolic links are followed.

    Parameters
    ----------
    path : Path
        Destination as the user names it.
    beside : str
        What is added to the name, or to the path, for what lies beside the file until it is
        finished.

    Raises
    ------
    UserError
        The name is not valid UTF-8 or too long, there is no such folder, or what has this name is
        a folder, a pipe, a device or a socket.
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


def check_replaceable(place: Path, over: Kind | None) -> None:
    """Make sure that nothing stands at a place that must not be replaced.

    Parameters
    ----------
    place : Path
        As `place_of` returns it.
    over : Kind, optional
        What may be replaced; by default nothing.

    Raises
    ------
    OccupiedError
        Something else stands there.
    OSError
        What stands there cannot be read.
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
    """Error for a place that had to be free."""
    return OccupiedError(f"cannot write {shown_path(place)}: a file of this name is there already")


def _is_utf8(path: Path) -> bool:
    try:
        return "\0" not in str(path) and bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def _check_name(place: Path, beside: str) -> None:
    """A name is in a folder, and no longer, in bytes, than the file system there allows."""
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
