"""The techniques that ship with mcage, and how a user's own is found."""

import importlib

from mcage.errors import UserError
from mcage.techniques.argo import ARGO
from mcage.techniques.baseline import BASELINE
from mcage.techniques.disable import DISABLE
from mcage.techniques.gr_guard import GR_GUARD
from mcage.techniques.rar import RAR
from mcage.techniques.rc import RC
from mcage.techniques.rc_rar import RC_RAR
from mcage.techniques.rrcd import RRCD
from mcage.techniques.rrcd_pg import RRCD_PG
from mcage.techniques.rrcd_rc_rar import RRCD_RC_RAR
from mcage.techniques.technique import Technique
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
    """Technique called ``name``: one that ships with mcage, or a user's own as ``module:NAME``.

    Raises
    ------
    UserError
        If there is none, the module cannot be imported, or ``NAME`` is no `Technique`.
    """
    if name in TECHNIQUES:
        return TECHNIQUES[name]
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise UserError(
            f"technique {name!r} is unknown; choose from {', '.join(TECHNIQUES)}, "
            "or give your own as module:NAME"
        )
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UserError(
            f"technique {name!r}: cannot import {module_name!r} ({type(error).__name__}: {error})"
        ) from error
    found = getattr(module, attribute, None)
    if not isinstance(found, Technique):
        what = "nothing" if found is None else f"a {type(found).__name__}"
        raise UserError(
            f"technique {name!r}: {module_name!r} has {what} under {attribute!r}, "
            "where a mcage.techniques.Technique is needed"
        )
    return found
