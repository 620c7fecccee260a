"""What `mcage` offers: every name is there, documented, and known to type checkers.

What they know of each is in `tests/support/user_types.py`, which `mypy` checks with the package.
"""

import ast
from importlib import import_module
from pathlib import Path

import pytest
from tables import each

import mcage
from mcage import variation


@each("name", sorted(set(mcage.__all__) - {"__version__"}))
def test_every_public_name_is_documented(name):
    value = getattr(mcage, name)
    assert value is getattr(import_module(mcage._HOMES[name]), name)
    if not isinstance(value, dict | tuple):
        assert value.__doc__.strip()


def test_checkers_are_told_the_same_names_as_users():
    assert _told(mcage) == mcage._HOMES
    with pytest.raises(AttributeError, match="has no attribute 'run_swep'"):
        _ = mcage.run_swep


def _told(package):
    """The names that type checkers read in a package, and where they come from."""
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (told,) = (n for n in tree.body if ast.unparse(n).startswith("if TYPE_CHECKING:"))
    return {a.asname: n.module for n in told.body for a in n.names}


def test_the_names_of_variation_are_those_of_its_modules():
    """They are loaded when they are used: a module of such a name would stand in its place."""
    for name, home in variation._HOMES.items():
        assert getattr(variation, name) is getattr(import_module(f"mcage.variation.{home}"), name)
        assert name not in variation._HOMES.values()
    assert set(_told(variation).items()) == {
        (name, f"mcage.variation.{home}") for name, home in variation._HOMES.items()
    }
    with pytest.raises(AttributeError, match="has no attribute 'fault_mop'"):
        _ = variation.fault_mop
