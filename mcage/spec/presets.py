"""Presets: keys that a word sets together, such as those of a paper; defaults of other keys."""

from typing import Any

from mcage.plain_text import shortened
from mcage.variation.scenarios import CELL_8T, USUAL_TABLE

_CALENDAR = {"schedule": "sequential", "periods": 5, "mix": "uniform"}
_ROWS = {"vdd_scaling": "rows"}
_RELEASED = _CALENDAR | {"release": "wavefront"}
_PAPERS: dict[str, Any] = {
    "spread": False,
    "low_vdd": "printed",
    "life": {"slowdown_limit": "none"},
    "registers": {"overflow": "end"},
}
"""Keys that all presets set."""

PRESET_KEYS: dict[str, dict[str, Any]] = {
    "papers": _PAPERS | {"workload": _CALENDAR, "costs": _ROWS},
    "valero-2019": _PAPERS
    | {
        "environments": ["turbo"],
        "workload": _RELEASED,
        "costs": _ROWS | {"technology": "32nm"},
    },
    "toca-diaz": _PAPERS
    | {
        "environments": ["undervolted"],
        "workload": _RELEASED,
        "costs": _ROWS | {"technology": "28nm"},
    },
}
"""Keys of each preset. ``papers``: what sweeps asked before kernels took turns; the calendar is
assumed. ``valero-2019``: the 1.0 V and 32 nm of Valero et al., IEEE TC 2019. ``toca-diaz``: the
scenario's low Vdd throughout, and the 28 nm, of Toca-Díaz et al. (RRCD). In these papers a window
is released with its wavefront. Energies at printed voltages are printed ones, and a spilled row
for which the LDS has no room ends a life."""


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


def _under(stated: Any, key: str, value: Any, preset: str) -> Any:
    if stated is None or stated == value:
        return value
    if isinstance(stated, dict) and isinstance(value, dict):
        inner = {
            name: _under(stated.get(name), f"{key}.{name}", part, preset)
            for name, part in value.items()
        }
        return stated | inner
    raise ValueError(
        f"preset = {preset!r} sets {key} = {shortened(value)}, and the spec has "
        f"{shortened(stated)}: give one of them"
    )


def with_cell(fields: dict[str, Any]) -> dict[str, Any]:
    """Name the rule of Vmin of a spec with 8T cells, where its fields name none: ``margins``."""
    faults, aging = (fields.get(name, {}) for name in ("faults", "aging"))
    if not isinstance(faults, dict) or not isinstance(aging, dict):
        return fields
    if faults.get("cell") != CELL_8T or faults.get("mode", "varius") != "varius":
        return fields
    return fields | {"aging": {"vmin_model": USUAL_TABLE} | aging}


# What differs from slice to slice unless a spec says otherwise. All of it is assumed: see
# docs/keys.md.

SPREAD: dict[str, dict[str, float | str]] = {
    "life": {
        "temperature_kelvin": "normal(353.15, 5)",
        "activity": "uniform(0.8, 1)",
        "delay_guardband": 0.108,
    },
    "aging": {"shift_factor": "normal(1, 0.1)"},
}
"""Distributions in place of constants, and the guardband that goes with them: under it, the median
life of a conventional slice at 1.0 V is three years, as is every life under the constants."""

VT0_SPREAD = 0.02
"""Standard deviation of the unaged threshold voltage from die to die, relative to its mean."""


def with_spread(fields: dict[str, Any]) -> dict[str, Any]:
    """Fill in the distributions of what differs from slice to slice: nested plain values of a spec.

    What the fields say of a key stays, and where they draw rows of constants, these are all that
    differs.
    """
    if fields.get("spread", True) is not True or fields.get("draws") is not None:
        return fields
    sections = {name: fields.get(name, {}) for name in SPREAD}
    if not all(isinstance(section, dict) for section in sections.values()):
        return fields
    spread = {name: dict(values) for name, values in SPREAD.items()}
    if sections["life"].get("idle") == "held":  # all slices replay the same idle time
        del spread["life"]["activity"]
    aging = sections["aging"]
    vt0_volts = _vt0_of_model(aging.get("model", "facelift"))
    replaced = aging.get("constants")
    if vt0_volts and "vt0_volts" not in (replaced if isinstance(replaced, dict) else {}):
        spread["aging"]["vt0_volts"] = f"normal({vt0_volts:g}, {VT0_SPREAD * vt0_volts:g})"
    return fields | {name: spread[name] | section for name, section in sections.items()}


def _vt0_of_model(name: object) -> float | None:
    """Unaged threshold voltage of a shipped NBTI model, V."""
    from mcage.aging.nbti import MODEL_NAMES, constants

    known = constants(name) if isinstance(name, str) and name in MODEL_NAMES else {}
    return known["vt0_volts"].value if "vt0_volts" in known else None
