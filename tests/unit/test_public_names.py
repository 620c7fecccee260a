"""What `mcage` offers: every name is there, documented, and known to type checkers.

What they know of each is in `tests/support/user_types.py`, which `mypy` checks with the package.
"""

import ast
from importlib import import_module
from pathlib import Path

import pytest
from tables import each

import mcage


@each("name", sorted(set(mcage.__all__) - {"__version__"}))
def test_every_public_name_is_documented(name):
    value = getattr(mcage, name)
    assert value is getattr(import_module(mcage._HOMES[name]), name)
    if not isinstance(value, dict | tuple):
        assert value.__doc__.strip()


def test_checkers_are_told_the_same_names_as_users():
    tree = ast.parse(Path(mcage.__file__).read_text(encoding="utf-8"))
    (told,) = (n for n in tree.body if ast.unparse(n).startswith("if TYPE_CHECKING:"))
    assert {a.asname: n.module for n in told.body for a in n.names} == mcage._HOMES
    with pytest.raises(AttributeError, match="has no attribute 'run_swep'"):
        _ = mcage.run_swep
