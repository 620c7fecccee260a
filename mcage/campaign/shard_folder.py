"""The shard folder beside an unfinished results file: who may use it, what is in it."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from mcage.campaign.shards import LONGEST_NAME, in_words, read_owner, shard_range
from mcage.errors import UserError
from mcage.files.atomic import flush_folder, is_temporary, remove_abandoned
from mcage.files.checksum import DamagedFileError
from mcage.results.header import Header, code_in_words

LOCK_NAME = "lock"
SUFFIX = ".shards"
BESIDE = f"{SUFFIX}/{'0' * LONGEST_NAME}"
"""Longest name that lies beside a results file while it is made, as `place_of` wants it."""


def shard_folder(out_path: Path) -> Path:
    """Folder of the shards of ``out_path``."""
    return out_path.with_name(out_path.name + SUFFIX)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process alone; create it if need be.

    The lock goes with the process, however that ends.

    Raises
    ------
    UserError
        Another process holds it, or the folder cannot be written.
    """
    try:
        _make(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(folder / LOCK_NAME, flags, 0o644)
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        _lock(folder, descriptor)
        yield
    finally:
        os.close(descriptor)


def _make(folder: Path) -> None:
    """Make the folder, and its name last through a power failure."""
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        flush_folder(folder.parent)


def _lock(folder: Path, descriptor: int) -> None:
    busy = UserError(f"another mcage is working on {folder}: wait for it or stop it")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise busy from None
        raise UserError(
            f"the file system of {folder} offers no locks ({error.strerror}): "
            "write the results to another one"
        ) from error
    # The holder before us may have finished and removed the file that we have just locked.
    try:
        same = os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK_NAME))
    except FileNotFoundError:
        same = False
    if not same:
        raise busy


def finished_shards(
    folder: Path,
    owner: Header | None,
    on_damage: Callable[[Path, DamagedFileError], None],
    accept_other_code: bool = False,
) -> tuple[Header | None, dict[range, Path]]:
    """Verify every shard of a folder that this process has locked.

    Parameters
    ----------
    folder : Path
        Shard folder.
    owner : Header, optional
        The campaign that they must belong to; None takes that of the first shard.
    on_damage : callable
        Called with each damaged shard, which is then left out.
    accept_other_code : bool
        Whether shards may be those of other code.

    Returns
    -------
    header, shards
        The header of the first shard (``owner`` if there is none) with the codes of all shards,
        and the files by instances in rising order.

    Raises
    ------
    UserError
        A file is no shard, is a shard of another campaign or of other code, or overlaps another.
    """
    paths: dict[range, Path] = {}
    for path in folder.iterdir():
        if path.name == LOCK_NAME:
            continue
        if is_temporary(path):
            remove_abandoned(path)
            continue
        instances = shard_range(path)
        if instances in paths:
            raise UserError(f"{paths[instances]} and {path} hold the same instances: remove one")
        paths[instances] = path
    first: Header | None = None
    shards: dict[range, Path] = {}
    for instances, path in sorted(paths.items(), key=lambda item: (item[0].start, item[0].stop)):
        try:
            header = read_owner(path)
        except DamagedFileError as damage:
            on_damage(path, damage)
            continue
        _check_owner(path, header, owner or first, accept_other_code)
        if instances.stop > header.instances:
            raise UserError(
                f"{path} reaches beyond the {header.instances} instances of its campaign"
            )
        first = first.joined_by(header) if first else header
        shards[instances] = path
    for earlier, later in pairwise(shards):
        if later.start < earlier.stop:
            raise UserError(
                f"{shards[earlier]} and {shards[later]} overlap (instances {in_words(earlier)} "
                f"and {in_words(later)}): remove one"
            )
    return first or owner, shards


def holds_shards(folder: Path) -> bool:
    """Whether there is anything in a folder that a later run can go on with."""
    return any(path.name != LOCK_NAME and not is_temporary(path) for path in folder.iterdir())


def refuse(_: Path, damage: DamagedFileError) -> NoReturn:
    """Refuse a damaged shard where it can only be recomputed by another run."""
    raise UserError(f"{damage}: run the same campaign again to recompute it") from damage


def _check_owner(path: Path, header: Header, owner: Header | None, accept_other_code: bool) -> None:
    if owner is None:
        return
    difference = owner.difference(header)
    if difference:
        raise UserError(
            f"{path} is a shard of another campaign ({difference}): continue that one with its own "
            f"command, choose another --out, or remove {path.parent}"
        )
    refuse_other_code(path, owner, header, accept_other_code)


def refuse_other_code(path: Path, owner: Header, header: Header, accept_other_code: bool) -> None:
    """Refuse results of other code, unless the user accepts them.

    Parameters
    ----------
    path : Path
        File that holds them.
    owner, header : Header
        What is computed, and what the file says of itself.
    accept_other_code : bool
        Whether they are accepted.

    Raises
    ------
    UserError
        They are not.
    """
    others = owner.other_codes(header)
    if others and not accept_other_code:
        raise UserError(
            f"{path} was computed by other code ({code_in_words(others)}, not "
            f"{code_in_words(owner.codes)}): use that mcage, choose another --out, or give "
            "--accept-other-code"
        )


def remove_shards(folder: Path, shards: dict[range, Path]) -> None:
    """Remove merged shards, and the folder unless somebody put something else into it."""
    for path in shards.values():
        path.unlink(missing_ok=True)
    (folder / LOCK_NAME).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return
