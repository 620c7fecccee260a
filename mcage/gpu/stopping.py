"""When a study of GPUs may end before its last instance: once a mean is known."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.results.header import StoppingRule
from mcage.results.variable import Variable
from mcage.spec.keys import Option
from mcage.spec.sections import Name, Section

MeanOf = Annotated[Name, Option("--of VARIABLE")]
"""Name of the variable whose mean is looked at."""


class MeanStopping(Section):
    """When a campaign may end before its last instance."""

    rel_ci: Annotated[
        float, Field(gt=0, lt=1), Option("--rel-ci R", default="all instances are computed")
    ]
    """Stop as soon as a mean is known to this relative half-width (95 %)."""
    of: MeanOf
    """The variable whose mean is looked at."""


def stopping_rule(
    stopping: MeanStopping | None, variables: Iterable[Variable]
) -> StoppingRule | None:
    """Rule that a spec asks for, or None.

    Parameters
    ----------
    stopping : MeanStopping or None
        What the spec says.
    variables : iterable of Variable
        What the study computes.

    Raises
    ------
    UserError
        The study has no such variable of numbers.
    """
    if stopping is None:
        return None
    names = [variable.name for variable in variables if not variable.flags]
    if stopping.of not in names:
        raise UserError(
            f"stopping.of = {shortened(stopping.of)} is no variable; choose from {', '.join(names)}"
        )
    return StoppingRule(stopping.rel_ci, stopping.of)
