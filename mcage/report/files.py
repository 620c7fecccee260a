"""Commands on results files as functions: compare, merge, verify and others."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mcage.campaign import merge as merging
from mcage.campaign.finished import finished_instances, shards_in
from mcage.campaign.shards import FILETYPE, NAME, in_words, read_owner, unfinished
from mcage.campaign.status import CampaignStatus, statuses
from mcage.errors import UserError
from mcage.files.inputs import (
    DamagedFileError,
    Files,
    PathLike,
    Texts,
    listed,
    named_file,
    named_files,
    verify_checksum,
)
from mcage.report.notes import note_on_absent
from mcage.results.header import code_in_words
from mcage.results.reader import VerifiedFile, read_header

if TYPE_CHECKING:
    from mcage.report.cases import Condition
    from mcage.report.comparison import FileComparison
    from mcage.report.pareto import Front

FEWEST_RESAMPLES, MOST_RESAMPLES = 100, 100_000
"""Resamples between which probabilities are of use, and a minute is enough for many cases."""


def compare(files: Files, allow: Texts = (), where: Texts = ()) -> "list[FileComparison]":
    """Compare results files case by case: one by one on the same dies where seeds match.

    Parameters
    ----------
    files : sequence of paths
        Results files; the first is compared with the others.
    allow : str or sequence of str
        Keys of the specs that are meant to differ, such as ``aging.model``, or sections.
    where : str or sequence of str
        Only cases that fulfil this, such as ``"technique=rrcd"``; all must hold.

    Returns
    -------
    list of FileComparison
        One for each other file.

    Raises
    ------
    UserError
        There is one file only, or specs differ in more than is allowed.
    """
    from mcage.report.comparison import compare_files

    first, *others = named_files(files)
    if not others:
        raise UserError(f"{first} is compared with other results files: name them, too")
    conditions = _conditions(where)
    return [compare_files(first, other, listed(allow), conditions) for other in others]


def pareto(
    files: Files,
    objective: Texts = (),
    resamples: int = 1000,
    allow: Texts = (),
    where: Texts = (),
) -> "Front":
    """Find the cases that no other beats in all objectives, and how sure that is.

    Parameters
    ----------
    files : path or sequence of paths
        Results files of a study on the same dies.
    objective : str or sequence of str
        Measures or variables, ``area`` of sweeps among them, each with ``:min`` or ``:max`` added
        where that is not known; by default, of sweeps, mean life, saving of energy, and area, and
        else all measures of which is known what is better.
    resamples : int
        How often dies are drawn with replacement, 100 ... 100,000.
    allow, where
        As of `compare`.

    Returns
    -------
    Front
        All cases with their objectives and the probability that they are on the front;
        ``as_json`` gives plain values.

    Raises
    ------
    UserError
        There is no such objective, or instances are not the same dies.
    """
    from mcage.report.pareto import front_of_files

    if not FEWEST_RESAMPLES <= resamples <= MOST_RESAMPLES:
        raise UserError(
            f"--resamples {resamples}: must lie between {FEWEST_RESAMPLES} and {MOST_RESAMPLES}"
        )
    chosen, allowed = listed(objective), listed(allow)
    return front_of_files(named_files(files), chosen, _conditions(where), allowed, resamples)


def merge(
    out: PathLike,
    elsewhere: Files = (),
    partial: bool = False,
    accept_other_code: bool = False,
) -> Path:
    """Merge finished instances, computed here or elsewhere, into a results file.

    Parameters
    ----------
    out : str or path
        Results file to be; its shards are in the folder of that name with ``.shards`` added.
    elsewhere : path or sequence of paths
        Shard folders and results files of the same campaign; they are only read.
    partial : bool
        Whether instances may be missing; the file then says which.
    accept_other_code : bool
        Whether different codes may have computed them.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    UserError
        As `mcage.campaign.merge.merge`.
    """
    return merging.merge(named_file(out), named_files(elsewhere), partial, accept_other_code)


def status(paths: Files = "results") -> list[CampaignStatus]:
    """Say how far campaigns are.

    Parameters
    ----------
    paths : path or sequence of paths
        Results files, finished or to be, or folders with such.

    Raises
    ------
    UserError
        There is no campaign.
    """
    return [campaign for path in named_files(paths) for campaign in statuses(path)]


def verify(file: PathLike, say: Callable[[str], None] | None = None) -> list[str]:
    """Check that results are whole, to the last bit.

    Parameters
    ----------
    file : str or path
        Results file, shard, or shard folder.
    say : callable, optional
        Receives each line as soon as it is known.

    Returns
    -------
    list of str
        What is whole, in lines.

    Raises
    ------
    UserError
        Something is damaged, or there is nothing.
    """
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        if say:
            say(line)

    path = named_file(file)
    if os.path.isdir(path):  # unlike Path, it takes any name
        _verify_folder(path, tell)
    else:
        _verify_file(path, tell)
    return lines


def _verify_file(file: Path, tell: Callable[[str], None]) -> None:
    try:
        checksum = verify_checksum(file)
        if VerifiedFile(file).attribute("filetype", str) == FILETYPE:
            header = read_owner(file)
            tell(f"{file} is whole: a shard of {header.study}, checksum {checksum}")
            return
    except DamagedFileError as damage:
        which = "" if NAME.fullmatch(file.name) else "move it away, and "
        raise UserError(f"{damage}: {which}the same command computes it again") from damage
    header = read_header(file)
    lines = (
        f"{file} is whole: {header.holds} instances of {header.study}, seed {header.seed}",
        f"checksum {checksum}",
        f"computed by {code_in_words(header.codes)}",
        note_on_absent(header),
        header.stopped,
    )
    for line in filter(None, lines):
        tell(line)


def _verify_folder(folder: Path, tell: Callable[[str], None]) -> None:
    """Say which instances a shard folder holds; refuse one with damaged shards."""
    damaged: list[str] = []
    shards = shards_in(folder, lambda _, damage: damaged.append(str(damage)), only_read=True)
    finished = finished_instances(None, shards, None, accept_other_code=True)
    if finished:
        instances = finished.header.instances
        whole = unfinished(instances, finished.missing(instances))
        tell(
            f"{folder}: {finished.count} of {instances} instances are in "
            f"{len(finished.sources)} whole shards ({', '.join(map(in_words, whole))})"
        )
    for damage in damaged:
        tell(damage)
    if damaged:
        raise UserError(
            f"{folder}: {len(damaged)} shards are damaged: the same command computes them again"
        )
    if not finished:
        raise UserError(f"{folder} holds no finished shard")


def _conditions(where: Texts) -> "list[Condition]":
    from mcage.report.cases import Condition

    return [Condition.parse(text) for text in listed(where)]
