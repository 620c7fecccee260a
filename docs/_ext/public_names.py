"""``.. public-names::``: what ``import mcage`` offers, and the types that it is described with."""

import inspect
import typing
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

import mcage

FOREIGN = "BaseModel, tuple, str, int, object"
"""Base classes whose members are described elsewhere."""

FIRST = ("run_sweep", "SweepSpec", "open_results", "replay")
"""What most scripts use."""


class PublicNames(SphinxDirective):
    """A section for each part of mcage that offers public names."""

    def run(self) -> list[nodes.Node]:
        """Parse what `reference` writes."""
        section = nodes.section()
        section.document = self.state.document
        nested_parse_with_titles(self.state, StringList(list(reference()), "mcage"), section)
        return section.children


def reference() -> Iterator[str]:
    """Lines of reStructuredText: names of `mcage.__all__` and what their annotations name."""
    public = {name: getattr(mcage, name) for name in mcage.__all__ if not name.startswith("_")}
    parts = defaultdict(list)
    for name, item in sorted(public.items()):
        parts[part_of(item)].append((f"mcage.{name}", item))
    collections = parts.pop("", [])
    yield from heading("Where to begin")
    for name in FIRST:
        yield from entry(f"mcage.{name}", public[name])
    listed = {id(item) for item in public.values()}
    for part in sorted(parts):
        yield from heading(f"mcage.{part}")
        yield from (str(import_module(f"mcage.{part}").__doc__).split("\n\n")[0], "")
        named: list[tuple[str, Any]] = []
        for _, item in parts[part]:
            for needed in types_named_by(item):
                if id(needed) not in listed:
                    listed.add(id(needed))
                    named.append((f"{needed.__module__}.{needed.__name__}", needed))
        for name, item in [*parts[part], *sorted(named)]:
            if name.removeprefix("mcage.") not in FIRST:
                yield from entry(name, item)
    yield from heading("Collections")
    for name, item in collections:
        yield from (f".. py:data:: {name}", "", f"   {in_words(item)}", "")


def heading(title: str) -> Iterator[str]:
    """Lines of the heading of a section."""
    yield from ("", title, "-" * len(title), "")


def part_of(item: Any) -> str:
    """Part of mcage that defines a function or a class; empty for what is neither, or not ours."""
    home = str(getattr(item, "__module__", "")).split(".")
    return home[1] if home[0] == "mcage" else ""


def in_words(item: Any) -> str:
    """Line about a collection, or about a class of another library."""
    if inspect.isclass(item):
        return f"A `{item.__module__.split('.')[0]}.{item.__name__}`, as mcage returns it."
    return f"A {type(item).__name__}: " + ", ".join(f"``{name}``" for name in item) + "."


def entry(name: str, item: Any) -> Iterator[str]:
    """Lines that have autodoc describe a function or a class."""
    if inspect.isclass(item):
        yield from (f".. autoclass:: {name}", "   :members:", f"   :inherited-members: {FOREIGN}")
        yield "   :exclude-members: model_config, command"
        if issubclass(item, BaseModel):  # keys that say all with their names
            yield "   :undoc-members:"
    else:
        yield f".. autofunction:: {name}"
    yield ""


def types_named_by(item: Any) -> Iterator[type]:
    """Records and enumerations in the annotations of a function, or of a class and its methods."""
    methods = inspect.getmembers(item, inspect.isfunction) if inspect.isclass(item) else []
    for annotated in (item, *(method for name, method in methods if name in vars(item))):
        try:
            hints = typing.get_type_hints(annotated)
        except NameError:  # a name that only type checkers import
            continue
        for hint in hints.values():
            yield from records_in(hint)


def records_in(hint: Any) -> Iterator[type]:
    """Records and enumerations of mcage of which a type hint is made."""
    if inspect.isclass(hint) and hint.__module__.startswith("mcage.") and is_record(hint):
        yield hint
    for part in typing.get_args(hint):
        yield from records_in(part)


def is_record(item: type) -> bool:
    """Whether a class is there to be filled or read."""
    return is_dataclass(item) or issubclass(item, BaseModel | tuple | Enum)


def without_keys(_app: Sphinx, what: str, _name: str, item: Any, *_: Any) -> tuple[str, str] | None:
    """Specs take dozens of keys by name, which are listed below: none in the signature."""
    if what == "class" and issubclass(item, BaseModel):
        return "(**keys)", ""
    return None


def keep_colons(_app: Sphinx, what: str, *_: Any) -> None:
    """Napoleon takes what stands before a colon for a type, as other projects write it."""
    *_, lines = _
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment: only the first line is looked at


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-signature", without_keys)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # before Napoleon
    return {"parallel_read_safe": True}
