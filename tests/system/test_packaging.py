"""The wheel and the source archive, made here and used where there is nothing else of mcage."""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from places import ROOT

import mcage

COMMANDS = """\
docs aging
cite
nbti --list
gpu gating --show-spec
trace list
sweep --instances 2 --technique baseline --kernel ScanLargeArrays --engine numpy --out r.h5
show r.h5
cite r.h5
"""
"""What needs pages, references, constants, descriptions of GPUs and traces."""


def run(*line, folder, **environment):
    """Output of a command that inherits next to nothing."""
    kept = {
        name: os.environ[name] for name in ("PATH", "HOME", "MCAGE_CACHE") if name in os.environ
    }
    done = subprocess.run(
        line, cwd=folder, env={**kept, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def built(target, source, folder):
    """What is built of the sources in a folder."""
    build = (sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder))
    run(*build, folder=source)
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the checkout."""
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def contents(wheel):
    """Content of each file; the list of digests is left out, which follows from the others."""
    with zipfile.ZipFile(wheel) as packed:
        return {n: packed.read(n) for n in packed.namelist() if not n.endswith("RECORD")}


@pytest.mark.slow
def test_the_source_archive_makes_the_same_wheel(wheel, tmp_path):
    archive = built("sdist", ROOT, tmp_path / "archive")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    again = built("wheel", tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path / "again")
    assert contents(again) == contents(wheel)


def test_the_wheel_has_more_than_modules(wheel):
    page = ("templates/page.html.j2", "static/report.css", "static/report.js")
    assert {
        *("mcage/docs/aging.md", "mcage/docs/tutorials/first-sweep.md"),
        *("mcage/kernels/walk.cu", "mcage/data/references.toml"),
        *(f"mcage/report/page/{name}" for name in page),
        "mcage/py.typed",  # or type checkers take every name for Any
        *(["mcage/commit.txt"] if (ROOT / ".git").exists() else []),
    } <= set(contents(wheel))


def take_code_over(site):
    """As after a first run, wherever a file is the same: to compile anew would take longest."""
    installed = Path(mcage.__file__).parent
    for theirs in installed.rglob("*.py"):
        ours = site / "mcage" / theirs.relative_to(installed)
        if ours.exists() and filecmp.cmp(theirs, ours, shallow=False):
            (ours.parent / "__pycache__").mkdir(exist_ok=True)
            for code in theirs.parent.glob(f"__pycache__/{theirs.stem}.*"):
                shutil.copy2(code, ours.parent / "__pycache__")
            shutil.copystat(theirs, ours)


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path):
    """Dependencies are those of this installation: the wheel says them, and pip reads them."""
    site, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    take_code_over(site)
    lines = ["import sys, mcage.cli.main as m"]
    lines += [
        f"sys.argv = {['mcage', *line.split()]}\ntry: m.main()\nexcept SystemExit as end: "
        "assert not end.code, sys.argv"
        for line in COMMANDS.splitlines()
    ]
    lines.append("print(m.__file__)")
    out = run(sys.executable, "-P", "-c", "\n".join(lines), folder=work, PYTHONPATH=str(site))
    assert "# Aging" in out
    assert "@article{valero-2019" in out
    assert (work / "r.h5").exists()
    assert out.splitlines()[-1].startswith(str(site))


def test_the_container_recipe_names_what_the_repository_has():
    recipe = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (?!--from)(\S+) ", recipe, re.M)
    assert copied == ["."]
    extras = set(re.findall(r"\[(cuda\d+)\]", recipe))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extras == {name for name in project["optional-dependencies"] if "cuda" in name}
    assert 'ENTRYPOINT ["mcage"]' in recipe
    assert "mcage" in project["scripts"]
    stages = re.findall(r"^FROM python:(\d)\.(\d+)-", recipe, re.M)
    least = re.search(r"(\d)\.(\d+)", project["requires-python"])
    assert len(stages) == 2
    assert all(tuple(map(int, s)) >= tuple(map(int, least.groups())) for s in stages)
