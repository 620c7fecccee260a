"""Destinations of files: before the work begins, mcage checks that a file can be written there."""

import os
import stat
from pathlib import Path

from mcage.errors import UserError
from mcage.files.kinds import Kind
from mcage.plain_text import shown_path


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


def check_replaceable(place: Path, over: Kind | None) -> None:
    """Check that writing a file at this place replaces nothing that must be kept.

    Parameters
    ----------
    place : Path
        Path that `place_of` has returned.
    over : Kind, optional
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
