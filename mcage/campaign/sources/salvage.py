"""What is whole of a damaged results file, and its whole chunks as shards.

Instances are in chunks, each with a checksum. Instances whose chunks are whole in every variable
become shards, from which the same command goes on. What is summed over the instances of the file
cannot be divided: such shards keep the sums of all instances, in place of those of each shard.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mcage.campaign.shard_folder import locked, shard_folder
from mcage.campaign.shards import NAME, in_words, shard_range, write_shard
from mcage.errors import UserError
from mcage.files.damage import Padded, look_at_damage
from mcage.results.header import SCHEMA_VERSION, STUDIES, DeclaredHeader, Header, header_class
from mcage.results.variable import Variable, dimension_sizes
from mcage.results.writer import INSTANCES_PER_CHUNK, SUMS_CHECKSUM, checksum_of

DAMAGED = ".damaged"
"""What is added to the name of a file whose whole chunks are in shards."""


@dataclass(frozen=True)
class Damage:
    """What is whole of a damaged results file.

    Parameters
    ----------
    path : Path
        The file.
    header : Header or None
        Its header; None if it is not whole.
    broken : dict of str to set of int
        By variable with the dimension ``instance``, the numbers of the chunks of instances that are
        not whole; all of them where the array cannot be read at all.
    sums_are_whole : bool
        Whether the variables that are summed over instances are whole; true if there are none.
    """

    path: Path
    header: Header | None
    broken: dict[str, set[int]] = field(default_factory=dict)
    sums_are_whole: bool = False

    @property
    def whole(self) -> list[range]:
        """Ids of the instances that can be kept, in ranges of at most a chunk, rising."""
        if self.header is None or not self.sums_are_whole:
            return []
        broken = set().union(*self.broken.values())
        chunks = -(-self.header.holds // INSTANCES_PER_CHUNK)
        return [
            ids
            for number in range(chunks)
            if number not in broken
            for ids in _ranges(_ids(self.header, number))
        ]

    def in_words(self) -> Iterator[str]:
        """Lines that say what is whole and what is not."""
        if self.header is None:
            yield "header: damaged; nothing can be kept without it"
            return
        yield "header: whole"
        for name, chunks in self.broken.items():
            ids = [_ids(self.header, number) for number in sorted(chunks)]
            places = ", ".join(f"{part[0]}-{part[-1]}" for part in ids)
            yield f"{name}: {f'damaged in instances {places}' if chunks else 'whole'}"
        if names := [v.name for v in self.header.variables if not v.per_instance]:
            state = "whole" if self.sums_are_whole else "damaged; nothing can be kept without it"
            yield f"{', '.join(names)}, summed over all instances: {state}"
        kept = sum(map(len, self.whole))
        yield f"{kept} of {self.header.holds} instances are whole"


def damage_of(path: Path) -> Damage:
    """Find out what is whole of a damaged results file.

    Parameters
    ----------
    path : Path
        The file.
    """
    seen = look_at_damage(path)
    header = _header(seen["attributes"]) if seen else None
    if seen is None or header is None:
        return Damage(path, None)
    sizes = dimension_sizes(header.coordinates)
    datasets = seen["datasets"]
    broken = {
        variable.name: _broken_chunks(variable, datasets.get(variable.name), sizes)
        for variable in header.variables
        if variable.per_instance
    }
    sums = [variable for variable in header.variables if not variable.per_instance]
    sums_are_whole = all(
        _is_as_declared(v, datasets.get(v.name), sizes) and not datasets[v.name]["broken"]
        for v in sums
    )
    if sums_are_whole:
        with Padded(path) as stream, h5py.File(stream, "r") as file:
            arrays = {variable.name: file[variable.name][...] for variable in sums}
        sums_are_whole = checksum_of(arrays) == seen["attributes"].get(SUMS_CHECKSUM)
    return Damage(path, header, broken, sums_are_whole)


def salvage(damage: Damage) -> list[range]:
    """Make shards of what is whole, beside the file, and give the file another name.

    Parameters
    ----------
    damage : Damage
        What is whole of it.

    Returns
    -------
    list of range
        Instances of the shards that are there now.

    Raises
    ------
    UserError
        Nothing can be kept; or a shard cannot be written; or there is a file of the other name.
    """
    path, header = damage.path, damage.header
    if header is None or not damage.whole:
        raise UserError(f"{path}: nothing of it can be kept; run the same campaign again")
    aside = path.with_name(path.name + DAMAGED)
    if aside.exists():
        raise UserError(f"{aside} is there already: move it away first")
    folder = shard_folder(path)
    with locked(folder):
        there = [shard_range(shard) for shard in folder.iterdir() if NAME.fullmatch(shard.name)]
        begun = replace(header, absent=())
        with Padded(path) as stream, h5py.File(stream, "r") as file:
            for ids in damage.whole:
                if not any(ids.start < held.stop and held.start < ids.stop for held in there):
                    sums_of = header.present if _has_sums(header) else ()
                    write_shard(folder, begun, ids, _arrays(file, header, ids), sums_of)
        try:
            path.rename(aside)
        except OSError as error:
            raise UserError(f"cannot rename {path}: {error.strerror}") from error
    return damage.whole


def _header(attributes: dict[str, Any]) -> Header | None:
    """The header in the text whose damage HDF5 notices; None if there is none.

    The text that names the study may be damaged: the class is the one that writes the same text.
    """
    if attributes.get("schema_version") != SCHEMA_VERSION:
        return None
    text = str(attributes.get("campaign"))
    kinds: list[type[Header]] = [*map(header_class, STUDIES), DeclaredHeader]
    for kind in kinds:
        try:
            header = kind.from_json(text)
        except ValueError:
            continue
        if header.to_json() == text:
            return header
    return None


def _has_sums(header: Header) -> bool:
    return not all(variable.per_instance for variable in header.variables)


def _is_as_declared(
    variable: Variable, dataset: dict[str, Any] | None, sizes: dict[str, int]
) -> bool:
    return (
        dataset is not None
        and dataset["dtype"] == np.dtype(variable.dtype).str
        and dataset["shape"] == list(variable.shape(sizes))
    )


def _broken_chunks(
    variable: Variable, dataset: dict[str, Any] | None, sizes: dict[str, int]
) -> set[int]:
    """Numbers of the chunks of instances that are not whole in any place of the other axes."""
    axis = variable.instance_axis
    length = min(INSTANCES_PER_CHUNK, sizes["instance"])
    if (
        dataset is None
        or not _is_as_declared(variable, dataset, sizes)
        or dataset["chunks"][axis] != length
    ):
        return set(range(-(-sizes["instance"] // length)))
    return {place[axis] // length for place in dataset["broken"]}


def _ids(header: Header, number: int) -> list[int]:
    """Ids of the instances of a chunk."""
    first = number * INSTANCES_PER_CHUNK
    return list(header.ids[first : first + INSTANCES_PER_CHUNK])


def _ranges(ids: Iterable[int]) -> list[range]:
    """Successive ids as ranges."""
    runs = groupby(enumerate(ids), key=lambda item: item[1] - item[0])
    lists = [[number for _, number in run] for _, run in runs]
    return [range(run[0], run[-1] + 1) for run in lists]


def _arrays(file: h5py.File, header: Header, ids: range) -> dict[str, NDArray[Any]]:
    """All arrays of successive instances, with the sums over all of the file."""
    first = sum(len(range(p.start, min(p.stop, ids.start))) for p in header.present)
    place = slice(first, first + len(ids))
    return {
        v.name: file[v.name][(slice(None),) * v.instance_axis + (place,)]
        if v.per_instance
        else file[v.name][...]
        for v in header.variables
    }


def kept_in_words(kept: Iterable[range]) -> str:
    """Instances of shards as messages name them, successive ones together."""
    ids = (number for part in kept for number in part)
    return ", ".join(in_words(part) for part in _ranges(ids))
