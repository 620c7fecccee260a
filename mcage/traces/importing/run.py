"""An import: files of other tools become native traces in a folder, all of them or none."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcage.errors import UserError
from mcage.files.atomic import TRACE, make_ready, place_of, ready_folder, whole_file
from mcage.plain_text import shown, shown_path
from mcage.traces.importing.building import ImportedSlice, build_traces
from mcage.traces.importing.formats.catalogue import FORMATS
from mcage.traces.importing.formats.format import Format
from mcage.traces.importing.limits import Enough, Options
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.sources import Source, Told
from mcage.traces.storage import trace_bytes

_LONGEST_STEM = 120
_EFFORT = 4


@dataclass(frozen=True)
class Import:
    """What an import has read and written.

    Attributes
    ----------
    format : Format
        The format of the files.
    recording : Recording
        What they hold.
    slices : list of (str, ImportedSlice)
        File name of each trace, and the trace.
    """

    format: Format
    files: tuple[str, ...]
    recording: Recording
    slices: tuple[tuple[str, ImportedSlice], ...]

    def facts(self) -> dict[str, Any]:
        """All that is known of it, as ``--json`` prints it."""
        return {
            "format": self.format.name,
            "files": list(self.files),
            "lanes": self.recording.lanes,
            **facts_of(self.recording),
            "traces": [
                {
                    "file": file,
                    "slice": made.name,
                    "windows": made.trace.windows,
                    "writes": made.trace.writes,
                    "reads": made.trace.reads,
                    "cycles": made.trace.cycles,
                    "as_recorded": made.placed.as_recorded,
                }
                for file, made in self.slices
            ],
            "windows": [
                {"registers": window.size} | window.facts | window.counted.facts()
                for window in self.recording.windows
            ],
        }


def facts_of(recording: Recording) -> dict[str, Any]:
    """What was in the files, what was inferred, what was left out; traces keep it as well."""
    gaps = recording.gaps
    return {
        "approximate": recording.approximate,
        "in_file": recording.in_file,
        "inferred": recording.inferred,
        "tools": recording.tools,
        "skipped": {
            reason: {"records": count, "first": f"{file}: line {line}" if file else ""}
            for reason, (count, file, line) in recording.skipped.items()
        },
        "gaps": {
            "reads": gaps.reads,
            "before_any_write": gaps.before_any_write,
            "other_contents": gaps.other_contents,
            "share": gaps.share,
        },
    }


def import_traces(
    paths: Sequence[Path],
    format_name: str,
    folder: Path,
    options: Options | None = None,
    told: Told | None = None,
) -> Import:
    """Read files of another tool and write a trace for each slice.

    Parameters
    ----------
    paths : sequence of Path
        Files of one run: plain, ``.gz`` or ``.zst``.
    format_name : str
        Name of their format, or ``auto``.
    folder : Path
        Where the traces go; it is made if it is not there.
    options : Options, optional
        What the files do not say, and which part of them is wanted.
    told : callable, optional
        Is told how far reading has come.

    Raises
    ------
    UserError
        A file cannot be read or recognised, holds no register write, or does not fit; the folder
        cannot be written. Nothing has been written then.
    """
    options = options or Options()
    sources = [Source(path, told) for path in paths]
    chosen = _format(sources, format_name)
    recording = Recording(options.limits)
    try:
        chosen.read(sources, recording, options)
    except Enough:
        recording.inferred["end"] = "of the part that was asked for; the rest was not read"
    for source in sources:
        if source.cut_line:
            recording.skip("a last line that is cut off", source, source.cut_line)
    if not any(window.counted.writes for window in recording.windows):
        _refuse_empty(sources, chosen, recording)
    stem = sources[0].stem[:_LONGEST_STEM]
    kept = {"imported_from": chosen.title, "files": [path.name for path in paths]}
    made = list(build_traces(recording, stem, kept | facts_of(recording)))
    if not made:
        asked = ", ".join(sorted(options.limits.slices))
        raise UserError(f"{shown_path(paths[0])}: no window lies in {shown(asked)}")
    files = _write(made, stem, folder)
    names = tuple(path.name for path in paths)
    return Import(chosen, names, recording, tuple(zip(files, made, strict=True)))


def _format(sources: Sequence[Source], name: str) -> Format:
    names = ", ".join(known.name for known in FORMATS)
    if name != "auto":
        for known in FORMATS:
            if known.name == name:
                return known
        raise UserError(f"no format {shown(name)!r}; there are auto, {names}")
    chosen: Format | None = None
    for source in sources:
        fitting = next((known for known in FORMATS if known.recognises(source)), None)
        if fitting is None:
            source.refuse(f"its format is not recognised; give it with --format: {names}")
        if chosen not in (None, fitting):
            assert chosen
            source.refuse(f"its format is {fitting.name}, that of the others is {chosen.name}")
        chosen = fitting
    if chosen is None:
        raise UserError("no file to import")
    return chosen


def _refuse_empty(sources: Sequence[Source], chosen: Format, recording: Recording) -> None:
    skipped = "; ".join(
        f"{count:,} x {reason}" + (f" (first in line {line} of {file})" if file else "")
        for reason, (count, file, line) in recording.skipped.items()
    )
    windows = f"{len(recording.windows):,} windows, " if recording.windows else ""
    sources[0].refuse(
        f"{windows}no register write that can be imported as {chosen.name}"
        + (f"; left out: {skipped}" if skipped else "")
    )


def _write(made: Sequence[ImportedSlice], stem: str, folder: Path) -> list[str]:
    """Write the traces; all of them get their names when all are on the disk, or none does."""
    contents = {
        f"{stem}.{of_slice.name}.h5": trace_bytes(of_slice.trace, _EFFORT) for of_slice in made
    }
    with ready_folder(folder):
        for file in contents:
            make_ready(folder / file, TRACE)
        with ExitStack() as files:
            for file, content in contents.items():
                stream = files.enter_context(whole_file(folder / file, TRACE))
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
                stream.close()  # there may be more slices than files that may be open
            with _as_before_on_failure([place_of(folder / file) for file in contents]):
                files.close()
    return list(contents)


@contextmanager
def _as_before_on_failure(paths: Sequence[Path]) -> Iterator[None]:
    """Put back the files that the block replaces, as far as the file system has hard links."""
    new = [path for path in paths if not os.path.lexists(path)]
    before: dict[Path, Path] = {}
    try:
        for path in set(paths).difference(new):
            aside = path.with_name(f".mcage-{secrets.token_hex(8)}.before")
            with suppress(OSError):
                os.link(path, aside)
                before[path] = aside
        yield
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        for path, aside in before.items():
            os.replace(aside, path)
        raise
    finally:
        for aside in before.values():
            aside.unlink(missing_ok=True)
