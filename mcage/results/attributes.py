"""The attributes of a results file: what the netCDF and CF conventions want, and who wrote it."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from mcage.results.header import SweepHeader
from mcage.results.schema import COORDINATES, FILETYPE, SCHEMA_VERSION, Variable


def root_attributes(campaign: SweepHeader) -> dict[str, Any]:
    """Attributes of the file: all of the campaign that is not in coordinates."""
    stopping: dict[str, Any] = {}
    if campaign.stopping:
        rule = json.dumps(asdict(campaign.stopping), sort_keys=True)
        stopping = {"stopping": rule, "stopped": campaign.stopped}
    return {
        "Conventions": "CF-1.8",
        "filetype": FILETYPE,
        "schema_version": SCHEMA_VERSION,
        "mcage_version": campaign.codes[0].version,
        "code_digest": campaign.codes[0].digest,
        "codes": json.dumps([asdict(code) for code in campaign.codes], sort_keys=True),
        "accepted_other_code": int(campaign.accepted_other_code),
        "spec": campaign.spec_toml,
        "spec_digest": campaign.spec_digest,
        "seed": campaign.seed,
        "engine": campaign.engine,
        "engine_reason": campaign.engine_reason,
        "device": campaign.device,
        **stopping,
    }


def description(variable: Variable) -> dict[str, Any]:
    """Attributes that say what an array means; all that a coordinate has."""
    attributes: dict[str, Any] = {"units": variable.units, "long_name": variable.long_name}
    comments = [variable.comment] if variable.comment else []
    if variable.missing:
        comments.append(f"NaN {variable.missing}.")
    if comments:
        attributes["comment"] = " ".join(comments)
    if variable.flags is not None:
        attributes["flag_values"] = np.array(list(variable.flags), variable.dtype)
        attributes["flag_meanings"] = " ".join(flag.name.lower() for flag in variable.flags)
    return attributes


def variable_attributes(variable: Variable) -> dict[str, Any]:
    """Attributes of a computed array: its description, its fill value, its further labels."""
    attributes = description(variable)
    if np.dtype(variable.dtype).kind == "f":
        # Without the attribute, readers do not mask what HDF5 itself knows to be fill.
        attributes["_FillValue"] = np.array([np.nan], variable.dtype)
    dims = set(variable.dims)
    labels = [
        label.variable.name
        for label in COORDINATES
        if label.variable.dims != (label.variable.name,) and set(label.variable.dims) <= dims
    ]
    if labels:
        attributes["coordinates"] = " ".join(labels)
    return attributes
