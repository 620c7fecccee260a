"""The results of a study in a file: JSON, CSV, or a figure."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from mcage.files.atomic import FIGURES, JSON, TABLES, kind_of_name, make_ready, whole_file
from mcage.plain_text import csv_text
from mcage.spec import SweepSpec
from mcage.stats.wording import plain
from mcage.studies.sensitivity.one_at_a_time import OneAtATime
from mcage.studies.sensitivity.sobol import Sobol
from mcage.studies.sensitivity.tables import rows

SUFFIXES = (*TABLES, *FIGURES)


def check_path(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed.

    Raises
    ------
    UserError
        Its suffix names no format, there is no such folder, or a file of another kind is there.
    """
    make_ready(path, kind_of_name(path, SUFFIXES))


def write(result: OneAtATime | Sobol, spec: SweepSpec, path: Path) -> None:
    """Write results into a file of the kind that its suffix names.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    kind = kind_of_name(path, SUFFIXES)
    if kind in FIGURES.values():
        from mcage.studies.sensitivity.tornado import draw

        draw(result, path)
        return
    text = f"{as_json(result, spec)}\n" if kind is JSON else as_csv(result)
    with whole_file(path, kind) as stream:
        stream.write(text.encode())


def as_csv(result: OneAtATime | Sobol) -> str:
    """Write results as CSV text, with a line for each row of their table."""
    table = rows(result)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(table[0]))
    writer.writeheader()
    writer.writerows(
        {key: csv_text(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in table
    )
    return text.getvalue()


def as_json(result: OneAtATime | Sobol, spec: SweepSpec) -> str:
    """Write results and the spec of their case as JSON text."""
    case: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    return json.dumps({"spec": case} | plain(result), indent=2)
