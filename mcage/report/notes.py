"""The lines that stand under the tables of a results file."""

from pathlib import Path

from mcage.errors import UserError
from mcage.results.header import Header, code_in_words
from mcage.version import running_code

RANGES = 8
"""Ranges of missing instances that are named."""


def note_on_shared_dies(path: Path | None, header: Header) -> str:
    """Warning beside results of slices that are not independent; empty if they are.

    Parameters
    ----------
    path : Path, optional
        Results file, under whose table the warning names the command that helps.
    header : Header
        Its header.

    Raises
    ------
    UserError
        Its spec is not one of a sweep.
    """
    try:
        slices = header.dependent_instances
    except UserError as error:
        raise UserError(f"{path}: {error}" if path else str(error)) from error
    if slices == 1:
        return ""
    warning = f"WARNING: {slices} slices share each die, and dies differ: slices are not "
    if path is None:
        return f"{warning}independent, so that intervals are too narrow"
    help_ = f"Use mcage show {path} --slices-per-chip {slices}"
    return f"{warning}independent, so these intervals are too narrow. {help_}"


def note_on_caveats(header: Header) -> str:
    """Say what limits the results: approximate traces, an unknown energy, equal temperatures."""
    caveats: tuple[str, ...] = getattr(header, "caveats", ())
    return f"CAVEAT: {'; '.join(caveats)}" if caveats else ""


def note_on_absent(header: Header) -> str:
    """Say which instances a partial file lacks; empty if it has all of them."""
    if not header.absent:
        return ""
    ranges = [f"{first}-{last}" if first < last else f"{first}" for first, last in header.absent]
    shown = ", ".join(ranges[:RANGES]) + (", ..." if len(ranges) > RANGES else "")
    missing = header.instances - header.holds
    return f"PARTIAL: {missing} of {header.instances} instances are missing ({shown})"


def note_on_code(header: Header) -> str:
    """Say which codes computed a results file; empty if all of them are the running code.

    Plug-ins are not compared, since they are not imported to show a file.
    """
    here = running_code()
    if all((code.version, code.digest) == (here.version, here.digest) for code in header.codes):
        return ""
    accepted = " (other code was accepted)" if header.accepted_other_code else ""
    return f"computed by {code_in_words(header.codes)}{accepted}; this is {here}"


def note_on_programs(header: Header) -> str:
    """Say that a file does not tell by digest which programs it is of; empty if it does."""
    if header.decided_by is None or header.programs:
        return ""
    return "by digest, its kernels are not known: results of earlier versions hold names alone"


def notes_on(path: Path, header: Header, heeds_dies: bool = False) -> list[str]:
    """All that must be known of a results file, in lines below its tables.

    Parameters and errors as of `caveats_of`.
    """
    code = note_on_code(header)
    return [*caveats_of(header, path, heeds_dies), *([code] if code else [])]


def caveats_of(header: Header, path: Path | None = None, heeds_dies: bool = False) -> list[str]:
    """Caveats that belong wherever results are shown, also where there is no file to name.

    Parameters
    ----------
    header : Header
        Header of a results file.
    path : Path, optional
        The file, where it is to be named.
    heeds_dies : bool
        Whether intervals are those of slices that share dies.

    Raises
    ------
    UserError
        Its spec is not one of a sweep.
    """
    lines = (
        note_on_caveats(header),
        note_on_absent(header),
        header.stopped,
        "" if heeds_dies else note_on_shared_dies(path, header),
    )
    return [line for line in lines if line]
