"""Scripts take from mcage what mcage has."""

import ast
from importlib import import_module
from importlib.util import find_spec

from places import ROOT
from tables import each

SCRIPTS = sorted((ROOT / "scripts").rglob("*.py"))


@each("script", SCRIPTS)
def test_names_that_scripts_import(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mcage":
            module = import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or find_spec(f"{node.module}.{name}"), name
