"""Does mcage know its commit, and does its digest cover all that decides results?"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from itertools import pairwise
from modulefinder import ModuleFinder
from pathlib import Path
from types import ModuleType

import pytest
from places import ROOT

import mcage
from mcage import version
from mcage.version import KERNELS, code_digest, commit_of_checkout, deciding_sources, running_code

PACKAGE = Path(mcage.__file__).parent
# Of the checkout: an installed mcage lies elsewhere.
BUILD_HOOK = ROOT / "hatch_build.py"

with_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git")


class ImportsWhenRun(ModuleFinder):
    """Modules that others import, wherever in them.

    What `mcage` names for type checkers alone is imported by none that computes.
    """

    def scan_code(self, code, module):
        if module.__name__ != "mcage":
            super().scan_code(code, module)


def test_everything_that_a_sweep_imports_enters_the_digest():
    finder = ImportsWhenRun([str(PACKAGE.parent)])
    for module in ("mcage.studies.sweep.study", "mcage.campaign.merge"):
        finder.import_hook(module)
    files = [Path(it.__file__) for it in finder.modules.values() if it.__file__]
    names = {file.relative_to(PACKAGE).as_posix() for file in files}
    assert len(names) > 100
    assert {name for name in names if not name.endswith("__init__.py")} <= set(deciding_sources())


def test_kernels_and_constants_enter_the_digest_and_what_prints_does_not():
    names = set(deciding_sources())
    computes = {"kernels/walk.cu", "kernels/stress.cuh", "data/costs.toml", "spec/__init__.py"}
    prints = {"cli/show.py", "report/presentation.py", "studies/reproduction/table.py"}
    tables = {"data/published.csv", "data/sensitivity.toml", "data/differences.toml"}
    assert computes <= names
    assert not (prints | tables) & names
    assert all(name.endswith((".py", ".cu", ".cuh", ".toml")) for name in names)


def test_the_digest_follows_the_sources(tmp_path, monkeypatch):
    ignored = shutil.ignore_patterns("__pycache__", "*.h5", "*.xz")
    shutil.copytree(PACKAGE, tmp_path / "mcage", ignore=ignored)
    shutil.copytree(KERNELS, tmp_path / "mcage" / "kernels", dirs_exist_ok=True)
    monkeypatch.setattr(version, "PACKAGE", tmp_path / "mcage")
    digests = [code_digest()]
    for name in (
        "engines/numpy_engine/__init__.py",
        "kernels/place.cu",
        "data/variation.toml",
        "cli/show.py",
        "report/figures/lives.py",
    ):
        digests.append(code_digest.__wrapped__())
        source = tmp_path / "mcage" / name
        source.write_bytes(source.read_bytes()[::-1])  # as long as before
    digests.append(code_digest.__wrapped__())
    changed = [before != after for before, after in pairwise(digests)]
    assert changed == [False, True, True, True, False, False]


HELPED = {
    "wear_with_help.py": "import wear_helper\nfrom wear_parts import first\n",
    "wear_helper.py": "def late():\n    from wear_deeper import K\n    return K\n",
    "wear_deeper.py": "import wear_with_help\nimport numpy\nK = 1\n",
    "wear_parts/__init__.py": "from . import second\n",
    "wear_parts/first.py": "from .below.third import X\nimport wear_parts.not_there\n",
    "wear_parts/second.py": "",
    "wear_parts/below/third.py": "X = 1\n",
}


def test_what_a_plug_in_imports_from_its_folder_enters_the_code(tmp_path, monkeypatch):
    for helper, text in HELPED.items():
        (tmp_path / helper).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / helper).write_text(text)
    wear = imported_from(tmp_path / "wear_with_help.py")
    monkeypatch.setitem(sys.modules, "wear_with_help", wear)
    before = running_code(["wear_with_help"])
    assert re.fullmatch("wear_with_help [0-9a-f]{16}", before.plug_ins)
    assert not before.computes_as(running_code())
    (tmp_path / "beside.py").write_text("K = 2\n")
    assert running_code(["wear_with_help"]) == before
    for name in HELPED:
        with (tmp_path / name).open("a") as source:
            source.write("# changed\n")
        after = running_code(["wear_with_help"])
        assert after.digest == before.digest == running_code().digest
        assert not after.computes_as(before), name
        before = after


@pytest.mark.parametrize(("folder", "helps"), [("site-packages", False), ("lib", True)])
def test_of_an_installed_plug_in_its_own_package_enters_the_code(
    folder, helps, tmp_path, monkeypatch
):
    package = tmp_path / folder / "installed_wear"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "law.py").write_text("import installed_helper\nfrom installed_wear import own\n")
    monkeypatch.setitem(sys.modules, "installed_wear.law", imported_from(package / "law.py"))
    code = [running_code(["installed_wear.law"])]
    for path in ("own.py", "__init__.py", "../installed_helper.py"):
        (package / path).write_text("K = 1\n")
        code.append(running_code(["installed_wear.law"]))
    changed = [not after.computes_as(before) for before, after in pairwise(code)]
    assert changed == [True, True, helps]


def imported_from(path):
    """Stands for an imported module, of which only the file is looked at."""
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    return module


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ("git", "-C", str(folder), *identity, *words)
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return run.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one commit, and that commit."""
    (tmp_path / "mcage").mkdir()
    for name in ("hatch_build.py", "README.md", "mcage/a.py"):
        (tmp_path / name).write_text("one\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    return tmp_path, git(tmp_path, "rev-parse", "HEAD")[:7]


@with_git
def test_the_commit_of_a_checkout(checkout, monkeypatch):
    root, commit = checkout
    assert commit_of_checkout(root) == commit
    (root / "README.md").write_text("two\n")
    (root / "notes.txt").write_text("two\n")
    assert commit_of_checkout(root) == commit
    git(root, "worktree", "add", "--quiet", "--detach", str(root / "linked"))
    assert commit_of_checkout(root / "linked") == commit
    monkeypatch.setenv("GIT_DIR", str(root / "nowhere"))
    assert commit_of_checkout(root) == commit


@with_git
def test_changes_to_the_package_make_it_dirty(checkout, monkeypatch):
    root, commit = checkout
    monkeypatch.setattr(version, "PACKAGE", root / "mcage")
    text = version.version_text.__wrapped__
    assert text() == f"{mcage.__version__}+g{commit}"
    (root / "mcage" / "new.py").write_text("two\n")
    assert text() == f"{mcage.__version__}+g{commit}.dirty"
    git(root, "add", ".")
    assert commit_of_checkout(root) == f"{commit}.dirty"
    git(root, "commit", "--quiet", "-m", "two")
    assert re.fullmatch("[0-9a-f]{7}", commit_of_checkout(root))
    (root / "mcage" / "a.py").write_text("two\n")
    assert commit_of_checkout(root).endswith(".dirty")
    (root / "mcage" / "commit.txt").write_text("1234567")
    assert text() == f"{mcage.__version__}+g1234567"
    (root / "mcage" / "commit.txt").unlink()
    shutil.rmtree(root / ".git")
    assert text() == f"{mcage.__version__} (unknown commit)"


@with_git
def test_no_commit_is_made_up(checkout, monkeypatch, tmp_path):
    root, _ = checkout
    assert commit_of_checkout(root / "mcage") == ""  # within a checkout, not its top
    (root / "hatch_build.py").unlink()
    assert commit_of_checkout(root) == ""  # somebody else's repository
    (root / "hatch_build.py").touch()
    shutil.rmtree(root / ".git")
    git(root, "init", "--quiet")
    assert commit_of_checkout(root) == ""  # no commit yet
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert commit_of_checkout(root) == ""  # no git


def build_hook(monkeypatch, root):
    """The build hook, under a stand-in for the interface that the build tool brings."""
    name = "hatchling.builders.hooks.plugin.interface"
    for end in [place.end() for place in re.finditer(r"\w+", name)]:
        monkeypatch.setitem(sys.modules, name[:end], ModuleType(name[:end]))
    sys.modules[name].BuildHookInterface = object
    monkeypatch.setattr(sys, "path", list(sys.path))
    hook = runpy.run_path(str(BUILD_HOOK))["PackageHook"]()
    hook.root, hook.target_name = str(root), "wheel"
    return hook


@with_git
def test_wheels_carry_the_commit_and_editable_installs_do_not(checkout, monkeypatch):
    root, commit = checkout
    hook = build_hook(monkeypatch, root)
    build = {"force_include": {}}
    hook.initialize("editable", build)
    assert build == {"force_include": {}}
    hook.initialize("standard", build)
    added = {place: file for file, place in build["force_include"].items()}
    assert added.keys() == {f"mcage/{version.COMMIT_FILE}", "mcage/kernels"}
    file = added[f"mcage/{version.COMMIT_FILE}"]
    assert Path(file).read_text() == commit
