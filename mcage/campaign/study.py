"""A study: what a campaign computes; and its unit of work, a value that travels."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock

from mcage.campaign.shards import shard_name, write_shard
from mcage.errors import UserError
from mcage.files.atomic import OccupiedError
from mcage.results.header import Header, code_in_words
from mcage.results.writer import Arrays

Compute = Callable[[int, int], Arrays]
"""From the first and past the last instance to the arrays that the header declares."""

_making = Lock()


@dataclass(frozen=True)
class Study:
    """Something that is computed instance by instance.

    Parameters
    ----------
    header : Header
        The spec with its digest, the variables and coordinates, the stopping rule: all that files
        know of it.
    compute : callable
        ``compute(first, last)`` returns the arrays of instances first ... last - 1. These depend
        on the spec and on the instance alone. It is called from several threads.
    maker : str
        ``module:NAME`` of a function, or ``module:CLASS.NAME`` of a method of a class, from the
        header to the same study, by which other processes make it; empty for a study that only
        this process can compute.
    batch : int
        Instances that are computed together: the smallest shard that is worth its while.
    threads : int
        Threads of a process in which `compute` computes a batch each.

    Notes
    -----
    `mcage show` prints the mean of each variable, unless the class of the header names another
    table.
    """

    header: Header
    compute: Compute
    maker: str = ""
    batch: int = 1
    threads: int = 1


@dataclass(frozen=True)
class ShardTask:
    """A shard to be computed: a value that any process can carry out.

    Parameters
    ----------
    header : Header
        The campaign: its spec as TOML text, its engine, and what else its files know.
    maker : str
        As of `Study`.
    folder : Path
        Where the shard is written, the same on all machines.
    instances : range
        Ids of the instances.
    """

    header: Header
    maker: str
    folder: Path
    instances: range

    @property
    def path(self) -> Path:
        """File of the finished shard."""
        return self.folder / shard_name(self.header.spec_digest, self.instances)

    def run(self, study: Study | None = None) -> Path:
        """Compute the shard and write its file, unless it has been written already.

        Parameters
        ----------
        study : Study, optional
            The study, where the process has it; otherwise it is made, once in a process.

        Raises
        ------
        UserError
            The file cannot be written, or this process would compute another study.
        """
        if self.path.exists():  # by another process, which this one was taken to have lost
            return self.path
        study = study or self.study()
        return self.write(study.compute(self.instances.start, self.instances.stop))

    def write(self, arrays: Arrays) -> Path:
        """Write the file of the shard; it stays as it is if it is there already."""
        try:
            return write_shard(self.folder, self.header, self.instances, arrays)
        except OccupiedError:
            return self.path

    def study(self) -> Study:
        """The study as this process makes it.

        Raises
        ------
        UserError
            It is another one: the code or the inputs differ.
        """
        with _making:
            return _made(self.maker, self.header)


@lru_cache(maxsize=1)
def _made(maker: str, header: Header) -> Study:
    if not maker:
        raise UserError(f"study {header.study!r} names no maker: only one process can compute it")
    study: Study = resolve_name(maker)(header)
    if difference := header.difference(study.header):
        raise UserError(f"study {header.study!r} is another one in this process: {difference}")
    if others := header.other_codes(study.header):
        raise UserError(
            f"study {header.study!r} is computed by other code in this process "
            f"({code_in_words(others)}, not {code_in_words(header.codes)})"
        )
    return study
