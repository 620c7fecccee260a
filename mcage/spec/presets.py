"""Presets: keys that a word sets together, such as those of a paper."""

from typing import Any

from mcage.plain_text import shortened

_CALENDAR = {"schedule": "sequential", "periods": 5, "mix": "uniform"}
_RELEASED = _CALENDAR | {"release": "wavefront"}

PRESET_KEYS: dict[str, dict[str, Any]] = {
    "papers": {"workload": _CALENDAR},
    "valero-2019": {
        "environments": ["nominal"],
        "workload": _RELEASED,
        "costs": {"technology": "32nm"},
    },
    "toca-diaz": {
        "environments": ["undervolted"],
        "workload": _RELEASED,
        "costs": {"technology": "28nm"},
    },
}
"""Keys of each preset. ``papers``: what sweeps asked before kernels took turns; the calendar is
assumed. ``valero-2019``: the 1.0 V and 32 nm of Valero et al., IEEE TC 2019. ``toca-diaz``: the
scenario's low Vdd throughout, and the 28 nm, of Toca-Díaz et al. (RRCD). In these papers a window
is released with its wavefront."""


def preset_of(name: object) -> dict[str, Any]:
    """Plain values of a preset; none of an unknown name, which the spec refuses."""
    return PRESET_KEYS.get(name, {}) if isinstance(name, str) else {}


def with_preset(fields: dict[str, Any]) -> dict[str, Any]:
    """Put the values of a preset under the fields of a spec that names one.

    Parameters
    ----------
    fields : dict
        Nested plain values of a spec.

    Raises
    ------
    ValueError
        If the fields have another value for a key that the preset sets; the message names both.
    """
    values, preset = preset_of(fields.get("preset")), fields.get("preset")
    if not values:
        return fields
    others = {name: value for name, value in fields.items() if name != "preset"}
    resolved = {
        name: _under(others.get(name), name, value, str(preset)) for name, value in values.items()
    }
    return others | resolved


def _under(given: Any, key: str, value: Any, preset: str) -> Any:
    if given is None or given == value:
        return value
    if isinstance(given, dict) and isinstance(value, dict):
        inner = {
            name: _under(given.get(name), f"{key}.{name}", part, preset)
            for name, part in value.items()
        }
        return given | inner
    raise ValueError(
        f"preset = {preset!r} sets {key} = {shortened(value)}, and the spec has "
        f"{shortened(given)}: give one of them"
    )
