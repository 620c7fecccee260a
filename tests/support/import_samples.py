"""Samples of what other tools print, and imports of them."""

import json
from hashlib import blake2b
from pathlib import Path

import numpy as np

from mcage.traces import WRITE
from mcage.tracing.importing.recording import INEXACT, lanes_of
from mcage.tracing.importing.run import import_traces
from mcage.tracing.importing.sources import ImportOptions, Source

FOLDER = Path(__file__).parents[1] / "samples"
ORIGINS = ("alloc_work_group", "alloc_wavefront")
NAMES = sorted(
    str(path.relative_to(FOLDER)).removesuffix(".expected.json")
    for path in FOLDER.glob("*/*.expected.json")
)


def expected(name):
    """What a correct import finds in a sample."""
    return json.loads((FOLDER / f"{name}.expected.json").read_text(encoding="utf-8"))


def files_of(name):
    """Files of a sample."""
    return sorted(
        path
        for path in (FOLDER / name).parent.iterdir()
        if path.name.startswith(f"{Path(name).name}.") and path.suffix != ".json"
    )


def text_of(name):
    """Text of a sample of one file."""
    (path,) = files_of(name)
    return b"".join(block for _, block in Source(path).blocks(unfinished=True))


def assert_same_events(trace, wanted):
    """Check that two traces say the same; rows of contents and kernels may be numbered anew."""
    for column in ("cycle", "kind", "slot", "reg", "exec_mask", *ORIGINS):
        np.testing.assert_array_equal(getattr(trace, column), getattr(wanted, column), column)
    contents = [each.values[each.value[each.value >= 0]] for each in (trace, wanted)]
    np.testing.assert_array_equal(*contents)
    assert (trace.cycles, trace.geometry) == (wanted.cycles, wanted.geometry)


def imported(paths, folder, format_name="auto", **options):
    """Import files into a folder."""
    return import_traces(paths, format_name, folder, ImportOptions(**options))


def counted(recording):
    """Numbers of each window, and digests of its writes.

    Those are BLAKE2b of 12 bytes over the writes in their order: `digest` of register (a byte, two
    from 256 on), lane mask (eight) and the values of its lanes, the lowest first;
    `digest_of_exact` without writes whose bits are not all known; `state_digest` of register and
    contents after the write; `registers_written` of the registers.
    """
    names = ("digest", "digest_of_exact", "state_digest", "registers_written")
    digests = [{name: blake2b(digest_size=12) for name in names} for _ in recording.windows]
    columns, values = recording.columns(), recording.values()
    for row in np.flatnonzero(np.isin(columns["kind"], (WRITE, INEXACT))):
        window = recording.windows[columns["window"][row]]
        register, mask = int(columns["reg"][row]), int(columns["exec_mask"][row])
        content = values[columns["value"][row]].tobytes()
        number = register.to_bytes(1 if register < 256 else 2, "little")
        written = number + mask.to_bytes(8, "little") + lanes_of(content, mask)
        parts = {"digest": written, "registers_written": number}
        parts["state_digest"] = number + content[: 4 * window.lanes]
        if columns["kind"][row] == WRITE:
            parts["digest_of_exact"] = written
        for name, part in parts.items():
            digests[window.number][name].update(part)
    return [
        window.counted | {name: digest.hexdigest() for name, digest in of_window.items()}
        for window, of_window in zip(recording.windows, digests, strict=True)
    ]


def facts_of_windows(result):
    """What an import knows of each window, and digests of its writes."""
    windows = zip(result.facts()["windows"], counted(result.recording), strict=True)
    return [known | numbers for known, numbers in windows]
