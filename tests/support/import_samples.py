"""Samples of what other tools print, and imports of them."""

import json
from pathlib import Path

from mcage.traces.importing.limits import Options
from mcage.traces.importing.run import import_traces

FOLDER = Path(__file__).parents[1] / "samples"
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


def imported(paths, folder, format_name="auto", **options):
    """Import files into a folder."""
    return import_traces(paths, format_name, folder, Options(**options))
