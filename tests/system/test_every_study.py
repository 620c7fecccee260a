"""Files of every study, protection and cell: each is shown in every way, or refused in words."""

import csv
import io
import json
import math
import re
from functools import cache
from itertools import islice

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from amd_tools import needs_clang
from faulty_oracle import BLEND, BLEND_ARGUMENTS
from gpu_cases import gating
from sweep_cases import small_sweep

import mcage
from mcage.campaign.run import run_campaign
from mcage.engines.select import select_engine
from mcage.errors import UserError
from mcage.report import folder as report_folder
from mcage.report.cases import Condition, points_of, selected_cases
from mcage.report.presentation import figures_of, presentation_of
from mcage.results.reader import read_header
from mcage.studies.gpu_both.spec import BothSpec
from mcage.studies.gpu_both.study import Both
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.gpu_heterogeneity.study import Heterogeneity
from mcage.studies.inject.outcomes import Fate
from mcage.studies.inject.spec import InjectSpec
from mcage.studies.inject.study import InjectStudy
from mcage.studies.vmin.study import VminSpec, VminStudy

WORKLOAD = {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 2}
FEW = {"workload": WORKLOAD, "life": {"epochs": 2}, "seed": 5}


def sweep(*protections, instances=4, **fields):
    given = {"techniques": ["baseline", "rrcd"], "environments": ["dvfs"], "instances": instances}
    return small_sweep(protections=list(protections), **given | fields).study


def vmin(*protections):
    given = {"techniques": ["baseline", "rrcd"], "instances": 4, "vmin": {"ages_years": [0, 10]}}
    fields = FEW | given | {"protections": list(protections)}
    return VminStudy(VminSpec.from_mapping(fields), *select_engine("numba")).study


def inject(folder, fault, *protections):
    (folder / "blend.cl").write_text(BLEND)
    (folder / "blend.py").write_text(BLEND_ARGUMENTS)
    program = {"source": str(folder / "blend.cl"), "args": str(folder / "blend.py")}
    fields = {
        "program": program | {"arch": "gfx900"},
        "techniques": ["baseline", "rrcd"],
        "protections": list(protections),
        "inject": {"fault": fault, "ages_years": [0, 5]},
        "instances": 6,
    }
    return InjectStudy(InjectSpec.from_mapping(fields), *select_engine("numba")).study


def both():
    fields = {
        "instances": 2,
        "gating": {"policies": ["default", "round-robin"]},
        "sweep": {"techniques": ["baseline", "rrcd"], "workload": WORKLOAD},
    }
    return Both(BothSpec.from_mapping(fields), *select_engine("numba")).study


STUDIES = {
    "sweep": lambda _: sweep("ecp1"),
    "sweep-code": lambda _: sweep("secded32", techniques=["baseline"]),
    "sweep-codes": lambda _: sweep("none", "ecp1", "secded64x4", "secded32+ecp1", "ecp1+spare8"),
    "sweep-8t": lambda _: sweep(
        "ecp1", "secded64", techniques=["rrcd"], faults={"cell": "8t"}, environments=["turbo"]
    ),
    "vmin-ecp1": lambda _: vmin("ecp1"),
    "vmin-codes": lambda _: vmin("none", "secded32x4", "ecp1+spare8"),
    "flip": lambda folder: inject(folder, "flip", "none", "secded32"),
    "stuck": lambda folder: inject(folder, "stuck", "ecp1", "secded32x4"),
    "gating": lambda _: gating(policies=["default", "round-robin"], instances=2).study,
    "heterogeneity": lambda _: Heterogeneity(HeterogeneitySpec(instances=4)).study,
    "both": lambda _: both(),
}

KEYS = ("technique", "protection", "environment", "scenario", "policy", "reading", "design")
CASES = [
    pytest.param(name, marks=needs_clang if name in ("flip", "stuck") else ()) for name in STUDIES
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")

    @cache
    def made(name):
        study = STUDIES[name](folder)
        return run_campaign(study, folder / f"{name}.h5", study.header.instances)

    return made


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def said(code, out, err):
    """What a command says, which ends well or is refused in two lines at most."""
    assert code in (0, 2), err
    assert "Traceback" not in err
    if code == 2:
        assert out == ""
        assert err.startswith("error: ")
        assert len(err.splitlines()) <= 2
    return code == 0


@pytest.mark.parametrize("name", CASES)
def test_every_file_has_a_page(name, files, command, tmp_path, monkeypatch):
    monkeypatch.setattr(report_folder, "FORMATS", ())
    assert said(*command("report", files(name), "--out", "page"))
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "cannot be drawn again" not in page


@pytest.mark.parametrize("name", CASES)
def test_every_file_is_shown_in_every_form(name, files, command):
    path = files(name)
    for form in ((), ("--wide",)):
        assert said(*command("show", path, *form))
    code, out, _ = command("show", path, "--json")
    assert (code, len(json.loads(out)) > 0) == (0, True)
    code, out, _ = command("show", path, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, len(rows) > 0) == (0, True)
    for key in [key for key in KEYS if key in rows[0]]:
        value = rows[-1][key]
        code, out, _ = command("show", path, "--csv", "--where", f"{key}={value}")
        chosen = list(csv.DictReader(io.StringIO(out)))
        assert code == 0
        assert [row[key] for row in chosen] == [r[key] for r in rows if r[key] == value]
    code, _, err = command("show", path, "--where", "nothing=1")
    assert code == 2
    assert "the keys are" in err


@pytest.mark.parametrize("name", CASES)
def test_every_report_is_of_the_cases_that_are_asked_for(
    name, files, command, tmp_path, monkeypatch
):
    drawn = report_folder.figures_of
    monkeypatch.setattr(report_folder, "FORMATS", ())
    monkeypatch.setattr(report_folder, "figures_of", lambda *given: islice(drawn(*given), 1))
    path = files(name)
    with mcage.open_results(path) as results:
        values = {key: str(results[key].values[-1]) for key in KEYS if key in results.coords}
    for key, value in values.items():
        if said(*command("report", path, "--out", key, "--where", f"{key}={value}")):
            page = (tmp_path / key / "index.html").read_text(encoding="utf-8")
            assert f"Only cases with {key}={value} are shown" in page
        else:
            assert name in ("heterogeneity", "both")  # which compare all of their cases
    code, _, err = command("report", path, "--out", "none", "--where", "nothing=1")
    assert code == 2
    assert all(key in err for key in values)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", CASES)
def test_a_technique_selects_its_cases_under_every_protection(name, files, command):
    """Also beside a condition on the protection; and a message says the name that does so."""
    path = files(name)
    with mcage.open_results(path) as results:
        if "case" not in results.dims:
            return
        axes = points_of(results)
    technique, guard = axes[-1]["technique"], axes[-1]["protection"]
    of_it = [axis for axis in axes if axis["technique"] == technique]
    for where, chosen in (
        ((), of_it),
        ((f"protection={guard}",), [axis for axis in of_it if axis["protection"] == guard]),
    ):
        options = [o for text in (f"technique={technique}", *where) for o in ("--where", text)]
        expected = {(axis["technique"], axis["protection"]) for axis in chosen}
        code, out, _ = command("show", path, "--csv", *options)
        rows = list(csv.DictReader(io.StringIO(out)))
        assert {(row["technique"], row["protection"]) for row in rows} == expected
        code, out, err = command("compare", path, path, "--json", *options)
        assert code == 0, err
        assert all(axis["case"] in out for axis in chosen)
        assert not any(f'"{axis["case"]}' in out for axis in axes if axis not in chosen)
        if "sweep" in name:
            code, out, _ = command("pareto", path, "--csv", *options)
            assert (code, out.count("\n")) == (0, 1 + len(chosen))
        with mcage.open_results(path) as results:
            left = selected_cases(results, [Condition.parse(text) for text in options[1::2]])
            assert left["case"].values.tolist() == [axis["case"] for axis in chosen]
    code, _, err = command("show", path, "--where", "technique=none")
    names = dict.fromkeys(axis["technique"] for axis in axes)
    assert (code, err.rstrip().endswith(f"values of technique: {', '.join(names)}")) == (2, True)
    with mcage.open_results(path) as results:
        for axis in axes:
            name = f"{axis['technique']}@{axis['protection']}"
            if sum(name == f"{of['technique']}@{of['protection']}" for of in axes) == 1:
                assert results.mcage.case(name)["case"].item() == axis["case"]


CALLS = {
    "case": lambda of, names: of.case(names[0]),
    "paired": lambda of, names: of.paired(names[0], names[-1]),
    "outliving": lambda of, names: of.outliving(names[0], names[-1]),
    "rate_at": lambda of, _: of.rate_at(5.0),
    "iter_pandas": lambda of, _: list(of.iter_pandas()),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::mcage.analysis.grid.DependentSlicesWarning")
def test_every_method_answers_for_every_file_or_refuses(name, files):
    with mcage.open_results(files(name)) as results:
        of = results.mcage
        frame = of.summary()
        assert len(frame) > 0
        assert not frame.columns.has_duplicates
        names = [case.name for case in mcage.analysis.grid.cases_of(results)]
        for method in [method for method in dir(of) if not method.startswith("_")]:
            call = CALLS.get(method, lambda of, _, method=method: getattr(of, method)())
            try:
                answer = call(of, names)
            except UserError:
                continue
            if isinstance(answer, pd.DataFrame):
                assert len(answer) > 0, method
        table = of.latex().splitlines()
        assert (table[1], table[-2]) == (r"\toprule", r"\bottomrule")
        for line in (table[2], *table[4:-2]):
            bare = re.sub(r"\\[&%#_{}$]|\$[^$]*\$|\{\}", "", line.removesuffix(r" \\"))
            assert bare.count("&") == len(table[0].rpartition("{")[2]) - 2
            assert not set(bare) & set("%#_{}$^~±≤–>")
            assert line is table[2] or not re.search(r"\b(inf|nan)\b", bare.lower()), bare


# Unknown is not zero, and drops out of no mean.


def presented(path, **replaced):
    """Results of a file in which variables are replaced, how they are shown, and their figures."""
    header = read_header(path)
    with mcage.open_results(path) as opened:
        results = opened.load().assign(
            {name: opened[name].copy(data=values) for name, values in replaced.items()}
        )
    return presentation_of(header), header, results


def energy_of(path, saved):
    shown, header, results = presented(path, energy_saving_nominal=saved)
    figures = {figure.name: figure for figure in figures_of(header, results, 180.0)}
    return shown.summarize(results), figures["vmin-energy"]


def test_unknown_energy_of_slices_that_work_is_drawn_nowhere(files):
    path = files("vmin-ecp1")
    with mcage.open_results(path) as results:
        saved = results["energy_saving_nominal"].values.copy()
        works = results["vmin_volts"].values[..., -1:] <= results["vdd"].values
    rows, figure = energy_of(path, np.full_like(saved, np.nan))
    assert all(math.isnan(row.energy_saved.value) for row in rows)
    assert [panel.title for panel in figure.panels] == ["work until 10 years"]
    assert "is not known" in figure.caption
    # One slice is enough, where it works; where it does not, it saves nothing.
    saved[0, 0] = np.nan
    rows, figure = energy_of(path, saved)
    curves = {series.case: series.y for series in figure.panels[0].series}
    first, *others = curves.values()
    np.testing.assert_array_equal(np.isnan(first), works[0, 0])
    assert not np.isnan(others).any()
    assert any("unknown" in text.get_text() for text in figure.figure.findobj(plt.Text))


@needs_clang
def test_slices_whose_fate_is_unknown_are_not_harmless(files):
    path = files("stuck")
    with mcage.open_results(path) as results:
        fate = results["fate"].values.copy()
    fate[0] = Fate.NOT_EMULATED
    shown, _, results = presented(path, fate=fate)
    rows = shown.summarize(results)
    unknown, known = rows[:2], rows[2:]  # at both ages
    assert all(math.isnan(row.silent_until.value) for row in unknown)
    assert not any(math.isnan(row.silent_until.value) for row in known)
    # What is counted over a life stands beside its last age.
    last = [row.age_years == 5 for row in rows]
    assert [row.before_exchange is not None for row in rows] == last
    frame = results.mcage.summary()
    assert frame["before_exchange"].notna().tolist() == [False, False, *last[2:]]


def test_a_figure_without_a_value_does_not_say_zero(files):
    path = files("gating")
    with mcage.open_results(path) as results:
        names = [name for name in results.data_vars if "age" in results[name].dims]
        unknown = {name: np.full(results[name].shape, np.nan) for name in names}
    _, header, results = presented(path, **unknown)
    absent = [figure for figure in figures_of(header, results, 180.0) if hasattr(figure, "reason")]
    assert absent
    assert {figure.reason for figure in absent} == {"No GPU has a value."}


def test_of_no_cells_there_is_no_share(files):
    path = files("sweep")
    with mcage.open_results(path) as results:
        nothing = np.zeros_like(results["dvth_histogram"].values)
    _, _, results = presented(path, dvth_histogram=nothing)
    assert results.mcage.histogram()["share"].isna().all()
