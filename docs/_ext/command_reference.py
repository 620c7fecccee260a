"""``.. command-reference::`` and ``.. command-functions::``: every command and its function."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from commands_in_python import FUNCTIONS, OF_TERMINALS, OF_THE_INSTALLATION, OTHER_NAMES
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from mcage.cli.app import app

HELP = "--help"
"""Every command has it."""


class CommandReference(SphinxDirective):
    """A section for each command, with options that other pages can link to."""

    def run(self) -> list[nodes.Node]:
        """Parse what `reference` writes."""
        section = nodes.section()
        section.document = self.state.document
        lines = list(reference(typer.main.get_command(app), ("mcage",)))
        nested_parse_with_titles(self.state, StringList(lines, "help texts"), section)
        return section.children


def reference(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Lines of reStructuredText about a command and the commands below it.

    Parameters
    ----------
    command : Any
        Command or group, as Typer makes them.
    path : tuple of str
        What is typed to reach it: ``("mcage", "gpu", "gating")``.
    """
    context = command.make_context(path[-1], [], resilient_parsing=True)
    name = " ".join(path)
    below = getattr(command, "commands", {})
    if len(path) > 1:
        yield from ("", name, ("-" if len(path) == 2 else "~") * len(name), "")
        for paragraph in (command.help or "").split("\n\n"):
            yield from (in_rst(" ".join(paragraph.split())), "")
    usage = " ".join((name, *command.collect_usage_pieces(context)))
    yield from (".. code-block:: text", "", f"   {usage}", "")
    yield from (f".. program:: {name}", "")
    for title, records in panels(command, context):
        if title:
            yield from (f".. rubric:: {title}", "")
        for signature, said in records:
            yield from (f".. option:: {signature}", "", f"   {in_rst(said)}", "")
    for child in below:
        yield from reference(below[child], (*path, child))


def panels(command: Any, context: Any) -> list[tuple[str, list[tuple[str, str]]]]:
    """Arguments and options with what is said of them, in the groups of the help."""
    grouped: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        hidden, parameter.hidden = parameter.hidden, False  # as --help-all shows them
        record = parameter.get_help_record(context)
        parameter.hidden = hidden
        if record and HELP not in parameter.opts:
            panel = getattr(parameter, "rich_help_panel", None)
            title = panel if isinstance(panel, str) else ""
            grouped.setdefault(title, []).append(record)
    return list(grouped.items())


def in_rst(text: str) -> str:
    """Escape a help text, but for what stands in backticks: that becomes code."""
    parts = text.split("`")
    escaped = [re.sub(r"([\\*|_])", r"\\\1", part) for part in parts[::2]]
    code = [f"``{part}``" for part in parts[1::2]]
    return "".join(a + b for a, b in zip(escaped, [*code, ""], strict=True))


class CommandFunctions(SphinxDirective):
    """A table of the commands and the functions of Python that do the same."""

    def run(self) -> list[nodes.Node]:
        """Parse what `functions` writes."""
        section = nodes.section()
        section.document = self.state.document
        nested_parse_with_titles(self.state, StringList(list(functions()), "commands"), section)
        return section.children


def functions() -> Iterator[str]:
    """Lines of reStructuredText: each command, its functions, and options with other names."""
    yield from (".. list-table::", "   :header-rows: 1", "")
    yield from row("command", "in Python", "options with another name there")
    for command, names in FUNCTIONS.items():
        others = OTHER_NAMES.get(command, {}).items()
        yield from row(
            f"``mcage {command}``",
            ", ".join(f"``mcage.{name}``" for name in names),
            "; ".join(f"``{option}``: {name}" for option, name in others),
        )
    about = ", ".join(f"``mcage {command}``" for command in OF_THE_INSTALLATION)
    yield from ("", f"Without a function, since they are about what is installed: {about}.", "")
    yield "Options of the terminal alone:"
    for option, why in OF_TERMINALS.items():
        yield from ("", f"- ``{option}``: {why}")
    yield ""


def row(*cells: str) -> Iterator[str]:
    """Lines of a row of a list-table."""
    for place, cell in enumerate(cells):
        yield f"   {'  ' if place else '* '}- {cell}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("command-reference", CommandReference)
    app.add_directive("command-functions", CommandFunctions)
    return {"parallel_read_safe": True}
