"""Headers of files of an older schema as this one has them: the only place that knows of it.

Schema 10: cases have no temperature. Schema 9, too: the protection of a case was a suffix of its
technique (``rrcd@secded32``, nothing for ``ecp1``), and its voltages stood in its label alone.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mcage.results.axes import JOINED, Axis, values_of_spec

OLDEST_SCHEMA = 9
"""Oldest schema that is read."""

NOT_OF_OLDER = {"schema_version", "coordinates"}
"""Attributes of a file that do not follow from its header in this schema."""

UNNAMED_PROTECTION = "ecp1"
"""Protection of which the names of techniques said nothing."""


def upgraded(fields: Mapping[str, Any], axes: Sequence[Axis]) -> dict[str, Any]:
    """Fields of a header, as JSON knows them, in this schema.

    Parameters
    ----------
    fields : mapping
        Those of an older schema.
    axes : sequence of Axis
        Axes of the study.

    Raises
    ------
    ValueError, TypeError, LookupError, AttributeError
        They are not.
    """
    if not {"protection", "technique"} <= {axis.name for axis in axes}:
        return dict(fields)
    spec = tomllib.loads(fields["spec_toml"])
    if "cases" in fields:  # of sweeps
        return {**fields, "cases": [_case(case, axes, spec) for case in fields["cases"]]}
    return {**fields, "labels": _labels(fields["labels"], axes, spec)}


def _labels(
    labels: Sequence[Mapping[str, Any]], axes: Sequence[Axis], spec: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Coordinates of a study that declares them: those of cases as of a sweep."""
    variables = {label["variable"]["name"]: label["variable"] for label in labels}
    columns = {name: label["values"] for name, label in zip(variables, labels, strict=True)}
    names = [name for name, variable in variables.items() if variable["dims"] == ["case"]]
    lines = zip(*(columns[name] for name in names), strict=True)
    cases = [_case(dict(zip(names, line, strict=True)), axes, spec) for line in lines]
    variables |= {
        axis.name: asdict(axis.variable())
        for axis in axes
        if axis.name in cases[0] and axis.name not in variables
    }
    columns |= {name: [case[name] for case in cases] for name in cases[0]}
    return [{"variable": of, "values": columns[name]} for name, of in variables.items()]


def _case(
    given: Mapping[str, Any], axes: Sequence[Axis], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """A case of a sweep."""
    case = dict(given)
    label = case.pop("label") if "label" in case else case.pop("case")
    technique, _, suffix = case["technique"].partition(JOINED)
    protection = case.get("protection", suffix or UNNAMED_PROTECTION)
    setting = f" {case['environment']} {case['scenario']}"
    voltages = case.get("voltages", label.rpartition(setting)[2].strip())
    return {
        **case,
        **{"case": label, "technique": technique, "protection": protection, "voltages": voltages},
        **values_of_spec(axes, spec, case),
    }
