"""A study in a file: JSON, CSV, or a figure."""

import csv
import json
from pathlib import Path
from typing import Any

from mcage.errors import UserError
from mcage.report.text import plain
from mcage.results.atomic import whole_file
from mcage.sensitivity.one_at_a_time import OneAtATime
from mcage.sensitivity.sobol import Sobol
from mcage.sensitivity.tables import rows
from mcage.spec import SweepSpec

FIGURES = (".png", ".pdf", ".svg")
SUFFIXES = (".json", ".csv", *FIGURES)


def check_path(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed.

    Raises
    ------
    UserError
        Its name does not say what it is to be, or there is no such folder.
    """
    if path.suffix not in SUFFIXES:
        raise UserError(f"--out {path}: the name must end in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise UserError(f"--out {path}: there is no folder {path.parent}")


def write(found: OneAtATime | Sobol, spec: SweepSpec, path: Path) -> None:
    """Write a study into a file of the kind that its name asks for.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    if path.suffix in FIGURES:
        from mcage.sensitivity.figure import draw

        draw(found, path)
        return
    with whole_file(path) as temporary:
        if path.suffix == ".json":
            temporary.write_text(as_json(found, spec) + "\n", encoding="utf-8")
            return
        table = rows(found)
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)


def as_json(found: OneAtATime | Sobol, spec: SweepSpec) -> str:
    """JSON text of a study and of the spec that it is of."""
    case: dict[str, Any] = spec.model_dump(mode="json", exclude_none=True)
    return json.dumps({"spec": case} | plain(found), indent=2)
