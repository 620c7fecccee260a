"""Can one find one's way in mcage? Parameters, names, and imports that point one way."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from places import DATA, ROOT
from tables import each

import mcage
from mcage.results.header import HEADERS

PACKAGE = Path(mcage.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

MOST_PARAMETERS = 8
COMPILED = {"compiled", "inner", "inlined", "intrinsic", "_operation"}
"""Decorators of compiled functions, which take no records of Python."""

LEFT_BEHIND = {
    *("one", "mine", "some", "found", "own", "every"),
    *("visit", "visits", "world", "worlds", "exposure", "law", "laws", "wear", "stretch"),
}
"""Names that say nothing of what they name, and names for which the glossary has another word."""

LAYERS = (
    {
        *("errors", "geometry", "random", "distributions", "concurrency", "plain_text"),
        *("plugins", "version", "files", "compiled", "philox"),
    },
    {"protection"},
    {"traces", "variation", "techniques", "stats", "aging"},
    {"spec"},
    {"tracing"},
    {"replays"},
    {"engines"},
    {"costs", "soft_errors"},
    {"lifetime"},
    {"results", "campaign"},
    {"report"},
    {"gpu"},
    {"studies"},
    {"analysis"},
    {"methods", "papers", "single_runs"},
    {"functions"},
    {"cli"},
)
"""Parts of mcage, the lowest first: each imports its own layer and those below."""

KNOWN_TO_CAMPAIGNS = LAYERS[0] | LAYERS[9] | {"stats"}
"""What campaigns and results may import: they know no registers and no lifetimes."""


def test_tests_and_what_they_start_import_the_checkout_that_they_lie_in(tmp_path):
    """Whatever is installed beside it: otherwise a change of the checkout would go untested."""
    assert PACKAGE == ROOT / "mcage"
    ask = [sys.executable, "-c", "import mcage; print(mcage.__file__)"]
    started = subprocess.run(ask, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert started.stdout.strip() == mcage.__file__


def name_of(path):
    return str(path.relative_to(PACKAGE))


@cache
def nodes_of(path):
    """All nodes of a module's tree, which takes longest to walk through."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def part_of(path):
    """The folder or module of mcage in which a file lies; a study's command is one of `cli`."""
    if path.name == COMMAND:
        return "cli"
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


COMMAND = "command.py"
"""The file of a study that makes options of its spec, which nothing else imports."""

MODULE = re.compile(r"mcage(?:\.[a-z_0-9]+)+(?::\w+)?")


def imports_of(path):
    """Module and names of every import from mcage, wherever in the file it stands.

    A string that is the name of a module, or of something in it, counts as one.
    """
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and MODULE.fullmatch(str(node.value)):
            module, _, name = node.value.partition(":")
            if any(module_of(other) == module for other in MODULES):
                yield module, [name] if name else []
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name_of(path)}: a relative import"
            if node.module.split(".")[0] == "mcage":
                yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "mcage":
                    yield alias.name, []


def parts_imported(path):
    """Parts of mcage that a file imports from."""
    for module, names in imports_of(path):
        below = module.split(".")[1:]
        yield from below[:1] or names


def names_in(path):
    """Every name of a variable, parameter, attribute, function or class, and where it stands."""
    for node in nodes_of(path):
        for field in ("id", "arg", "attr", "name"):
            if isinstance(name := getattr(node, field, None), str):
                yield name, getattr(node, "lineno", 0)


def parameters(function):
    """Names of all parameters but that of the object or class itself."""
    names = [node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    return [name for name in names if name not in ("self", "cls")]


def is_compiled(function):
    return any(isinstance(by, ast.Name) and by.id in COMPILED for by in function.decorator_list)


def test_no_function_has_many_parameters():
    functions = [
        (path, node)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    many = {
        (name_of(path), function.name): len(parameters(function))
        for path, function in functions
        if not is_compiled(function) and len(parameters(function)) > MOST_PARAMETERS
    }
    assert not many


def test_names_say_what_they_name():
    left_behind = [
        (name_of(path), *place)
        for path in MODULES
        for place in names_in(path)
        if place[0] in LEFT_BEHIND
    ]
    assert not left_behind


def test_what_begins_with_an_underscore_stays_in_its_module():
    private = [
        f"{name_of(path)}: {module}.{name}"
        for path in MODULES
        for module, names in imports_of(path)
        for name in (*module.split(".")[1:], *names)
        if name.startswith("_") and not name.startswith("__")
    ]
    assert not private


def test_every_part_has_its_layer():
    parts = {part_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert parts == set().union(*LAYERS)


def test_imports_point_one_way():
    level = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    upwards, strange = [], []
    for path in MODULES:
        part = part_of(path)
        if part not in level:  # mcage itself, which shows what its parts offer
            continue
        for imported in set(parts_imported(path)) & set(level):
            if level[imported] > level[part]:
                upwards.append((name_of(path), imported))
            if part in LAYERS[9] and imported not in KNOWN_TO_CAMPAIGNS:
                strange.append((name_of(path), imported))
    assert not upwards
    assert not strange


def module_of(path):
    """The name by which a file is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_imports_of_files_make_no_circle():
    """Neither at the top of a file, nor in a function, nor for types."""
    modules = {module_of(path): path for path in MODULES}
    graph = {}
    for module, path in modules.items():
        graph[module] = set()
        for source, names in imports_of(path):
            files = {f"{source}.{name}" for name in names} & modules.keys()
            graph[module] |= files
            if len(files) < len(names) or not names:
                graph[module].add(source)
        graph[module] -= {module, "mcage"}  # which names all that it shows, and imports it late
    assert set(TopologicalSorter(graph).static_order()) == modules.keys()


def test_imports_of_parts_make_no_circle():
    graph = defaultdict(set)
    for path in MODULES:
        part = part_of(path)
        if part not in ("__init__", "__main__"):
            graph[part] |= set(parts_imported(path)) - {part}
    assert list(TopologicalSorter(graph).static_order())


SMALL = {"__main__.py", "cli/main.py", "errors.py"}
"""Entry points, the one error, and where a format of traces is named."""


def test_no_file_is_too_small_for_a_story():
    small = [
        name_of(path)
        for path in MODULES
        if path.stem != "__init__"
        and path.name != COMMAND
        and len(path.read_text(encoding="utf-8").splitlines()) < 60
    ]
    assert set(small) <= SMALL


MOST_IMPORTS = 0.0775
MOST_CODE, MOST_MODULES, MOST_OF_TESTS = 58_200, 272, 41_700
"""Lines of code, modules, and lines of tests: who raises them says in the changelog for what."""


def code_lines(path):
    """Numbers of the lines with code, and of those with imports; docstrings are none."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    code = {number for number, line in lines if line.strip() and not line.strip().startswith("#")}
    imports = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= set(range(node.lineno, node.end_lineno + 1))
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            code -= set(range(node.lineno, node.end_lineno + 1))
    return code, imports & code


def test_the_code_does_not_grow_and_a_small_part_of_it_is_imports():
    lines = [tuple(map(len, code_lines(path))) for path in MODULES]
    code, imports = map(sum, zip(*lines, strict=True))
    assert code <= MOST_CODE
    assert len(MODULES) <= MOST_MODULES
    assert imports <= MOST_IMPORTS * code
    tests = sorted((ROOT / "tests").rglob("*.py"))
    assert sum(len(code_lines(path)[0]) for path in tests) <= MOST_OF_TESTS


# Wings: what stands above the core, and what they know of it.

WINGS = {
    "tracing": ("tracing",),
    "inject": ("studies.inject",),
    "papers": ("papers",),
    "methods": ("methods",),
    "gpus": (*("gpu", "studies.gpu_gating", "studies.gpu_heterogeneity", "studies.gpu_both"),),
}
"""Parts of mcage without which all others work, by the name of the wing."""

KNOWN_TO_WINGS = tomllib.loads((DATA / "wings.toml").read_text(encoding="utf-8"))
"""By wing, and module of the core: the names that the wing imports. Who adds one says for what."""

DOORS = {"cli", "functions", "__init__", "__main__"}
"""Parts through which users come to core and wings alike."""

KNOWN_TO_CORE = {"mcage.analysis.accessor": {"mcage.gpu.exchange", "mcage.gpu.exchange_shares"}}
"""What modules of the core know of wings: `exchanged` is a method of results."""


def wing_of(module):
    """Wing in which a module lies, or what is imported from one; empty for the core."""
    below = module.removeprefix("mcage.")
    parts = ((wing, part) for wing, of_wing in WINGS.items() for part in of_wing)
    return next((wing for wing, part in parts if f"{below}.".startswith(f"{part}.")), "")


def test_wings_reach_the_core_through_the_names_that_are_listed():
    names = {wing: defaultdict(set) for wing in WINGS}
    for path in MODULES:
        if wing := wing_of(module_of(path)):
            for module, imported in imports_of(path):
                for name in imported:
                    if not wing_of(f"{module}.{name}"):
                        names[wing][module].add(name)
    new = {
        f"{wing}: {module}.{name}"
        for wing, of_wing in names.items()
        for module, imported in of_wing.items()
        for name in imported - {*KNOWN_TO_WINGS[wing].get(module, ())}
    }
    assert not new
    listed = sum(len(imported) for of in KNOWN_TO_WINGS.values() for imported in of.values())
    assert listed - sum(len(of) for wing in names.values() for of in wing.values()) <= ROOM


ROOM = 10
"""Names that may stand on the list and are imported no more."""


def test_the_core_knows_no_wing():
    known = {}
    for path in MODULES:
        module = module_of(path)
        if part_of(path) not in DOORS and not wing_of(module):
            wings = {source for source, names in imports_of(path) for n in names if wing_of(source)}
            if wings:
                known[module] = wings
    assert all(
        any(source.startswith(allowed) for allowed in KNOWN_TO_CORE.get(module, ()))
        for module, sources in known.items()
        for source in sources
    ), known


MACHINERY = {"results", "report", "analysis", "campaign"}
OF_OLD_FILES = ("results/header.py", "sweep")
"""What files are of that name no study."""


def test_machinery_names_no_study():
    """Neither as a string, nor by an import: a study comes in by its entry point."""
    names = {*entry_points(group=HEADERS).names}
    named = {
        (name_of(path), node.value)
        for path in MODULES
        if part_of(path) in MACHINERY
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert len(names) == 6
    assert named <= {OF_OLD_FILES}
    for path in MODULES:
        if part_of(path) in MACHINERY - {"analysis"}:
            assert not {"studies", "gpu"} & set(parts_imported(path)), name_of(path)


OPTIONAL = {"cupy", "dask", "distributed", "triton", "zstandard", "IPython"}
"""What extras bring, and messages name where it is missing."""

BROUGHT = {"llvmlite": "numba", "markupsafe": "jinja2", "mpl_toolkits": "matplotlib"}
"""What comes with a dependency."""


def test_what_mcage_imports_is_installed_with_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.match(r"[\w-]+", text)[0].replace("-", "_") for text in project["dependencies"]}
    declared |= {name for name, by in BROUGHT.items() if by in declared}
    known = {*declared, *sys.stdlib_module_names, "mcage", *OPTIONAL}
    imported = set()
    for path in MODULES:
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                imported |= {(alias.name.split(".")[0], str(path)) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module.split(".")[0], str(path)))
    assert not {(name, path) for name, path in imported if name not in known}


def test_no_message_has_mcage_installed_from_an_index():
    """No index has it: `mcage.errors.pip_install` names the extras of a clone."""
    assert not [name_of(path) for path in MODULES if "mcage[" in path.read_text(encoding="utf-8")]


# What `mcage` offers: every name is there, documented, and known to type checkers.
#
# What they know of each is in `tests/support/user_types.py`, which `mypy` checks with the package.


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
