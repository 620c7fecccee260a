"""Cases by their parts, and as a cube."""

import pickle
from contextlib import ExitStack

import numpy as np
import pandas as pd
import pytest
import xarray
from fake_campaign import INSTANCES, compute, opened, write
from gpu_cases import gating
from tables import each

import mcage
from mcage.campaign.run import run_campaign
from mcage.lifetime import EndCause
from mcage.report.comparison import compare
from mcage.stats.paired import compare_means
from mcage.studies.sweep.axes import AXES

PARTS = [axis.name for axis in AXES]
LABELS = ["baseline turbo common 1 V", "rrcd turbo common 1 V", "rrcd dvfs common 0.8/0.419 V"]


results = opened()


# ---- parts -------------------------------------------------------------------------------------


@each(
    "parts, places",
    [
        ({"technique": "rrcd"}, [1, 2]),
        ({"technique": "rrcd", "environment": "dvfs"}, [2]),
        ({"technique": ["rrcd", "baseline"], "environment": "turbo"}, [0, 1]),
        ({"vdd_volts": 0.419}, [2]),
        ({"vdd_volts": np.float32(1)}, [0, 1]),
        ({"vdd_volts": slice(0.419, 0.5)}, [2]),
        ({"vdd_volts": slice(None, 1.0)}, [0, 1, 2]),
        ({"highest_vdd_volts": [0.8, 1.0], "technique": "baseline"}, [0]),
    ],
)
def test_parts_select_all_cases_that_have_them(results, parts, places):
    found = results.sel(parts)
    assert found.sizes["case"] == len(places)
    assert found.identical(results.isel(case=places))
    life = results["life_years"].sel(parts, drop=False)
    assert np.array_equal(life, results["life_years"].isel(case=places))


def test_the_nearest_voltage(results):
    nearest = results.sel(vdd_volts=0.42, method="nearest")
    assert nearest["case"].values.tolist() == LABELS[2:]
    with pytest.raises(KeyError, match=r"no case with vdd_volts 0.42; there are 1.0, 0.419"):
        results.sel(vdd_volts=0.42, method="nearest", tolerance=1e-4)


@each(
    "parts, error, message",
    [
        ({"technique": "rrc"}, KeyError, "no case with technique 'rrc'; there are baseline, rrcd"),
        (
            {"technique": "baseline", "environment": "dvfs"},
            KeyError,
            "no case has all of technique 'base",
        ),
        ({"technique": slice("a", "b")}, ValueError, "technique: only numbers have ranges"),
    ],
)
def test_what_no_case_has_is_said(results, parts, error, message):
    with pytest.raises(error, match=message):
        results.sel(parts)


def test_labels_select_and_align_as_before(results):
    """As in a dataset that xarray opens, whose only index of cases is that of the labels."""
    with xarray.open_dataset(results.encoding["source"], engine="h5netcdf") as plain:
        assert results.drop_indexes(PARTS).identical(plain)
        ours, theirs = (each["life_years"].sel(case=LABELS[1]) for each in (results, plain))
        assert ours.identical(theirs)
        backwards = plain["life_years"].isel(case=[2, 1, 0]).drop_vars(PARTS)
        assert not (results["life_years"] - backwards).any()


def test_datasets_go_on_as_others(results, tmp_path):
    life = results["life_years"].mean("instance")
    results = results.assign(mean_life=life)
    assert results.assign(twice=2 * life)["twice"].sel(technique="baseline").size == 1
    assert life.groupby("technique").mean().sizes == {"technique": 2}
    assert life.sortby("technique").sel(environment="dvfs").size == 1
    again = xarray.concat([life.isel(case=[2]), life.isel(case=[0, 1])], "case")
    assert again.sel(technique="rrcd")["case"].values.tolist() == [LABELS[2], LABELS[1]]
    assert pickle.loads(pickle.dumps(results)).sel(technique="rrcd").sizes["case"] == 2
    assert results.copy(deep=True).sel(technique="rrcd").sizes["case"] == 2
    assert results.rename(technique="t").sel(t="rrcd").sizes["case"] == 2
    assert life.where(results["environment"] == "dvfs", drop=True).size == 1
    assert life.isel(case=0)["technique"].item() == "baseline"
    assert list(life.to_dataframe().index) == LABELS
    results.to_netcdf(tmp_path / "copy.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "copy.nc", engine="h5netcdf") as copied:
        assert copied.identical(results.drop_indexes(PARTS))


def test_different_cases_are_not_aligned_in_silence(results):
    life = results["life_years"]
    with pytest.raises(ValueError, match="different cases: leave the parts out"):
        life.sel(technique="rrcd") - life.sel(environment="turbo")


# ---- cube --------------------------------------------------------------------------------------


def test_the_cube_has_every_case_in_its_place(results):
    cube = results.mcage.cube()
    assert {"technique": 2, "environment": 2, "scenario": 1}.items() <= cube.sizes.items()
    assert "case" not in cube.dims
    for place, label in enumerate(LABELS):
        technique, environment = label.split()[:2]
        case = cube.sel(technique=technique, environment=environment, scenario="common")
        assert case["case"].item() == label
        for name in ("life_years", "end_cause", "epoch_max_dvth_mv", "dvth_histogram"):
            assert np.array_equal(case[name], results[name].isel(case=place), equal_nan=True), name
    assert cube["workload"].variable.identical(results["workload"].variable)


def test_missing_combinations_are_nan_and_integers_stay_where_none_is_missing(results):
    cube = results.mcage.cube()
    missing = cube.sel(technique="baseline", environment="dvfs")
    assert missing["life_years"].isnull().all()
    assert missing["end_cause"].isnull().all()
    assert missing["case"].values.tolist() == [""]
    assert results["end_cause"].dtype == np.int8
    whole = results.sel(technique="rrcd").mcage.cube()
    assert whole["end_cause"].dtype == np.int8
    assert whole["dvth_histogram"].dtype == np.int64


def test_a_voltage_is_a_dimension_only_where_it_tells_cases_apart(results):
    cube = results.mcage.cube()
    assert cube["vdd_volts"].dims == ("environment",)
    assert cube["vdd_volts"].sel(environment="dvfs").item() == 0.419
    by_vdd = results.mcage.cube("vdd_volts", "technique")
    assert by_vdd["life_years"].dims == ("vdd_volts", "technique", "instance")
    assert by_vdd["vdd_volts"].values.tolist() == [0.419, 1.0]
    assert by_vdd["scenario"].dims == ()


@each(
    "dims, message",
    [
        (["technique"], f"'{LABELS[1]}' and '{LABELS[2]}' are alike in technique"),
        (["epoch"], "'epoch' is no dimension of a cube; there are technique, protection"),
    ],
)
def test_cubes_that_cannot_be(results, dims, message):
    with pytest.raises(mcage.UserError, match=message):
        results.mcage.cube(*dims)
    with pytest.raises(mcage.UserError, match="made of several cases"):
        results.isel(case=0).mcage.cube()


@pytest.fixture
def shifts(results):
    """Of a cube, read; and not yet read, in this and in another order of dimensions."""
    turned = results.transpose("instance", ...)
    whole, *lazy = (of.mcage.cube()["max_dvth_mv"] for of in (results, results, turned))
    return whole.load(), *lazy


@each(
    "place",
    [
        {"technique": 1},
        {"technique": [1, 0], "instance": [7, 2, 2]},
        {"instance": slice(10, 2, -3), "environment": slice(None, None, -1), "transistor": 1},
        dict.fromkeys(["technique", "environment"], xarray.DataArray([0, 1], dims="x")),
        {"instance": slice(0, 0)},
    ],
)
def test_parts_of_a_cube_are_those_of_the_whole(shifts, place):
    whole, lazy, turned = shifts
    expected = whole.isel(place)
    assert lazy.isel(place).identical(expected)
    if expected.size:
        assert turned.isel(place).transpose(*expected.dims).identical(expected)


# Two cases die by die, in one dataset and in two.

FIRST, SECOND = "rrcd dvfs", "rrcd turbo"


@pytest.fixture
def another(tmp_path):
    """Opens results of other instances, or of another header."""
    with ExitStack() as opened:

        def other(instances=20, **fields):
            path = tmp_path / f"{'-'.join(fields)}.h5"
            write(path, (instances,), **fields)
            return opened.enter_context(mcage.open_results(path))

        yield other


def test_differences_are_those_of_the_comparison(results):
    frame = results.mcage.paired(FIRST, SECOND).set_index("quantity")
    expected = compare(results, FIRST, SECOND)
    row, means = frame.loc["rmst_years"], expected.means["rmst_years"]
    assert row["dies"] == INSTANCES
    for name in ("first", "second", "difference", "ratio"):
        estimate = getattr(means, name)
        assert row[name] == estimate.value
        assert row[f"{name}_lower"] == estimate.lower
        assert row[f"{name}_upper"] == estimate.upper
    assert row["variance_reduction"] == means.variance_reduction
    assert frame.loc["spill_rate", "difference"] == expected.means["spill_rate"].difference.value
    lives = results.mcage.outliving(FIRST, SECOND)
    assert lives["first"][0] == expected.outliving.first.value
    assert lives["p_value"][0] == expected.outliving.p_value


def test_datasets_of_two_files_are_compared_on_the_instances_that_both_have(results, another):
    other = another(40).isel(instance=slice(10, None))
    frame = results.mcage.paired(FIRST, SECOND, other)
    years = compute(10, INSTANCES)["life_years"]
    means = compare_means(years[2], years[1], within=(0.0, 10.0))
    assert frame["dies"][0] == INSTANCES - 10
    assert frame["difference"][0] == pytest.approx(means.difference.value)
    assert frame["difference_lower"][0] == pytest.approx(means.difference.lower)


@each(
    "fields, message",
    [
        ({"seed": 8}, "seeds 7 and 8: their dies differ"),
        (
            {"spec_toml": '[aging]\nmodel = "planar"\n'},
            r"the specs differ in .*aging.model.*: allow=\['technique', 'aging.model'\]",
        ),
    ],
)
def test_what_is_not_of_the_same_dies_is_refused(results, another, fields, message):
    with pytest.raises(mcage.UserError, match=message):
        results.mcage.paired(FIRST, SECOND, another(**fields))


def test_what_is_meant_to_differ_is_allowed(results, another):
    other = another(spec_toml='[aging]\nmodel = "planar"\n')
    with pytest.warns(UserWarning, match="its kernels are not known"):  # without digests
        paired = results.mcage.paired(FIRST, FIRST, other, ["technique", "aging"])
    assert paired["dies"][0] == 20
    assert paired["difference"].tolist() == [0.0] * 7
    with pytest.raises(mcage.UserError, match=r"allow=\['agin'\]: neither spec has such a key"):
        results.mcage.outliving(FIRST, FIRST, other, ["agin"])


def test_cases_and_instances_that_make_no_pair(results):
    with pytest.raises(mcage.UserError, match=r"are both 'rrcd dvfs .*: two are needed"):
        results.mcage.paired(FIRST, "rrcd dvfs common")
    first, second = (results.isel(instance=part) for part in ([1, 2], [3]))
    with pytest.raises(mcage.UserError, match="no instance in common"):
        first.mcage.paired(FIRST, SECOND, second)


def test_policies_of_gpus_are_compared_in_all_that_depends_on_them(tmp_path):
    study = gating(instances=4, policies=["default", "round-robin"]).study
    with mcage.open_results(run_campaign(study, tmp_path / "g.h5")) as results:
        frame = results.mcage.paired("default", "round-robin").set_index("quantity")
        margins = results["margin_needed"].isel(age=-1).values
        means = compare_means(margins[0], margins[1])
        assert frame.loc["margin_needed", "difference"] == means.difference.value
        assert "surroundings_kelvin" not in frame.index
        assert results.mcage.outliving("default", "round-robin")["second"][0] == np.mean(
            results["end_cause"].values[0] != 0
        )


# Lives as rows of a table of pandas.


def test_there_is_a_row_for_each_case_and_instance(results):
    frame = results.mcage.to_pandas()
    arrays = compute(0, INSTANCES)
    assert len(frame) == 3 * INSTANCES
    assert frame["case"].tolist() == results["case"].values.repeat(INSTANCES).tolist()
    assert frame["instance"].tolist() == [*range(INSTANCES)] * 3
    assert frame["vdd_volts"].tolist() == results["vdd_volts"].values.repeat(INSTANCES).tolist()
    assert np.array_equal(frame["life_years"], arrays["life_years"].ravel())
    assert np.allclose(frame["max_dvth_mv_T1"], arrays["max_dvth_mv"][..., 1].ravel())
    assert np.array_equal(frame["write_share_lds"], arrays["write_share"][..., 3].ravel())
    assert np.array_equal(frame["activity"], np.tile(arrays["activity"], 3))
    assert np.array_equal(frame["workload_3"], np.tile(arrays["workload"][:, 3], 3))
    assert frame["peak_spilled_rows"].dtype == np.int32
    assert not [name for name in frame if name.startswith("epoch_")]


def test_labels_and_flags_are_categories(results):
    frame = results.mcage.to_pandas(["end_cause"])
    assert frame["technique"].cat.categories.tolist() == ["baseline", "rrcd"]
    assert {*frame["end_cause"].cat.categories} == {cause.name.lower() for cause in EndCause}
    causes = compute(0, INSTANCES)["end_cause"].ravel()
    assert [EndCause[name.upper()] for name in frame["end_cause"]] == causes.tolist()


def test_moments_are_columns_where_they_are_asked_for(results):
    frame = results.mcage.to_pandas("epoch_max_dvth_mv")
    values = results["epoch_max_dvth_mv"].values
    names = [f"epoch_max_dvth_mv_{epoch}_{t}" for epoch in range(5) for t in ("T0", "T1")]
    assert [name for name in frame if name.startswith("epoch")] == names
    assert np.array_equal(
        frame[names], values.reshape(3 * INSTANCES, 10).astype("float32"), equal_nan=True
    )


def test_parts_are_the_same_rows(results):
    parts = list(results.mcage.iter_pandas(instances=8, variables=["life_years", "end_cause"]))
    assert [len(part) for part in parts] == [24, 24, 24, 18]
    whole = results.mcage.to_pandas(["life_years", "end_cause"])
    together = pd.concat(parts).sort_values(["case", "instance"], ignore_index=True)
    pd.testing.assert_frame_equal(together, whole)


@each(
    "ask, message",
    [
        (lambda r: r.mcage.to_pandas(["life"]), "'life' is no variable of each instance"),
        (lambda r: r.mcage.to_pandas(["dvth_histogram"]), "'dvth_histogram' is no variable of"),
        (lambda r: list(r.mcage.iter_pandas(0)), "instances = 0: a part needs at least 1"),
    ],
)
def test_what_makes_no_table_is_refused(results, ask, message):
    with pytest.raises(mcage.UserError, match=message):
        ask(results)
