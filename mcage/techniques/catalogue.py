"""The techniques that ship with mcage, and how a user-defined one is found."""

from typing import Any

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.plugins import is_plugin, load_plugin, plugin_label
from mcage.techniques.argo import ARGO
from mcage.techniques.baseline import BASELINE
from mcage.techniques.disable import DISABLE
from mcage.techniques.gr_guard import GR_GUARD
from mcage.techniques.programs import PlacementProgram
from mcage.techniques.rar import RAR
from mcage.techniques.rc import RC
from mcage.techniques.rc_rar import RC_RAR
from mcage.techniques.rrcd import RRCD
from mcage.techniques.rrcd_pg import RRCD_PG
from mcage.techniques.rrcd_rc_rar import RRCD_RC_RAR
from mcage.techniques.technique import Gating, Placement, Storage, Technique
from mcage.techniques.wc import WC

TECHNIQUES = {
    technique.name: technique
    for technique in (
        BASELINE,
        RAR,
        RC,
        RC_RAR,
        WC,
        ARGO,
        DISABLE,
        GR_GUARD,
        RRCD,
        RRCD_PG,
        RRCD_RC_RAR,
    )
}


def technique(name: str) -> Technique:
    """Find a technique by name: one that ships with mcage, or a user-defined ``module:NAME``.

    Raises
    ------
    UserError
        If there is none, the module cannot be imported, or ``NAME`` is no `Technique`.
    """
    if name in TECHNIQUES:
        return TECHNIQUES[name]
    if not is_plugin(name):
        raise UserError(
            f"technique {shortened(name)} is unknown; choose from {', '.join(TECHNIQUES)}, "
            "or name a user-defined one as module:NAME"
        )
    loaded = load_plugin("technique", name, Technique)
    _check(loaded, plugin_label("technique", name))
    return loaded


_FIELDS: dict[str, Any] = {
    "name": str,
    "placement": Placement,
    "storage": Storage,
    "gating": Gating,
    "source": str,
    "summary": str,
    "rotating_selectors": bool,
    "description": str,
    "program": PlacementProgram | None,
}


def _check(loaded: Technique, label: str) -> None:
    """Refuse policies that engines would not recognise, and what they would not look at."""
    if type(loaded) is not Technique:
        raise UserError(
            f"{label}: is of the subclass {type(loaded).__name__}; engines read the policies of a "
            "mcage.techniques.Technique, and run no code of it"
        )
    for name, kind in _FIELDS.items():
        value = getattr(loaded, name)
        if not isinstance(value, kind):
            raise UserError(f"{label}: its {name} is {shortened(value)}, no {kind.__name__}")
