"""``mcage verify``: whether a results file is whole, and what of it can be kept if it is not."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mcage.files.checksum import DamagedFileError


def verify(
    file: Annotated[Path, typer.Argument(help="Results file, shard, or shard folder.")],
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="Make shards in FILE.shards of the whole chunks of a damaged results file, which "
            "gets the name FILE.damaged.",
        ),
    ] = False,
) -> None:
    """Say whether results are whole, to the last bit; if they are not, what of them is.

    The exit code is 0 if they are whole, or salvaged, and 2 otherwise.
    """
    from mcage.campaign.shards import FILETYPE, NAME, read_owner
    from mcage.errors import UserError
    from mcage.files.checksum import DamagedFileError, verify_checksum
    from mcage.plain_text import visible
    from mcage.results.verified_file import VerifiedFile

    if os.path.isdir(file):  # unlike Path, it takes any name
        if salvage:
            raise UserError(f"{file}: the same command computes damaged shards again by itself")
        _verify_folder(file)
        return
    try:
        checksum = verify_checksum(file)
        if VerifiedFile(file).attribute("filetype", str) == FILETYPE:
            header = read_owner(file)
            typer.echo(visible(f"{file} is whole: a shard of {header.study}, checksum {checksum}"))
            return
    except DamagedFileError as damage:
        if NAME.fullmatch(file.name):
            raise UserError(f"{damage}: the same command computes it again") from damage
        _verify_damaged(file, damage, salvage)
        return
    _say_whole(file, checksum)


def _say_whole(file: Path, checksum: str) -> None:
    from mcage.plain_text import visible
    from mcage.report.notes import note_on_absent
    from mcage.results.header import code_in_words
    from mcage.results.reader import read_header

    header = read_header(file)
    lines = [
        f"{file} is whole: {header.holds} instances of {header.study}, seed {header.seed}",
        f"checksum {checksum}",
        f"computed by {code_in_words(header.codes)}",
        note_on_absent(header),
        header.stopped,
    ]
    for line in filter(None, lines):
        typer.echo(visible(line))


def _verify_folder(folder: Path) -> None:
    """Print which instances a shard folder holds; refuse one with damaged shards."""
    from mcage.campaign.finished import finished_instances
    from mcage.campaign.sources.files import shards_in
    from mcage.campaign.sources.salvage import kept_in_words
    from mcage.errors import UserError
    from mcage.plain_text import visible

    damaged: list[DamagedFileError] = []
    shards = shards_in(folder, lambda _, damage: damaged.append(damage), only_read=True)
    finished = finished_instances(None, shards, None, accept_other_code=True)
    if finished:
        typer.echo(
            visible(
                f"{folder}: {finished.count} of {finished.header.instances} instances are in "
                f"{len(finished.sources)} whole shards ({kept_in_words(finished.sources)})"
            )
        )
    for damage in damaged:
        typer.echo(visible(str(damage)))
    if damaged:
        raise UserError(
            f"{folder}: {len(damaged)} shards are damaged: the same command computes them again"
        )
    if not finished:
        raise UserError(f"{folder} holds no finished shard")


def _verify_damaged(file: Path, error: "DamagedFileError", salvage: bool) -> None:
    """Print what is whole of a damaged results file, and keep it if that is wanted."""
    from mcage.campaign.merge import filling_command
    from mcage.campaign.shard_folder import shard_folder
    from mcage.campaign.sources.salvage import DAMAGED, damage_of, kept_in_words
    from mcage.campaign.sources.salvage import salvage as keep
    from mcage.errors import UserError
    from mcage.plain_text import visible

    damage = damage_of(file)
    for line in damage.in_words():
        typer.echo(visible(line))
    if not salvage:
        words = ": --salvage keeps what is whole" if damage.whole else ""
        raise UserError(f"{error}{words}")
    kept = keep(damage)
    folder = shard_folder(file)
    typer.echo(visible(f"instances {kept_in_words(kept)} are in {folder}; {file} is now"))
    typer.echo(visible(f"{file}{DAMAGED}; this computes the others, or the same command as before"))
    if damage.header and (command := filling_command(damage.header, file, folder)):
        typer.echo(visible(command))
