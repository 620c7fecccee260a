"""The bench of a campaign: a folder in which shards are made, until the campaign takes them.

Shards are made by processes that may outlive the campaign, as the tasks of a cluster do. What they
write counts only once it lies in the shard folder, and only the process that has locked that folder
brings it there. A bench that is gone lets nothing of an earlier run in.
"""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcage.campaign.shard_folder import BENCH
from mcage.campaign.shards import NAME, shard_range
from mcage.errors import UserError


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
    # What still computes for this bench finds it no longer, from here on.
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
