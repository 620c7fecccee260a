"""The examples of the page on results in Python run, one after the other, as they stand."""

import re
from itertools import product

import matplotlib.pyplot as plt
import pytest
from fake_campaign import case, write
from places import ROOT

INSTANCES = 40
CASES = tuple(product(("baseline", "rrcd", "rrcd+rc+rar"), ("turbo", "dvfs")))


def file_of_page(path):
    """Results of a fake campaign of the cases that the page names."""
    volts = {"turbo": (1.0,), "dvfs": (0.8, 0.419)}
    cases = tuple(case(technique, of, volts=volts[of]) for technique, of in CASES)
    write(path, (INSTANCES,), [1, 2] * 3, cases=cases)


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    text = (ROOT / "docs/analysis.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    monkeypatch.chdir(tmp_path)
    for name in ("results.h5", "other.h5"):
        file_of_page(tmp_path / name)
    names = {}
    for code in blocks:
        exec(compile(code, "analysis.md", "exec"), names)
    assert names["low"].sizes["case"] == 1
    assert names["several"].sizes["case"] == 2
    assert names["life"].dims == ("technique", "instance")
    assert names["changed"]["difference"].tolist() == pytest.approx([0] * 7)
    assert b"/Type3" not in (tmp_path / "survival.pdf").read_bytes(), "fonts that journals refuse"
    assert names["lives"].shape[0] == len(CASES) * INSTANCES
    names["results"].close()
    plt.close("all")
