"""``.. variable-reference::``: every variable of the results file of every study."""

from collections.abc import Iterator, Mapping, Sequence

from command_reference import in_rst, row
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from mcage.results.variable import Variable
from mcage.studies.gpu_both.study import VARIABLES as OF_BOTH
from mcage.studies.gpu_gating.study import VARIABLES as OF_GATING
from mcage.studies.gpu_heterogeneity.study import VARIABLES as OF_HETEROGENEITY
from mcage.studies.inject.outcomes import OF_FLIPS, OF_SLICES
from mcage.studies.inject.outcomes import VARIABLES as OF_INJECTIONS
from mcage.studies.sweep.header import DRAW, MIX, NEW_FAULTS, WORKLOAD
from mcage.studies.sweep.header import VARIABLES as OF_SWEEPS
from mcage.studies.vmin.study import VARIABLES as OF_VMIN

STUDIES: dict[str, Sequence[Variable]] = {
    "mcage sweep": (*MIX, WORKLOAD, *OF_SWEEPS, DRAW, NEW_FAULTS),
    "mcage vmin": OF_VMIN,
    "mcage inject": (*OF_INJECTIONS, *OF_FLIPS, *OF_SLICES),
    "mcage gpu gating": OF_GATING,
    "mcage gpu both": OF_BOTH,
    "mcage gpu heterogeneity": OF_HETEROGENEITY,
}
"""Commands, and the variables that their files may have."""


class VariableReference(SphinxDirective):
    """A section for each study, with a table of its variables."""

    def run(self) -> list[nodes.Node]:
        """Parse what `reference` writes."""
        section = nodes.section()
        section.document = self.state.document
        lines = StringList(list(reference(STUDIES)), "variables")
        nested_parse_with_titles(self.state, lines, section)
        return section.children


def reference(studies: Mapping[str, Sequence[Variable]]) -> Iterator[str]:
    """Lines of reStructuredText about the variables of some studies."""
    for command, variables in studies.items():
        yield from ("", command, "-" * len(command), "")
        yield from (".. list-table::", "   :header-rows: 1", "")
        for texts in (HEAD, *map(cells, variables)):
            yield from row(*texts)
        yield ""


HEAD = ("variable", "dimensions", "type", "unit", "meaning")


def cells(variable: Variable) -> tuple[str, ...]:
    """What a variable declares, in the order of `HEAD`."""
    flags = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in variable.flags)
    said = (variable.long_name, flags, variable.comment.removesuffix("."))
    missing = f"NaN {variable.missing}" if variable.missing else ""
    meaning = ". ".join(text[0].upper() + text[1:] for text in (*said, missing) if text)
    return (
        f"``{variable.name}``",
        ", ".join(variable.dims),
        variable.dtype,
        variable.units,
        in_rst(meaning),
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("variable-reference", VariableReference)
    return {"parallel_read_safe": True}
