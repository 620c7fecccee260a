"""Plug-ins: techniques and NBTI models of users, named ``module:NAME``.

A plug-in is code of the user. It is imported where Python finds modules, and in the current
folder, which is searched while a plug-in is imported and at no other time. Whatever it raises is
its own error and never a defect of mcage.
"""

import ast
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mcage.errors import UserError
from mcage.plain_text import said_by, shortened

Wanted = TypeVar("Wanted")


def is_plugin(name: str) -> bool:
    """Whether a name is of the form ``module:NAME``."""
    return ":" in name


def load_plugin(kind: str, name: str, wanted: type[Wanted]) -> Wanted:
    """Value that ``module:NAME`` stands for; it runs the module's code.

    Parameters
    ----------
    kind : str
        What it is, for error messages: ``technique``.
    name : str
        ``module:NAME``.
    wanted : type
        What the value must be an instance of.

    Raises
    ------
    UserError
        If the module cannot be imported, or has no such value.
    """
    module_name, _, attribute = name.partition(":")
    label = plugin_label(kind, name)
    with (
        blamed_on(f"{label}: cannot import {shortened(module_name)}"),
        _current_folder_searched(),
    ):
        value = getattr(importlib.import_module(module_name), attribute, None)
    if not isinstance(value, wanted):
        what = "nothing" if value is None else f"a {type(value).__name__}"
        if isinstance(value, type) and issubclass(value, wanted):
            what = "a class, not an instance of it,"
        raise UserError(
            f"{label}: {shortened(module_name)} has {what} under {shortened(attribute)}, "
            f"where a {_public_name(wanted)} is needed"
        )
    return value


def plugin_source(name: str) -> bytes:
    """Source of an imported module, and of the modules beside it that it imports.

    Those are followed, too, packages and imports inside functions included. Seen are ``import``
    statements, and what lies in the folder of the module (of its top package); of modules that are
    installed among others, what lies in the same top package.

    Parameters
    ----------
    name : str
        Full name of the module.

    Raises
    ------
    KeyError, AttributeError, OSError
        There is no such module, or it has no file.
    """
    path = Path(str(sys.modules[name].__file__))
    depth = name.count(".") + (path.stem == "__init__")
    folder, top = path.parents[depth], name.partition(".")[0]
    is_shared = folder.name in ("site-packages", "dist-packages", Path(os.__file__).parent.name)
    sources, waiting = {name: path.read_bytes()}, {name: path}
    while waiting:
        module, path = waiting.popitem()
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        for imported in _imported(sources[module], package):
            others_code = imported.partition(".")[0] == "mcage" or (
                is_shared and imported.partition(".")[0] != top
            )
            beside = None if others_code or imported in sources else _source_file(folder, imported)
            if beside:
                sources[imported], waiting[imported] = beside.read_bytes(), beside
    beside_it = (
        f"\n{other}\n".encode() + sources[other] for other in sorted(sources) if other != name
    )
    return sources[name] + b"".join(beside_it)


def _imported(source: bytes, package: str) -> set[str]:
    """Full names of what a source may import, of its package, and of all packages above."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # whoever imports it says so
        return set()
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    parts = [name.split(".") for name in {*names, package} - {""}]
    return {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}


def _source_file(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split("."))
    candidates = (place / "__init__.py", place.parent / f"{place.name}.py")
    return next((path for path in candidates if path.is_file()), None)


def plugin_label(kind: str, name: str) -> str:
    """How errors call a plug-in."""
    return f"{kind} {shortened(name)}"


@contextmanager
def blamed_on(what: str) -> Iterator[None]:
    """Turn all that the code of a plug-in raises into its error, `SystemExit` included.

    Only Ctrl-C passes.

    Parameters
    ----------
    what : str
        Who failed at what, for the message: ``technique 'a:B': cannot import 'a'``.

    Raises
    ------
    UserError
        If anything is raised.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UserError(f"{what} ({said_by(error)})") from error


@contextmanager
def _current_folder_searched() -> Iterator[None]:
    """Search the current folder for modules, after everything else."""
    try:
        folder = os.getcwd()
    except OSError:  # somebody has removed it
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        for place in reversed(range(len(sys.path))):
            if sys.path[place] == folder:
                del sys.path[place]
                break


def _public_name(wanted: type) -> str:
    return f"{sys.modules[wanted.__module__].__package__}.{wanted.__name__}"
