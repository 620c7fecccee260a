"""Does a study of a user's own come in through the door of those that ship with mcage?"""

import json
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest
import rails
from command_line import invoke

import mcage
from mcage.results import header as headers


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    out = tmp_path_factory.mktemp("rails") / "rails.h5"
    return mcage.run_gpu(rails.RailsSpec(instances=40), out, shard_size=15)


def test_it_computes_what_its_equation_says(path):
    with mcage.open_results(path) as results:
        air, water = results["rail_years"].values
        summary = results.mcage.summary()
    expected = np.exp(0.9 / 8.617e-5 * (1 / 338 - 1 / 353))
    assert water / air == pytest.approx(expected)
    assert summary["cooling"].tolist() == ["air", "water"]


def test_its_table_is_that_of_show(path):
    assert "Power rails" in invoke("show", path).output
    air, water = json.loads(invoke("show", path, "--json").output)
    assert air["cooling"] == "air"
    assert air["life"]["value"] < water["life"]["value"]
    only = json.loads(invoke("show", path, "--json", "--where", "cooling=water").output)
    assert only == [water]


def test_its_figure_and_its_words_are_in_the_report(path, tmp_path):
    page = mcage.write_report(path, tmp_path / "report").read_text()
    assert "The rails of 40 GPUs." in page
    assert "lengthens lives 3.7 times." in page
    assert "Black&#39;s equation; lives are lognormal." in page
    assert "Lives of rails" in page
    assert (tmp_path / "report" / "rails.pdf").is_file()
    assert "40 GPUs. Medians and quantiles." in page


def test_cases_of_two_files_are_compared(path, tmp_path):
    warmer = rails.RailsSpec(instances=40, kelvin=(363.0, 353.0))
    other = mcage.run_gpu(warmer, tmp_path / "warmer.h5")
    line = invoke("compare", path, other, "--allow", "kelvin", "--json")
    (comparison,) = json.loads(line.output)
    assert [pair["case"] for pair in comparison["pairs"]] == ["air", "water"]


def test_an_installed_study_is_found_by_its_entry_point(path, monkeypatch):
    """As those of mcage are, and as that of a package of a user's would be."""
    assert set(headers.studies()) >= {"sweep", "gpu-gating", "gpu-heterogeneity", "gpu-both"}
    monkeypatch.setattr(headers, "_registered", {})
    assert headers.header_class("gpu-rails") is headers.DeclaredHeader
    entry = EntryPoint("gpu-rails", f"{rails.__name__}:RailsHeader", headers.HEADERS)
    monkeypatch.setattr(headers, "_registered", {})
    monkeypatch.setattr(headers, "entry_points", lambda **_: EntryPoints([entry]))
    assert headers.header_class("gpu-rails") is rails.RailsHeader
