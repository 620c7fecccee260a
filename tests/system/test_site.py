"""The documentation as a site: it is built, complete, and needs no network; its start works."""

import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from places import ROOT, shown_files
from tables import each

import mcage
from mcage.report import folder as report_folder
from mcage.studies.gpu_gating.study import VARIABLES as OF_GATING
from mcage.studies.sweep.header import DRAW, MIX, NEW_FAULTS, VARIABLES, WORKLOAD

DOCS = ROOT / "docs"
NOTES = ROOT / "results"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
FETCHED = {"src", "srcset", "poster", "data", "action"}
"""Attributes whose addresses a browser fetches by itself; of links, only those of these kinds."""
FETCHED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "manifest"}


class Page(HTMLParser):
    """What a page of the site fetches, where it leads, and which places it has."""

    def __init__(self, path):
        super().__init__()
        self.fetched, self.links, self.ids, self.pictures = [], [], set(), []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.add(given.get("id"))
        self.fetched += [given[name] for name in FETCHED & given.keys()]
        if tag == "a":
            self.links.append(given.get("href") or "")
        if tag == "link" and FETCHED_LINKS & set(given.get("rel", "").split()):
            self.fetched.append(given["href"])
        if tag == "img":
            self.pictures.append(given)


def is_elsewhere(address):
    return re.match(r"(?:\w+:)?//|(?:https?|ftp):", address) is not None


@pytest.mark.slow
def test_site(tmp_path):
    """The site is built in a process of its own, without a dead link; the tutorials run by it."""
    line = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q"]
    site = tmp_path / "html"
    done = subprocess.run(
        [*line, "-d", tmp_path / "read", DOCS, site],
        capture_output=True,
        text=True,
        # The mcage that is tested, whose engine is compiled, and not another copy of it.
        env=os.environ | {"PYTHONPATH": str(Path(mcage.__file__).parents[1])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path: Page(path) for path in site.rglob("*.html")}

    fetched = {address for page in pages.values() for address in page.fetched}
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    fetched |= {address for style in styles for address in re.findall(r"url\(([^)]+)\)", style)}
    assert fetched
    assert not {address for address in fetched if is_elsewhere(address.strip("\"'"))}
    assert not [path for path, page in pages.items() if "mathjax" in page.text.lower()]

    # Pages of the repository that the site has are opened, not saved.
    saved = {Path(link).name for page in pages.values() for link in page.links if "_down" in link}
    assert {name for name in saved if name.endswith(".md")} <= {"README.md", "CONTRIBUTING.md"}
    assert {note.stem for note in NOTES.glob("*.md")} <= {p.stem for p in site.glob("results/*")}

    index = pages[site / "index.html"]
    sources = [path for kind in ("md", "rst") for path in DOCS.rglob(f"*.{kind}")]
    assert len(sources) > 30
    for source in sources:
        page = source.relative_to(DOCS).with_suffix(".html")
        assert page.name == "index.html" or str(page) in index.links, page

    assert len(TUTORIALS) == 7
    for tutorial in TUTORIALS:
        page = pages[site / "tutorials" / f"{tutorial.stem}.html"]
        cells = tutorial.read_text().count("```{code-cell}")
        hidden = tutorial.read_text().count("[remove-cell]")
        assert page.text.count('class="cell docutils container"') == cells - hidden, tutorial
        figures = [p for p in page.pictures if "_images" in p["src"]]
        assert figures, tutorial
        assert all(len(picture["alt"].split()) > 5 for picture in figures), tutorial
        assert 'class="cell_output' in page.text

    api = pages[site / "api.html"].text
    assert "Operating points of a life: turbo, undervolted" in api
    assert re.findall(r'<dt[^>]*id="(mcage\.\w+)"', api)[:2] == [
        "mcage.run_sweep",
        "mcage.SweepSpec",
    ]
    assert "SweepSpec" in re.search(r'id="mcage\.run_sweep">.*?</dt>', api, re.DOTALL)[0]
    names = {name for name in mcage.__all__ if not name.startswith("_")}
    assert {f"mcage.{name}" for name in names} <= pages[site / "api.html"].ids
    commands = pages[site / "commands.html"]
    assert {"cmdoption-mcage-sweep-technique", "cmdoption-mcage-gpu-gating-policy"} <= commands.ids
    variables = (*VARIABLES, WORKLOAD, *MIX, DRAW, NEW_FAULTS, *OF_GATING)
    shown = pages[site / "variables.html"].text
    assert not [variable.name for variable in variables if f'"pre">{variable.name}<' not in shown]


@pytest.mark.slow
def test_getting_started(command, tmp_path, monkeypatch):
    """Each command of the page, in order and in an empty folder, with few instances.

    Figures are files of one format, not of two: tests of reports look at both.
    """
    monkeypatch.setattr(report_folder, "FORMATS", ("png",))
    page = (DOCS / "getting-started.md").read_text(encoding="utf-8")
    for name, code in shown_files("getting-started.md").items():
        (tmp_path / name).write_text(code)
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ran = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    here = [line for line in ran if line[0] in ("mcage", "python")]
    assert [line for line in ran if line not in here] == [
        ["python3", "-m", "venv", ".venv"],
        [".venv/bin/pip", "install", "."],
        ["source", ".venv/bin/activate"],
        ["mkdir", "../mcage-first"],
        ["cd", "../mcage-first"],
    ]
    assert [line[1] for line in here] == [
        *("sweep", "show", "report", "record.py", "trace", "trace", "sweep", "report")
    ]
    for program, *arguments in here:
        if program == "python":
            subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=True)
            continue
        if "--instances" in arguments:
            arguments[arguments.index("--instances") + 1] = "2"
        if arguments == ["report", "sweep.h5", "--out", "sweep-report"]:
            continue  # takes seconds, and differs from the last command by its names alone
        code, out, said = command(*arguments)
        assert code == 0, said
        assert out
    assert (tmp_path / "sum-report" / "survival.png").stat().st_size > 10_000
    with mcage.open_results(tmp_path / "sweep.h5") as first:
        low = first.sel(technique="rrcd", vdd_volts=0.421)
        assert "`rrcd` saves a third of the energy" in page
        np.testing.assert_allclose(low["energy_saving"].values, 1 / 3, rtol=0.1)
    with mcage.open_results(tmp_path / "sum.h5") as own:
        new = own.sel(technique="rrcd", environment="turbo")["slowdown_new"].values
        assert f"down by {100 * new.mean():.1f} % from the first day" in page


@each("tutorial", TUTORIALS)
def test_tutorials_hold_what_they_say(tutorial):
    """Each has a list of what its numbers rest on, and says no number of a machine or a clock."""
    text = tutorial.read_text(encoding="utf-8")
    assert "\n## What to keep in mind\n" in text
    assert Path(tutorial).stem in (DOCS / "index.md").read_text(encoding="utf-8")
