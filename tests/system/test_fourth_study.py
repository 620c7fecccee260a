"""Does a study of a user's own come in through the door of those that ship with mcage?"""

import csv
import io
import re
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest
import rails
from command_line import from_json, invoke

import mcage
from mcage.errors import UserError
from mcage.results import header as headers


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    out = tmp_path_factory.mktemp("rails") / "rails.h5"
    return mcage.run(rails.RailsSpec(instances=40), out, shard_size=15)


def test_it_computes_what_its_equation_says(path):
    with mcage.open_results(path) as results:
        air, water = results["rail_years"].values
        summary = results.mcage.summary()
    expected = np.exp(0.9 / 8.617e-5 * (1 / 338 - 1 / 353))
    assert water / air == pytest.approx(expected)
    assert summary["cooling"].tolist() == ["air", "water"]


def test_its_measure_stands_in_every_form_of_show(path):
    words = " ".join(invoke("show", path).output.split())
    assert words.startswith("40 GPUs")
    assert "life: of the first rail that fails" in words
    air, water = from_json("show", path)
    assert (air["cooling"], air["instances"]) == ("air", 40)
    assert air["rail_life_years"]["value"] < water["rail_life_years"]["value"]
    only = from_json("show", path, "--where", "cooling=water")
    assert only == [water]
    lines = list(csv.DictReader(io.StringIO(invoke("show", path, "--csv").output)))
    assert [float(line["rail_life_years"]) for line in lines] == [
        of["rail_life_years"]["value"] for of in (air, water)
    ]
    assert set(lines[0]) >= {"cooling", "rail_life_years_lower", "rail_life_years_upper"}


def test_its_measure_stands_in_tables_for_papers(path):
    latex = invoke("show", path, "--latex").stdout.splitlines()
    assert latex[:3] == [r"\begin{tabular}{lr}", r"\toprule", r"cooling & life [years] \\"]
    assert re.fullmatch(r"air & \d+\.\d+ \$\\pm\$\d+\.\d+ \\\\", latex[4])
    markdown = invoke("show", path, "--markdown").stdout.splitlines()
    assert markdown[:2] == ["| cooling | life [years] |", "| --- | ---: |"]
    assert re.fullmatch(r"\| water \| \d+\.\d+ ±\d+\.\d+ \|", markdown[3])
    refused = invoke("show", path, "--latex", "--csv")
    assert "--csv and --latex are two forms" in str(refused.exception)


def test_its_figure_and_its_words_are_in_the_report(path, tmp_path):
    page = mcage.write_report(path, tmp_path / "report").read_text()
    assert "The study gpu-rails with 40 GPUs and seed 1." in page
    assert "<strong>water:</strong>" in page
    assert re.search(r"life of the first rail \d+\.\d+ \[\d+\.\d+, \d+\.\d+\] years\.", page)
    assert "Black&#39;s equation; lives are lognormal." in page
    assert "Lives of rails" in page
    assert (tmp_path / "report" / "rails.pdf").is_file()
    assert "40 GPUs. Medians and quantiles." in page


def test_its_measure_may_stop_it(tmp_path):
    rule = {"rel_ci": 0.05, "of": "rail_life"}
    path = mcage.run(rails.RailsSpec(instances=4000, stopping=rule), tmp_path / "s.h5")
    with mcage.open_results(path) as results:
        assert results.sizes["instance"] == 500
        assert "rail_life to ±5 % in every case" in results.attrs["stopped"]
    with pytest.raises(UserError, match=r"must be one of rail_life$"):
        rails.Rails.study_of_spec(rails.RailsSpec(stopping=rule | {"of": "rail_years"}))


def test_cases_of_two_files_are_compared(path, tmp_path):
    warmer = rails.RailsSpec(instances=40, kelvin=(363.0, 353.0))
    other = mcage.run(warmer, tmp_path / "warmer.h5")
    (comparison,) = from_json("compare", path, other, "--allow", "kelvin")
    assert [pair["case"] for pair in comparison["pairs"]] == ["air", "water"]
    for pair in comparison["pairs"]:
        assert [*pair["lines"]] == ["rail_life_years"]
        assert pair["lines"]["rail_life_years"]["difference"]["lower"] > 0
    with mcage.open_results(path) as results:
        paired = results.mcage.paired("water", "air")
    assert paired["quantity"].tolist() == ["rail_life_years"]
    assert paired["difference_lower"][0] > 0


def test_its_cases_make_a_front(path, tmp_path):
    def front(better, *options):
        objectives = ("--objective", "rail_life", "--objective", f"cooling_watts:{better}")
        of = from_json("pareto", path, *objectives, *options)
        return of, [(of["cooling"], of["front_probability"]) for of in of["designs"]]

    of, shares = front("min", "--figure", str(tmp_path / "front.svg"))
    assert shares == [("air", 1.0), ("water", 1.0)]
    assert (tmp_path / "front.svg").is_file()
    air, water = from_json("show", path)
    lives = [design["objectives"]["rail_life_years"] for design in of["designs"]]
    assert lives == [air["rail_life_years"], water["rail_life_years"]]
    assert front("max")[1] == [("air", 0.0), ("water", 1.0)]
    lives = ("--objective", "rail_life_years")
    for words, options in (
        ("has no two measures of which is known what is better", ()),
        ("say what is better, cooling_watts:min or", ("--objective", "cooling", *lives)),
        ("choose from rail_life_years, rail_years, cooling", ("--objective", "area", *lives)),
    ):
        assert words in str(invoke("pareto", path, *options).exception)


def test_an_installed_study_is_found_by_its_entry_point(path, monkeypatch):
    """As those of mcage are, and as that of a package of a user's would be."""
    assert set(headers.studies()) >= {"sweep", "gpu-gating", "gpu-heterogeneity", "gpu-both"}
    monkeypatch.setattr(headers, "_registered", {})
    assert headers.header_class("gpu-rails") is headers.DeclaredHeader
    entry = EntryPoint("gpu-rails", f"{rails.__name__}:RailsHeader", headers.HEADERS)
    monkeypatch.setattr(headers, "_registered", {})
    monkeypatch.setattr(headers, "entry_points", lambda **_: EntryPoints([entry]))
    assert headers.header_class("gpu-rails") is rails.RailsHeader
