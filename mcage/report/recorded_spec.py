"""The spec that a results file holds as text: parts of it, and the plan that it makes again."""

import tomllib
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from mcage.errors import UserError
from mcage.plugins import is_plugin
from mcage.spec import SweepSpec
from mcage.spec.sections import Aging, Costs, Faults
from mcage.sweep.header import SweepHeader

if TYPE_CHECKING:
    from mcage.sweep.plan import SweepPlan

Part = TypeVar("Part", bound=BaseModel)


def faults_of(spec_toml: str) -> Faults:
    """Where the faults of a sweep come from.

    Raises
    ------
    UserError
        The text is not the spec of a sweep.
    """
    return _part(spec_toml, "faults", Faults)


def costs_of(spec_toml: str) -> Costs:
    """Which constants the energy and the slowdown of a sweep are counted with.

    Raises
    ------
    UserError
        The text is not the spec of a sweep.
    """
    return _part(spec_toml, "costs", Costs)


def aging_of(spec_toml: str) -> Aging:
    """How the transistors of a sweep age.

    Raises
    ------
    UserError
        The text is not the spec of a sweep.
    """
    return _part(spec_toml, "aging", Aging)


def plan_of(header: SweepHeader) -> "SweepPlan":
    """Plan of the sweep of a results file, to replay its kernels and to draw its dies again.

    Other code than that of the file may make it: see `mcage.report.notes.note_on_code`.

    No module of a user is imported because a file names it.

    Raises
    ------
    UserError
        The plan would not be that of the file: it has plug-ins, or its traces are not at hand, or
        these, its techniques or its model are others by now.
    """
    from mcage.engines.select import select_engine
    from mcage.sweep.study import Sweep

    spec = SweepSpec.from_mapping(tomllib.loads(header.spec_toml))
    named = [*spec.techniques, spec.aging.model, str(spec.aging.pbti)]
    if plugins := [name for name in named if is_plugin(name)]:
        raise UserError(f"it needs user-defined code, {plugins[0]}, which no report imports")
    engine, _ = select_engine("numba", None)
    sweep = Sweep(spec, engine)
    if sweep.header.spec_digest != header.spec_digest:
        raise UserError("its traces, techniques or model are others by now")
    return sweep.plan


def _part(spec_toml: str, name: str, model: type[Part]) -> Part:
    try:
        return model.model_validate(tomllib.loads(spec_toml).get(name, {}))
    except (ValueError, RecursionError) as error:
        raise UserError("attribute spec: is not the spec of a sweep") from error
