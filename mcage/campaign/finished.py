"""Finished parts of a campaign: its shards, and a results file with fewer instances.

Each instance counts once. A file whose instances are all in other files, with the same results, is
left out; files that share some of their instances only are refused, because what they sum over
their instances cannot be divided.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.shards import (
    NAME,
    in_words,
    is_no_shard,
    read_owner,
    read_shard,
    shard_range,
    unfinished,
)
from mcage.errors import UserError
from mcage.files.atomic import FileKind, is_temporary, remove_abandoned, same_as
from mcage.files.inputs import HDF5_MARK, DamagedFileError, UnreadableFileError, open_regular
from mcage.results.header import Header, code_in_words
from mcage.results.reader import read_header, read_instances, read_sums
from mcage.results.writer import INSTANCES_PER_CHUNK, Arrays

# A shard, or a results file, as a source of finished instances.


@dataclass(frozen=True)
class Source:
    """A file with finished instances, which has been verified.

    Parameters
    ----------
    path : Path
        The file.
    header : Header
        Header of its campaign.
    parts : tuple of range
        Ids of its instances, in rising order.
    itself : FileKind, optional
        Kind of this very file, by which a results file is known again before it is replaced; None
        of a shard.
    """

    path: Path
    header: Header
    parts: tuple[range, ...]
    itself: FileKind | None = None

    def read(self, instances: range, names: Collection[str]) -> dict[str, NDArray[Any]]:
        """Variables of instances of one part, each with the dimension ``instance``.

        Raises
        ------
        DamagedFileError
            The file is not as it was written.
        """
        if self.itself:
            return read_instances(self.path, self.header, instances, names)
        return read_shard(self.path, names, instances)

    def pieces(self, part: range) -> Iterator[Arrays]:
        """All arrays of a part: of a shard in a single piece, of a results file chunk by chunk.

        What is summed over the instances comes with the first piece of the first part, for all
        parts.

        Raises
        ------
        DamagedFileError
            As `read`.
        """
        if not self.itself:
            yield read_shard(self.path)
            return
        names = [variable.name for variable in self.header.variables if variable.per_instance]
        sums = read_sums(self.path, self.header) if part == self.parts[0] else {}
        for chunk in _chunks(part):
            yield self.read(chunk, names) | sums
            sums = {}


def _chunks(part: range) -> Iterator[range]:
    """Successive instances of a part, as many as a chunk of a results file holds."""
    for first in range(part.start, part.stop, INSTANCES_PER_CHUNK):
        yield range(first, min(first + INSTANCES_PER_CHUNK, part.stop))


def refuse_damaged(path: Path, damage: DamagedFileError) -> NoReturn:
    """Refuse a damaged shard where it can only be recomputed by another run."""
    raise UserError(f"{damage}: run the same campaign again to recompute it") from damage


def shards_in(
    folder: Path,
    on_damage: Callable[[Path, DamagedFileError], None] = refuse_damaged,
    only_read: bool = False,
    part: range | None = None,
) -> list[Source]:
    """The shards of a folder that this process has locked, or only reads; each is verified.

    Parameters
    ----------
    folder : Path
        Shard folder.
    on_damage : callable
        Called with each damaged shard, which is then left out; by default that is an error.
    only_read : bool
        Whether what killed processes have left there stays.
    part : range, optional
        Only shards with one of these instances are looked at: those for which it is locked.

    Raises
    ------
    UserError
        A file is no shard, or reaches beyond its campaign.
    """
    paths: dict[range, Path] = {}
    for path in folder.iterdir():
        if is_no_shard(path):
            continue
        if is_temporary(path):
            if not only_read:
                remove_abandoned(path)
            continue
        instances = shard_range(path)
        if part and (instances.stop <= part.start or part.stop <= instances.start):
            continue
        if instances in paths:
            raise UserError(f"{paths[instances]} and {path} hold the same instances: remove one")
        paths[instances] = path
    shards: list[Source] = []
    headers: dict[Header, Header] = {}  # of thousands of shards, a header is kept once
    for instances, path in sorted(paths.items(), key=lambda item: (item[0].start, item[0].stop)):
        try:
            header = read_owner(path)
        except DamagedFileError as damage:
            on_damage(path, damage)
            continue
        if instances.stop > header.instances:
            raise UserError(
                f"{path} reaches beyond the {header.instances} instances of its campaign"
            )
        shards.append(Source(path, headers.setdefault(header, header), (instances,)))
    return shards


def results_at(place: Path) -> Source | None:
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
    try:
        header = read_header(place)
    except UserError as error:
        if not isinstance(error.__cause__, DamagedFileError):
            raise
        raise UserError(f"{error}; move it away to compute it again") from error
    return Source(place, header, header.present, itself)


# The spec that files of a campaign have recorded, from which it can be continued.


def recorded_campaign(path: Path) -> Header | None:
    """Header of the campaign of a results file or a shard folder; None for any other file.

    Parameters
    ----------
    path : Path
        A file, or a folder. Of shards that ask for different numbers of instances, the last whole
        one tells.

    Raises
    ------
    UserError
        The results file is damaged, or the folder holds no shard that is whole.
    """
    if os.path.isdir(path):
        return campaign_of_folder(path)
    if not os.path.isfile(path):
        return None
    try:
        with open_regular(path) as stream:
            is_hdf5 = stream.read(len(HDF5_MARK)) == HDF5_MARK
    except (OSError, UnreadableFileError):
        return None
    return read_header(path) if is_hdf5 else None


def campaign_of_folder(folder: Path) -> Header:
    """Header of the campaign of a shard folder, as the last whole shard tells it.

    Raises
    ------
    UserError
        The folder holds no shard that is whole.
    """
    shards = [path for path in folder.iterdir() if NAME.fullmatch(path.name)]
    for path in sorted(shards, key=lambda shard: shard_range(shard).stop, reverse=True):
        try:
            return read_owner(path)
        except DamagedFileError:
            continue
    raise UserError(f"{folder}: cannot read the spec (a folder without a finished shard)")


@dataclass(frozen=True)
class Finished:
    """Finished instances of a campaign, each of them once.

    Parameters
    ----------
    header : Header
        The campaign as it began, with the codes that have computed these instances; device and
        reason are those of the first of them.
    sources : dict of range to Source
        Files by instances, in rising order.
    results : Source, optional
        The results file that is there already, which may be replaced by one with more instances.
    shards : tuple of Path
        Shards of the folder of the campaign, also those that are left out.
    """

    header: Header
    sources: dict[range, Source]
    results: Source | None = None
    shards: tuple[Path, ...] = ()

    @property
    def count(self) -> int:
        """Number of finished instances."""
        return sum(map(len, self.sources))

    def missing(self, instances: int) -> list[range]:
        """Ids of the first so many instances that are not finished, in rising order."""
        return unfinished(instances, self.sources)

    def pieces(self) -> Iterator[Arrays]:
        """All arrays in rising order of the instances, and each instance in the sums once.

        Raises
        ------
        UserError
            A file is not as it was written.
        """
        for part, source in self.sources.items():
            try:
                yield from source.pieces(part)
            except DamagedFileError as damage:
                refuse_damaged(source.path, damage)

    def refuse_more_than(self, instances: int) -> None:
        """Refuse instances beyond the last one of a campaign of so many.

        Raises
        ------
        UserError
            There are such instances: the results file would hold fewer than there are.
        """
        for part, source in self.sources.items():
            if part.stop > instances:
                raise UserError(
                    f"{source.path} holds instances up to {part.stop - 1}, and this campaign ends "
                    f"with {instances} of them: ask for {part.stop} or more without a stopping "
                    "rule, or choose another --out"
                )


def finished_instances(
    results: Source | None,
    shards: Sequence[Source],
    owner: Header | None,
    accept_other_code: bool,
    elsewhere: Sequence[Source] = (),
) -> Finished | None:
    """Everything that is finished of a campaign.

    Parameters
    ----------
    results : Source or None
        Its results file, if it is there.
    shards : sequence of Source
        The shards of its folder.
    owner : Header, optional
        The campaign. None takes, of the campaigns of the files, the one that asks for most.
    accept_other_code : bool
        Whether files may be those of other code.
    elsewhere : sequence of Source
        Files in other places.

    Returns
    -------
    Finished or None
        None if nothing is finished and no owner is given. It is the same in whatever order files
        are given.

    Raises
    ------
    UserError
        A file belongs to another campaign or other code, overlaps another, or holds other results
        of the same instances.
    """
    sources = [*([results] if results else []), *shards, *elsewhere]
    if not sources:
        return Finished(owner, {}) if owner else None
    for source in sources:
        _check_owner(source, owner or sources[0].header, accept_other_code)
    keys = {source.header: source.header.to_json() for source in sources}
    sources.sort(
        key=lambda s: (s.parts[0].start, -s.parts[0].stop, s is not results, keys[s.header])
    )
    campaign = owner or replace(max(keys, key=_extent), absent=())
    kept = _each_once(sources)
    by_part = {part: source for source in kept for part in source.parts}
    header = reduce(Header.joined_by, (source.header for source in kept))
    return Finished(
        campaign.over(header),
        dict(sorted(by_part.items(), key=lambda item: item[0].start)),
        results,
        tuple(shard.path for shard in shards),
    )


def _extent(header: Header) -> tuple[int, bool, str]:
    """Key by which headers of the same campaign are ordered; the largest asks for most."""
    return header.instances, header.stopping is None, header.spec_toml


def _check_owner(source: Source, owner: Header, accept_other_code: bool) -> None:
    difference = owner.difference(source.header)
    if difference:
        what = "already holds" if source.itself else "is a shard of"
        raise UserError(
            f"{source.path} {what} another campaign ({difference}): continue that one with its own "
            "command, choose another --out, or delete it"
        )
    others = owner.other_codes(source.header)
    if others and not accept_other_code:
        raise UserError(
            f"{source.path} was computed by other code ({code_in_words(others)}, not "
            f"{code_in_words(owner.codes)}): use that mcage, choose another --out, or give "
            "--accept-other-code"
        )


# ---- each instance once ----------------------------------------------------------------------


def _each_once(sources: Iterable[Source]) -> list[Source]:
    """Sources without those whose instances are all in others.

    Parameters
    ----------
    sources : iterable of Source
        By rising first instance; of those with the same, the longest first.

    Raises
    ------
    UserError
        Two overlap, or hold different results of the same instances.
    """
    kept: list[Source] = []
    within: dict[Path, list[range]] = {}
    parts = [(part, source) for source in sources for part in source.parts]
    parts.sort(key=lambda item: (item[0].start, -item[0].stop))
    last: tuple[range, Source] | None = None
    for part, source in parts:
        if last and part.start < last[0].stop:
            if part.stop > last[0].stop:
                _refuse_overlap(last[1], last[0], source, part)
            _require_same(last[1], source, part)
            within.setdefault(source.path, []).append(part)
            continue
        last = part, source
        if source not in kept:
            kept.append(source)
    for source in kept:
        for part in within.get(source.path, ()):
            raise UserError(
                f"{source.path} holds instances {in_words(part)}, which another file holds as "
                "well, and others that only this file holds: remove one"
            )
    return kept


def _refuse_overlap(earlier: Source, before: range, later: Source, after: range) -> None:
    raise UserError(
        f"{earlier.path} and {later.path} overlap (instances {in_words(before)} "
        f"and {in_words(after)}): remove one"
    )


def _require_same(source: Source, other: Source, instances: range) -> None:
    """Refuse two files that do not agree about instances that both hold."""
    names = [v.name for v in source.header.variables if v.per_instance]
    for chunk in _chunks(instances):
        ours, theirs = source.read(chunk, names), other.read(chunk, names)
        for name in names:
            if not np.array_equal(ours[name], theirs[name], equal_nan=ours[name].dtype.kind == "f"):
                raise UserError(
                    f"{source.path} and {other.path} hold different {name} of the same instances "
                    f"({in_words(chunk)}): remove the wrong one"
                )
