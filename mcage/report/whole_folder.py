"""A folder of a report that is either there and whole, or not there.

It is made beside its place and gets its name when all of it is on the disk. It lists what it holds
in a file of its own, so that a later report replaces what mcage has written and nothing else.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcage.errors import UserError
from mcage.files.atomic import flush_folder, make_name_last
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.plain_text import shown_path

CONTENTS = "contents.json"
FILETYPE = "mcage report"
MOST_CONTENTS_BYTES = 16 * MIB

_TEMPORARY = re.compile(r"\.mcage-(?P<destination>[0-9a-f]{12})-[0-9a-f]{16}\.report")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder to write in; it appears as ``folder`` when the block succeeds.

    Raises
    ------
    UserError
        The folder cannot be written, or holds what is not of a report.
    """
    try:
        place = Path(os.path.realpath(folder)) if folder.is_symlink() else folder.absolute()
        _check(folder, place)
        _remove_abandoned(place)
        beside, lock = _new_folder(place)
        try:
            yield beside
            _write_contents(beside)
            _check(folder, place)
            _give_name(beside, place)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            os.close(lock)
    except OSError as error:
        raise UserError(f"cannot write {shown_path(folder)}: {error.strerror or error}") from error
    make_name_last(place)


def _check(folder: Path, place: Path) -> None:
    """Refuse a folder that holds anything but a report.

    Raises
    ------
    UserError
        There is such a thing, or no folder to make it in.
    """
    if not place.parent.is_dir():
        raise UserError(
            f"cannot write {shown_path(folder)}: there is no folder {shown_path(place.parent)}"
        )
    if not os.path.lexists(place):
        return
    if place in (Path.cwd(), *Path.cwd().parents):
        raise UserError(
            f"cannot write {shown_path(folder)}: it is the current folder, or above it; give a "
            "folder of its own"
        )
    if not place.is_dir():
        raise UserError(f"cannot write {shown_path(folder)}: a file of this name is there already")
    listed = _contents(place)
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_symlink() or (not path.is_dir() and name not in listed):
            raise UserError(
                f"cannot write {shown_path(folder)}: it holds {name}, which is not of a report; "
                "give another folder"
            )


def _contents(place: Path) -> set[str]:
    """Files that a report says it has written; none where there is no report."""
    try:
        listed = json.loads(read_regular(place / CONTENTS, MOST_CONTENTS_BYTES))
        if listed["filetype"] == FILETYPE:
            return {CONTENTS, *map(str, listed["files"])}
    except (UnreadableFileError, ValueError, TypeError, KeyError, RecursionError):
        pass
    return set()


def _write_contents(folder: Path) -> None:
    """List what the folder holds, and bring all of it to the disk."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    contents = folder / CONTENTS
    contents.write_text(json.dumps({"filetype": FILETYPE, "files": names}, indent=1))
    for path in (*files, contents):
        flush_folder(path)
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        flush_folder(path)


def _give_name(beside: Path, place: Path) -> None:
    """Put the new folder in the place of the old one, which goes only then."""
    if not place.exists():
        os.rename(beside, place)
        return
    old, lock = _new_folder(place)
    try:
        os.rename(place, old)  # over an empty folder
        os.rename(beside, place)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        os.close(lock)


def _new_folder(place: Path) -> tuple[Path, int]:
    """New folder beside a place, and its descriptor, which holds a lock on it."""
    path = place.with_name(f".mcage-{_digest(place)}-{secrets.token_hex(8)}.report")
    path.mkdir()
    descriptor = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return path, descriptor


def _remove_abandoned(place: Path) -> None:
    """Remove the folders that killed processes have left for this place."""
    for path in place.parent.iterdir():
        match = _TEMPORARY.fullmatch(path.name)
        if not match or match["destination"] != _digest(place) or path.is_symlink():
            continue
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(descriptor)


def _digest(place: Path) -> str:
    return hashlib.blake2b(os.fsencode(place.name), digest_size=6).hexdigest()
