"""Plug-ins: techniques and NBTI models of users, named ``module:NAME``.

A plug-in is code of the user. It is imported where Python finds modules, and in the current
folder, which is searched while a plug-in is imported and at no other time. Whatever it raises is
its own error and never a defect of mcage.
"""

import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from mcage.errors import UserError
from mcage.plain_text import said_by, shortened

Wanted = TypeVar("Wanted")


def is_plugin(name: str) -> bool:
    """Whether a name is of the form ``module:NAME``."""
    return ":" in name


def plugin_modules(names: Iterable[str]) -> set[str]:
    """Modules of the names that are of the form ``module:NAME``."""
    return {name.partition(":")[0] for name in names if is_plugin(name)}


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
    return f"{wanted.__module__.rpartition('.')[0]}.{wanted.__name__}"
