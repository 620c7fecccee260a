"""A study in a file: JSON, CSV, or a figure."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from mcage.files.atomic import make_ready, whole_file
from mcage.files.kinds import FIGURES, JSON, TABLES, kind_of_name
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
        Its name does not say what it is to be, there is no such folder, or a file of another
        kind is there.
    """
    make_ready(path, kind_of_name(path, SUFFIXES))


def write(found: OneAtATime | Sobol, spec: SweepSpec, path: Path) -> None:
    """Write a study into a file of the kind that its name asks for.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    kind = kind_of_name(path, SUFFIXES)
    if kind in FIGURES.values():
        from mcage.studies.sensitivity.tornado import draw

        draw(found, path)
        return
    text = f"{as_json(found, spec)}\n" if kind is JSON else as_csv(found)
    with whole_file(path, kind) as stream:
        stream.write(text.encode())


def as_csv(found: OneAtATime | Sobol) -> str:
    """CSV text of a study, a line for each row of its table."""
    table = rows(found)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(table[0]))
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def as_json(found: OneAtATime | Sobol, spec: SweepSpec) -> str:
    """JSON text of a study and of the spec that it is of."""
    case: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    return json.dumps({"spec": case} | plain(found), indent=2)
