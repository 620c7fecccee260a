"""What is finished of a campaign: its shards, and a results file with fewer instances.

Each instance counts once. A file whose instances are all in other files, with the same results, is
left out; files that share some of their instances only are refused, because what they sum over
their instances cannot be divided.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TypeGuard

import numpy as np

from mcage.campaign.shard_folder import refuse_other_code
from mcage.campaign.shards import in_words, unfinished
from mcage.campaign.sources.files import ResultsFile, ShardFile, Source
from mcage.errors import UserError
from mcage.results.conform import Arrays
from mcage.results.header import Header
from mcage.results.writer import INSTANCES_PER_CHUNK


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
    results : ResultsFile, optional
        The results file that is there already, which may be replaced by one with more instances.
    shards : tuple of Path
        Shards of the folder of the campaign, also those that are left out.
    """

    header: Header
    sources: dict[range, Source]
    results: ResultsFile | None = None
    shards: tuple[Path, ...] = ()

    @property
    def count(self) -> int:
        """Number of finished instances."""
        return sum(map(len, self.sources))

    def missing(self, instances: int) -> list[range]:
        """Ids of the first so many instances that are not finished, in rising order."""
        return unfinished(instances, self.sources)

    @property
    def sums_of(self) -> tuple[range, ...]:
        """Instances whose sums shards have that were salvaged together; no shard may cross them."""
        return next((s.sums_of for s in self.sources.values() if _salvaged(s)), ())

    def pieces(self) -> Iterator[Arrays]:
        """All arrays in rising order of the instances, and each instance in the sums once.

        Raises
        ------
        DamagedFileError
            A file is not as it was written.
        """
        salvaged = self.sums_of
        for part, source in self.sources.items():
            for piece in source.pieces(part):
                if any(_within(part, ids) for ids in self.sums_of) and not (
                    salvaged and _salvaged(source)
                ):
                    names = [v.name for v in source.header.variables if v.per_instance]
                    piece = {name: piece[name] for name in names}
                elif _salvaged(source):
                    salvaged = ()
                yield piece

    def refuse_divided_sums(self) -> None:
        """Refuse a file without instances that are in the sums of salvaged shards.

        Raises
        ------
        UserError
            There are such instances.
        """
        for ids in self.sums_of:
            missing = [gap for gap in self.missing(ids.stop) if gap.stop > ids.start]
            if missing:
                raise UserError(
                    f"instances {in_words(missing[0])} are in the sums of the salvaged shards, and "
                    "are missing: a file without them cannot be written, compute them first"
                )

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
    results: ResultsFile | None,
    shards: Sequence[ShardFile],
    owner: Header | None,
    accept_other_code: bool,
    elsewhere: Sequence[Source] = (),
) -> Finished | None:
    """Everything that is finished of a campaign.

    Parameters
    ----------
    results : ResultsFile or None
        Its results file, if it is there.
    shards : sequence of ShardFile
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
    _require_whole_sums(kept)
    by_part = {part: source for source in kept for part in source.parts}
    header = reduce(Header.joined_by, (source.header for source in kept))
    return Finished(
        campaign.over(header),
        dict(sorted(by_part.items(), key=lambda item: item[0].start)),
        results,
        tuple(shard.path for shard in shards),
    )


def _salvaged(source: Source) -> TypeGuard[ShardFile]:
    """Whether the sums of a file are those of more instances."""
    return isinstance(source, ShardFile) and bool(source.sums_of)


def _within(part: range, instances: range) -> bool:
    return instances.start <= part.start and part.stop <= instances.stop


def _require_whole_sums(sources: Iterable[Source]) -> None:
    """Refuse sums that cannot be put together.

    Raises
    ------
    UserError
        Salvaged shards are of different files, or another file has instances within and outside of
        their sums.
    """
    sources = list(sources)
    salvaged = [source for source in sources if _salvaged(source)]
    for other in salvaged[1:]:
        if other.sums_of != salvaged[0].sums_of:
            raise UserError(
                f"{salvaged[0].path} and {other.path} are salvaged from different files: remove "
                "those of the one with fewer instances"
            )
    for source in sources if salvaged else ():
        ranges = salvaged[0].sums_of
        inside = [any(_within(part, ids) for ids in ranges) for part in source.parts]
        touched = [
            any(part.start < ids.stop and ids.start < part.stop for ids in ranges)
            for part in source.parts
        ]
        if any(touched) and not all(inside):
            raise UserError(
                f"{source.path} holds instances within and outside of the sums of salvaged shards: "
                "remove it"
            )


def _extent(header: Header) -> tuple[int, bool, str]:
    """Key by which headers of the same campaign are ordered; the largest asks for most."""
    return header.instances, header.stopping is None, header.spec_toml


def _check_owner(source: Source, owner: Header, accept_other_code: bool) -> None:
    difference = owner.difference(source.header)
    if difference:
        raise UserError(
            f"{source.path} {source.what} ({difference}): continue that one with its own command, "
            "choose another --out, or remove it"
        )
    refuse_other_code(source.path, owner, source.header, accept_other_code)


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
    for first in range(instances.start, instances.stop, INSTANCES_PER_CHUNK):
        chunk = range(first, min(first + INSTANCES_PER_CHUNK, instances.stop))
        ours, theirs = source.read(chunk, names), other.read(chunk, names)
        for name in names:
            if not np.array_equal(ours[name], theirs[name], equal_nan=ours[name].dtype.kind == "f"):
                raise UserError(
                    f"{source.path} and {other.path} hold different {name} of the same instances "
                    f"({in_words(chunk)}): remove the wrong one"
                )
