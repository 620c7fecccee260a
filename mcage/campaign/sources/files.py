"""A shard, or a results file, as a source of finished instances."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from mcage.campaign.shard_folder import verified_shards
from mcage.campaign.shards import read_shard
from mcage.errors import UserError
from mcage.files.checksum import DamagedFileError
from mcage.files.kinds import Kind, same_as
from mcage.results.conform import Arrays
from mcage.results.header import SCHEMA_VERSION, Header
from mcage.results.instances import read_instances, read_sums
from mcage.results.reader import read_header
from mcage.results.writer import INSTANCES_PER_CHUNK

OnDamage = Callable[[Path, DamagedFileError], None]


@dataclass(frozen=True)
class Source(ABC):
    """A file with finished instances, which has been verified.

    Parameters
    ----------
    path : Path
        The file.
    header : Header
        Header of its campaign.
    """

    path: Path
    header: Header
    what: ClassVar[str]
    """Words of the message that it belongs to another campaign."""

    @property
    @abstractmethod
    def parts(self) -> tuple[range, ...]:
        """Ids of its instances, in rising order."""

    @abstractmethod
    def read(self, instances: range, names: Collection[str]) -> dict[str, NDArray[Any]]:
        """Variables of instances of one part, each with the dimension ``instance``.

        Raises
        ------
        DamagedFileError
            The file is not as it was written.
        """

    @abstractmethod
    def pieces(self, part: range) -> Iterator[Arrays]:
        """All arrays of a part, in pieces of successive instances.

        What is summed over the instances comes with the first piece of the first part, for all
        parts.

        Raises
        ------
        DamagedFileError
            As `read`.
        """


@dataclass(frozen=True)
class ShardFile(Source):
    """A shard.

    Parameters
    ----------
    instances : range
        Ids of its instances.
    sums_of : tuple of range
        Instances over which its sums are, where these are more than its own.
    """

    instances: range
    sums_of: tuple[range, ...] = ()
    what: ClassVar[str] = "is a shard of another campaign"

    @property
    def parts(self) -> tuple[range, ...]:
        """As `Source.parts`."""
        return (self.instances,)

    def read(self, instances: range, names: Collection[str]) -> dict[str, NDArray[Any]]:
        """As `Source.read`."""
        return read_shard(self.path, names, instances)

    def pieces(self, part: range) -> Iterator[Arrays]:
        """As `Source.pieces`: a single piece."""
        yield read_shard(self.path)


@dataclass(frozen=True)
class ResultsFile(Source):
    """A results file.

    Parameters
    ----------
    itself : Kind
        Kind of this very file, by which it is known again before it is replaced.
    """

    itself: Kind
    what: ClassVar[str] = "already holds another campaign"

    @property
    def parts(self) -> tuple[range, ...]:
        """As `Source.parts`."""
        return self.header.present

    def read(self, instances: range, names: Collection[str]) -> dict[str, NDArray[Any]]:
        """As `Source.read`."""
        return read_instances(self.path, self.header, instances, names)

    def pieces(self, part: range) -> Iterator[Arrays]:
        """As `Source.pieces`: chunk by chunk of the file."""
        names = [variable.name for variable in self.header.variables if variable.per_instance]
        sums = read_sums(self.path, self.header) if part == self.parts[0] else {}
        for first in range(part.start, part.stop, INSTANCES_PER_CHUNK):
            chunk = range(first, min(first + INSTANCES_PER_CHUNK, part.stop))
            yield self.read(chunk, names) | sums
            sums = {}


def shards_in(
    folder: Path, on_damage: OnDamage, only_read: bool = False, part: range | None = None
) -> list[ShardFile]:
    """The shards of a folder, verified.

    Parameters
    ----------
    folder : Path
        Shard folder.
    on_damage : callable
        Called with each damaged shard, which is then left out.
    only_read : bool
        Whether what killed processes have left in the folder stays there.
    part : range, optional
        Ids of the instances that this process computes: only shards with one of them are looked at.

    Raises
    ------
    UserError
        A file is no shard, or reaches beyond its campaign.
    """
    return [ShardFile(*shard) for shard in verified_shards(folder, on_damage, only_read, part)]


def results_at(place: Path) -> ResultsFile | None:
    """The results file at a place, verified; None if nothing is there.

    Raises
    ------
    UserError
        What is there is no results file, or damaged.
    """
    if not os.path.exists(place):
        return None
    try:
        itself = same_as(place)
    except OSError as error:
        raise UserError(f"cannot read {place}: {error.strerror}") from error
    return ResultsFile(place, read_header(place, (SCHEMA_VERSION,)), itself)
