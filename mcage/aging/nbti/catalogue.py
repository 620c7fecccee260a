"""The NBTI models that ship with mcage, and how a user's own is found."""

import importlib

from mcage.aging.nbti.bhardwaj import Bhardwaj
from mcage.aging.nbti.constants import MODEL_NAMES, values
from mcage.aging.nbti.facelift import Facelift
from mcage.aging.nbti.finfet_planar import FinFetPlanar
from mcage.aging.nbti.model import NbtiModel
from mcage.errors import UserError

_KINDS: dict[str, type[NbtiModel]] = {
    "facelift": Facelift,
    "bhardwaj": Bhardwaj,
    "finfet": FinFetPlanar,
    "planar": FinFetPlanar,
}


def nbti_model(name: str) -> NbtiModel:
    """Model called ``name``: one that ships with mcage, or a user's own as ``module:NAME``.

    Parameters
    ----------
    name : str
        One of `MODEL_NAMES`, or ``module:NAME`` with an `NbtiModel` under that name.

    Raises
    ------
    UserError
        If there is none, the module cannot be imported, or ``NAME`` is no `NbtiModel`.
    """
    if name in MODEL_NAMES:
        return _KINDS[name.partition("-")[0]](**values(name))
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise UserError(
            f"NBTI model {name!r} is unknown; choose from {', '.join(MODEL_NAMES)}, "
            "or give your own as module:NAME"
        )
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UserError(
            f"NBTI model {name!r}: cannot import {module_name!r} ({type(error).__name__}: {error})"
        ) from error
    found: object = getattr(module, attribute, None)
    if not isinstance(found, NbtiModel):
        what = "nothing" if found is None else f"a {type(found).__name__}"
        if isinstance(found, type) and issubclass(found, NbtiModel):
            what = "a class, not an instance of it,"
        raise UserError(
            f"NBTI model {name!r}: {module_name!r} has {what} under {attribute!r}, "
            "where a mcage.aging.nbti.NbtiModel is needed"
        )
    return found
