"""Shards: their files, and the folder in which a campaign keeps them until they are merged."""

import errno
import fcntl
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from mcage.errors import UserError
from mcage.files.atomic import flush_folder, is_temporary
from mcage.files.hdf5 import write_hdf5
from mcage.files.plain_hdf5 import opened
from mcage.plain_text import shown
from mcage.results.header import SCHEMA_VERSION, Header
from mcage.results.reader import VerifiedFile, header_in
from mcage.results.variable import dimension_sizes
from mcage.results.writer import Arrays, conforming

FILETYPE = "mcage-shard"
DIGEST_LENGTH = 16
NAME = re.compile(rf"(?P<digest>[0-9a-f]{{1,{DIGEST_LENGTH}}})-(?P<first>\d+)-(?P<last>\d+)\.h5")

LONGEST_NAME = 64
"""More bytes than a shard's name has, finished or not."""


def unfinished(instances: int, finished: Iterable[range]) -> list[range]:
    """Ranges of 0 ... ``instances`` - 1 that no finished shard holds, in rising order.

    Parameters
    ----------
    instances : int
        Number of instances of the campaign.
    finished : iterable of range
        Ranges that do not overlap, in rising order; ranges behind the last instance do not count.
    """
    within = [done for done in finished if done.start < instances]
    borders = [range(0, 0), *within, range(instances, instances)]
    return [range(a.stop, b.start) for a, b in pairwise(borders) if a.stop < b.start]


def in_words(instances: range) -> str:
    """Range of instance ids as a reader writes it, both ends included."""
    return f"{instances.start}-{instances.stop - 1}" if len(instances) > 1 else f"{instances.start}"


def shard_name(digest: str, instances: range) -> str:
    """File name of a shard; both instance ids are part of it."""
    return f"{digest[:DIGEST_LENGTH]}-{instances.start:09d}-{instances.stop - 1:09d}.h5"


def shard_range(path: Path) -> range:
    """Instances that the name of a shard promises.

    Raises
    ------
    UserError
        The name is not that of a shard.
    """
    match = NAME.fullmatch(path.name)
    if match is None:
        raise UserError(f"{path} is not a shard: move it out of that folder")
    return range(int(match["first"]), int(match["last"]) + 1)


def write_shard(folder: Path, header: Header, instances: range, arrays: Arrays) -> Path:
    """Write the results of ``instances``, all or nothing.

    Parameters
    ----------
    folder : Path
        Shard folder of the campaign.
    header : Header
        The campaign.
    instances : range
        Instance ids.
    arrays : mapping of str to ndarray
        As the header declares them, ``instance`` of that length.

    Raises
    ------
    UserError
        The file cannot be written.
    ValueError
        The arrays are not as declared.
    """
    arrays = conforming(header, arrays, len(instances))
    path = folder / shard_name(header.spec_digest, instances)

    def fill(file: h5py.File) -> None:
        file.attrs["filetype"] = FILETYPE
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["study"] = header.study
        file.attrs["campaign"] = np.bytes_(header.to_json().encode())
        file.attrs["first"], file.attrs["last"] = instances.start, instances.stop - 1
        for name, array in arrays.items():
            # Not compressed: a shard is read once and removed, and packing takes longer than both.
            file.create_dataset(name, data=array)

    write_hdf5(path, fill)
    return path


def read_owner(path: Path) -> Header:
    """Header of the campaign that a shard belongs to, after verifying the whole shard.

    Raises
    ------
    DamagedFileError
        It is not as it was written: truncated, overwritten, or not a shard at all.
    UserError
        It cannot be read, has been renamed, or its schema is not that of this mcage.
    """
    with _verified(path) as (_, header):
        return header


def read_shard(
    path: Path, names: Collection[str] | None = None, instances: range | None = None
) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a shard, as they were given to `write_shard`.

    Parameters
    ----------
    path : Path
        The shard.
    names : collection of str, optional
        Variables to read; all by default.
    instances : range, optional
        Ids of successive instances of the shard; all by default. Of others than all, only variables
        with the dimension ``instance`` can be read.

    Raises
    ------
    DamagedFileError, UserError
        As `read_owner`.
    """
    with _verified(path) as (file, header):
        variables = [v for v in header.variables if names is None or v.name in names]
        if instances is None:
            return {variable.name: file[variable.name][...] for variable in variables}
        first = shard_range(path).start
        part = slice(instances.start - first, instances.stop - first)
        return {v.name: file[v.name][(slice(None),) * v.instance_axis + (part,)] for v in variables}


@contextmanager
def _verified(path: Path) -> Iterator[tuple[h5py.File, Header]]:
    """The open file and the header of a shard that is in every point as mcage writes it."""
    promised = shard_range(path)
    verified = VerifiedFile(path)
    filetype = verified.attribute("filetype", str)
    schema = verified.attribute("schema_version", int)
    if filetype != FILETYPE:
        raise UserError(
            f"{path} holds {shown(filetype)}, not {FILETYPE}: move it out of that folder"
        )
    if schema != SCHEMA_VERSION:
        raise UserError(
            f"{path} has schema {schema}, this mcage writes {SCHEMA_VERSION}: "
            "finish the campaign with the mcage that began it"
        )
    first, last = verified.attribute("first", int), verified.attribute("last", int)
    header = header_in(verified)
    name = shard_name(header.spec_digest, range(first, last + 1))
    if range(first, last + 1) != promised or path.name != name:
        raise UserError(f"{path} holds {shown(name)}: a renamed copy, remove it")
    verified.require_datasets(variable.name for variable in header.variables)
    sizes = {**dimension_sizes(header.coordinates), "instance": len(promised)}
    for variable in header.variables:
        verified.require_array(variable, sizes)
        verified.require_within(variable, header.coordinates)
    with opened(path) as file:
        yield file, header


# The shard folder beside an unfinished results file: who may use it, what is in it.

LOCK_NAME = "lock"
PART_LOCK = re.compile(rf"{LOCK_NAME}-(?P<first>\d+)-(?P<last>\d+)")
"""Name of the lock of a part, by its first and last instance."""

BENCH = re.compile(r"bench-\d+-\d+-[0-9a-f]{8}")
"""Name of a folder in which shards are made, as `mcage.campaign.shards` says."""

STATUS = re.compile(r"status(-\d+-\d+)?\.json(\.new)?")
"""Names of status files, those that are being written among them."""

SUFFIX = ".shards"
BESIDE = f"{SUFFIX}/{'0' * 40}/{'0' * LONGEST_NAME}"
"""Longest name that lies beside a results file while it is made, as `place_of` wants it."""


WAIT = "wait for it or stop it"


def shard_folder(out_path: Path) -> Path:
    """Folder of the shards of ``out_path``."""
    return out_path.with_name(out_path.name + SUFFIX)


class _BusyError(UserError):
    """Error that says that another process holds a lock."""


@contextmanager
def locked(folder: Path, part: range | None = None) -> Iterator[None]:
    """Hold the folder for this process alone, or with parts that share no instance with it.

    The folder is created if need be. The lock goes with the process, however that ends.

    Parameters
    ----------
    folder : Path
        Shard folder.
    part : range, optional
        Instances that this process computes, while others may compute others; by default it has
        the whole folder.

    Raises
    ------
    UserError
        Another process holds it, or the folder cannot be written.
    """
    name = f"{LOCK_NAME}-{part.start:09d}-{part.stop - 1:09d}" if part else LOCK_NAME
    with ExitStack() as held:
        is_new = not os.path.lexists(folder)
        try:
            whole = held.enter_context(_opened(folder, LOCK_NAME))
            how = fcntl.LOCK_SH if part else fcntl.LOCK_EX
            _lock(folder / LOCK_NAME, whole, how, _busy(folder))
            if part:
                busy = _BusyError(
                    f"another mcage computes instances {in_words(part)} in {folder}: {WAIT}"
                )
                _lock(folder / name, held.enter_context(_opened(folder, name)), fcntl.LOCK_EX, busy)
                _refuse_shared_instances(folder, part, name)
        except _BusyError:
            raise
        except BaseException:
            if is_new:
                _remove_new(folder, {LOCK_NAME, name})
            raise
        yield


def _remove_new(folder: Path, names: set[str]) -> None:
    """Remove a folder that this process has made, unless it holds more than these locks."""
    with suppress(OSError):
        locks = [*folder.iterdir()]
        if {path.name for path in locks} <= names:
            for path in locks:
                path.unlink()
            folder.rmdir()


@contextmanager
def read_locked(folder: Path) -> Iterator[None]:
    """Keep a folder that is only read from being changed, where it has a lock that can be held.

    Raises
    ------
    UserError
        Another process is changing it.
    """
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # a copy without a lock: no process works in it
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(folder) from None
        except OSError:  # a file system without locks: no process works in it
            pass
        yield
    finally:
        os.close(descriptor)


def _busy(folder: Path) -> _BusyError:
    return _BusyError(f"another mcage is working on {folder}: {WAIT}")


def _refuse_shared_instances(folder: Path, part: range, name: str) -> None:
    """Refuse a part beside one that is being computed and has some of its instances."""
    for path in folder.iterdir():
        match = PART_LOCK.fullmatch(path.name)
        if not match or path.name == name:
            continue
        other = range(int(match["first"]), int(match["last"]) + 1)
        if other.start < part.stop and part.start < other.stop:
            with _opened(folder, path.name) as descriptor:
                busy = _BusyError(
                    f"another mcage computes instances {in_words(other)} in {folder}, some of "
                    f"{in_words(part)}: {WAIT}"
                )
                _lock(path, descriptor, fcntl.LOCK_SH, busy)


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[int]:
    """Descriptor of a lock in the folder."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        _make(folder)
        descriptor = os.open(folder / name, flags, 0o644)
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        yield descriptor
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


def _lock(path: Path, descriptor: int, how: int, busy: _BusyError) -> None:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise busy from None
        raise UserError(
            f"the file system of {path.parent} offers no locks ({error.strerror}): "
            "write the results to another one"
        ) from error
    # The holder before us may have finished and removed the file that we have just locked.
    try:
        same = os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        same = False
    if not same:
        raise busy


def holds_shards(folder: Path) -> bool:
    """Whether there is anything in a folder that a later run can go on with."""
    return any(not (is_no_shard(path) or is_temporary(path)) for path in folder.iterdir())


def is_no_shard(path: Path) -> bool:
    """Whether mcage keeps this in the folder beside the shards."""
    kinds = (PART_LOCK, BENCH, STATUS)
    return path.name == LOCK_NAME or any(kind.fullmatch(path.name) for kind in kinds)


def remove_shards(folder: Path, shards: Iterable[Path]) -> None:
    """Remove merged shards, and the folder unless somebody put something else into it.

    What cannot be removed stays, with a warning: the results are whole without it.
    """
    try:
        for path in shards:
            path.unlink(missing_ok=True)
        for path in tuple(folder.iterdir()):
            if BENCH.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)
            elif is_no_shard(path):
                path.unlink(missing_ok=True)
    except OSError as error:
        warnings.warn(f"cannot remove {error.filename} ({error.strerror})", stacklevel=2)
    with suppress(OSError):
        folder.rmdir()


# The bench of a campaign: a folder in which shards are made, until the campaign takes them.
#
# Shards are made by processes that may outlive the campaign, as the tasks of a cluster do. What
# they write counts only once it lies in the shard folder, and only the process that has locked
# that folder brings it there. A bench that is gone lets nothing of an earlier run in.


@contextmanager
def bench(folder: Path, instances: range) -> Iterator[Path]:
    """Make a bench for as long as the block lasts; whole shards on it are taken at the end.

    Parameters
    ----------
    folder : Path
        Shard folder that this process has locked.
    instances : range
        Instances that are computed: all, or those of a part.

    Yields
    ------
    Path
        The bench, as other machines find it.

    Raises
    ------
    UserError
        The folder cannot be written.
    """
    path = folder.absolute() / f"{_name(instances)}-{secrets.token_hex(4)}"
    try:
        path.mkdir()
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        yield path
    finally:
        with suppress(OSError):
            clear(folder, path)


def take(folder: Path, path: Path) -> Path:
    """Bring a finished shard from a bench into the shard folder, and return its place there.

    Raises
    ------
    UserError
        It cannot be moved.
    """
    try:
        return path.rename(folder / path.name)
    except OSError as error:
        raise UserError(f"cannot move {path} into {folder}: {error.strerror}") from error


def clear_abandoned(folder: Path, part: range | None = None) -> None:
    """Take what killed runs have left on their benches, and remove these.

    Parameters
    ----------
    folder : Path
        Shard folder that this process has locked.
    part : range, optional
        Instances of the part for which it is locked: other benches are left alone.
    """
    for path in tuple(folder.iterdir()):
        ours = part is None or path.name.startswith(f"{_name(part)}-")
        if BENCH.fullmatch(path.name) and ours:
            with suppress(OSError):
                clear(folder, path)


def clear(folder: Path, path: Path) -> None:
    """Take the whole shards from a bench that hold no instance of the folder, and remove it.

    Raises
    ------
    OSError
        The file system refuses.
    """
    # Workers that still compute for this bench find it no longer, from here on.
    begin, _, _ = path.name.rpartition("-")
    closed = path.rename(path.with_name(f"{begin}-{secrets.token_hex(4)}"))
    taken = [shard_range(shard) for shard in folder.iterdir() if NAME.fullmatch(shard.name)]
    for shard in sorted(closed.iterdir()):
        if NAME.fullmatch(shard.name):
            instances = shard_range(shard)
            if all(t.stop <= instances.start or instances.stop <= t.start for t in taken):
                shard.rename(folder / shard.name)
                taken.append(instances)
    shutil.rmtree(closed, ignore_errors=True)


def _name(instances: range) -> str:
    return f"bench-{instances.start:09d}-{instances.stop - 1:09d}"
