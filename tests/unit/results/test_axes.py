"""Does an axis that is declared once come in everywhere? Are curves along an axis told apart?"""

import csv
import io
import json

import pytest
from command_line import invoke
from sweep_cases import small_sweep

import mcage
from mcage.campaign.run import run_campaign
from mcage.errors import UserError
from mcage.report.cases import axes_of, points_of
from mcage.report.figures import against
from mcage.results.axes import Axis, along, find_point, label_of, labelled
from mcage.studies.sweep.axes import AXES
from mcage.studies.sweep.header import SweepHeader

CLOCK = Axis(
    "clock_ghz",
    "clock",
    of=lambda planned: 1.2 if planned.case.protection == "ecp1" else 0.9,
    units="GHz",
    dtype="float64",
    key="clock",
)


@pytest.fixture(scope="module")
def clocked_file(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SweepHeader, "axes", (*AXES, CLOCK))
        study = small_sweep(
            techniques=["baseline", "rrcd"], protections=["ecp1", "secded32"], instances=4
        ).study
        return run_campaign(study, tmp_path_factory.mktemp("clock") / "c.h5", 4)


@pytest.fixture
def clocked(clocked_file, monkeypatch):
    """A sweep with one axis more than the others, and its file."""
    monkeypatch.setattr(SweepHeader, "axes", (*AXES, CLOCK))
    return clocked_file


def lines_of(*arguments):
    return list(csv.DictReader(io.StringIO(invoke(*arguments, "--csv").stdout)))


def test_an_axis_is_declared_once(clocked):
    with mcage.open_results(clocked) as results:
        clocks = results["clock_ghz"].values.tolist()
        assert sorted(set(clocks)) == [0.9, 1.2]
        assert (results["clock_ghz"].dims, results["clock_ghz"].attrs["units"]) == (
            ("case",),
            "GHz",
        )
        assert results["case"].values[0].endswith("1.2 GHz")
        slow = results.sel(clock_ghz=0.9, technique="rrcd")
        assert set(slow["protection"].values) == {"secded32"}
        frame = results.mcage.summary()
        assert frame["clock_ghz"].tolist() == clocks
        assert results.mcage.to_pandas()["clock_ghz"].nunique() == 2
        assert results.mcage.cube("technique", "environment", "clock_ghz")["clock_ghz"].size == 2
        assert results.mcage.case("rrcd turbo 0.9")["clock_ghz"].item() == 0.9
    assert [line["clock_ghz"] for line in lines_of("show", clocked)] == [str(c) for c in clocks]
    said = json.loads(invoke("show", clocked, "--json").stdout)
    assert [case["clock_ghz"] for case in said] == clocks
    heading = invoke("show", clocked, "--wide").stdout.partition("──")[0]
    assert "clock" in heading
    assert "[GHz]" in heading
    for condition in ("clock=0.9", "clock_ghz<1"):
        chosen = lines_of("show", clocked, "--where", condition)
        assert {line["clock_ghz"] for line in chosen} == {"0.9"}
    fastest = lines_of("show", clocked, "--sort=-clock_ghz")[0]
    assert fastest["clock_ghz"] == "1.2"
    pair = json.loads(
        invoke("show", clocked, "--json", "--compare", "rrcd turbo 0.9", "rrcd turbo 1.2").stdout
    )
    assert pair["first"].endswith("0.9 GHz")


def test_files_without_the_axis_are_not_those_of_this_study(clocked):
    """Once the axis is gone again, its file holds an array that nobody declares."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SweepHeader, "axes", AXES)
        with pytest.raises(UserError, match="clock_ghz"):
            mcage.open_results(clocked)


HOTTER = {
    "cool": [{"vdd_volts": 1.0, "temperature_offset_kelvin": -20.0}],
    "hot": [{"vdd_volts": 1.0, "temperature_offset_kelvin": 15.0}],
    "both": [
        {"vdd_volts": 1.0, "share": 0.5},
        {"vdd_volts": 0.8, "temperature_offset_kelvin": 30.0},
    ],
}


@pytest.fixture(scope="module")
def heated(tmp_path_factory):
    """A sweep of three environments, two of which differ in their temperature alone."""
    study = small_sweep(
        techniques=["baseline", "rrcd"],
        environments=["cool", "hot", "both"],
        operating_points=HOTTER,
        instances=4,
        life={"temperature_kelvin": "normal(340, 2)"},
    ).study
    return run_campaign(study, tmp_path_factory.mktemp("heated") / "h.h5", 4)


def test_the_temperature_of_an_environment_is_an_axis(heated):
    """The hottest operating point of the median instance."""
    with mcage.open_results(heated) as results:
        kelvin = results["highest_temperature_kelvin"]
        by_environment = dict(zip(results["environment"].values, kelvin.values, strict=True))
        assert by_environment == {"cool": 320.0, "hot": 355.0, "both": 370.0}
        assert kelvin.attrs["units"] == "K"


def test_a_figure_against_temperature_joins_environments_that_differ_in_nothing_else(heated):
    """Others, such as one at another Vdd, lie on no curve; and it is drawn where it is wanted."""
    with mcage.open_results(heated) as results:
        axes, points = axes_of(results), points_of(results)
        curves = {of.label: of for of in along("temperature", axes, points) if of.x.size > 1}
        assert {label: of.x.tolist() for label, of in curves.items()} == {
            "baseline 1 V": [320.0, 355.0],
            "rrcd 1 V": [320.0, 355.0],
        }
        renamed = along("temperature", axes, points, {"rrcd": "R"})
        assert {of.label for of in renamed if of.x.size > 1} == {"baseline 1 V", "R 1 V"}
        measures = [of for of in SweepHeader.measures if of.key in ("rmst_years", "slowdown")]
        figure = against.plot_of(results, "temperature", measures)
        assert {series.label for panel in figure.panels for series in panel.series} == set(curves)
        assert "highest_temperature_kelvin" not in against.numeric_axes(results)


def points(**columns):
    lines = zip(*columns.values(), strict=True)
    return [dict(zip(columns, line, strict=True)) for line in lines]


FEW = (
    Axis("technique", "technique", named="always"),
    Axis("protection", "protection"),
    Axis("vdd_volts", "lowest Vdd", units="V", dtype="float64", key="vdd", named="never"),
    Axis("voltages", "Vdd", named="always", derived=True),
)
GRID = points(
    technique=["a", "b", "a", "a", "b"],
    protection=["ecp1", "ecp1", "ecp1", "none", "ecp1"],
    vdd_volts=[0.5, 0.5, 0.4, 0.4, 0.45],
    voltages=["0.5 V", "0.5 V", "0.4 V", "0.4 V", "0.45 V"],
)


def test_curves_along_an_axis():
    """What the axis decides, such as all voltages, tells no curves apart."""
    curves = {curve.label: curve for curve in along("vdd", FEW, GRID)}
    assert list(curves) == ["a ecp1", "b ecp1", "a none"]
    assert curves["a ecp1"].x.tolist() == [0.4, 0.5]
    assert curves["a ecp1"].places == (2, 0)
    assert curves["b ecp1"].places == (4, 1)
    assert curves["a none"].point == {"technique": "a", "protection": "none"}
    (single,) = along("vdd_volts", FEW, GRID[:1])
    assert single.label == ""
    with pytest.raises(UserError, match="axis technique: is one of names; axes of numbers: vdd_v"):
        along("technique", FEW, GRID)
    with pytest.raises(UserError, match="axis age: there is none; there are technique, protec"):
        along("age", FEW, GRID)
    with pytest.raises(UserError, match="two cases differ in nothing else"):
        along("vdd", FEW, [*GRID, GRID[0]])


def test_labels_have_what_differs_and_what_is_always_said():
    assert [point["case"] for point in labelled(FEW, GRID)][2:4] == ["a ecp1 0.4 V", "a none 0.4 V"]
    assert labelled(FEW, GRID[:2])[0]["case"] == "a 0.5 V"
    assert label_of(GRID[0], FEW[2:3]) == "0.5 V"


def test_a_whole_label_means_its_case_even_if_its_words_are_those_of_others():
    named = [point | {"case": f"case {place}"} for place, point in enumerate(GRID)]
    assert find_point(named, "case 3") == 3
    assert find_point(named, "a 0.5") == 0
    slices = Axis("geometry", "slice", of_spec=lambda spec, _: "5 traces")
    named = [point | {"geometry": "5 traces"} for point in named]
    assert find_point(named, "b 0.5", (*FEW, slices)) == 1
    with pytest.raises(UserError, match="no case 'a trac'"):
        find_point(named, "a trac", (*FEW, slices))
    with pytest.raises(UserError, match="may be 'case 2', 'case 3'"):
        find_point(named, "a 0.4")


def test_what_differs_from_file_to_file_is_an_axis_too(tmp_path):
    """Tables show it once files differ in it, and no label has it."""
    given = {"techniques": ["rrcd"], "environments": ["turbo"], "instances": 4}
    paths = []
    for cell in ("6t", "8t"):
        study = small_sweep(**given, faults={"cell": cell}).study
        paths.append(run_campaign(study, tmp_path / f"{cell}.h5", 4))
        with mcage.open_results(paths[-1]) as results:
            assert results["cell"].values.tolist() == [cell]
            assert results.sel(cell=cell, geometry="of the traces").sizes["case"] == 1
            assert results["kernels"].item().startswith("MatrixTranspose, ")
            assert results["case"].item() == "rrcd turbo common 1 V"
            with pytest.raises(KeyError, match="no case with cell '9t'"):
                results.sel(cell="9t")
    allowed = ("--allow", "faults.cell", "--allow", "aging.vmin_model")
    assert [line["cell"] for line in lines_of("show", *paths)] == ["6t", "8t"]
    assert "SRAM cell" in invoke("show", *paths, "--wide").stdout
    assert "SRAM cell" not in invoke("show", paths[0], "--wide").stdout
    both = invoke("compare", *paths, *allowed, "--json").stdout
    assert [pair["case"] for pair in json.loads(both)[0]["pairs"]] == ["rrcd turbo common 1 V"]
