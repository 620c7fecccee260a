"""Samples of what other tools print, and imports of them."""

import json
from pathlib import Path

import numpy as np

from mcage.tracing.importing.run import import_traces
from mcage.tracing.importing.sources import Options

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


def assert_same_events(trace, wanted):
    """Check that two traces say the same; rows of contents and kernels may be numbered anew."""
    for column in ("cycle", "kind", "slot", "reg", "exec_mask", *ORIGINS):
        np.testing.assert_array_equal(getattr(trace, column), getattr(wanted, column), column)
    contents = [each.values[each.value[each.value >= 0]] for each in (trace, wanted)]
    np.testing.assert_array_equal(*contents)
    assert (trace.cycles, trace.geometry) == (wanted.cycles, wanted.geometry)


def imported(paths, folder, format_name="auto", **options):
    """Import files into a folder."""
    return import_traces(paths, format_name, folder, Options(**options))
