"""Cases by their parts, and as a cube."""

import pickle

import numpy as np
import pytest
import xarray
from result_files import write
from tables import each

import mcage
from mcage.results import lazy_store

PARTS = ["technique", "environment", "scenario", "vdd_volts", "highest_vdd_volts"]
LABELS = ["baseline nominal common 1 V", "rrcd nominal common 1 V", "rrcd dvfs common 0.8/0.419 V"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "r.h5"
    write(path, (20,))
    return path


@pytest.fixture
def results(path):
    with mcage.open_results(path) as results:
        yield results


def test_a_sweep_goes_from_its_spec_to_its_results_as_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = mcage.SweepSpec(
        techniques=["baseline", "rrcd"],
        environments="nominal",
        instances=3,
        workload={"kernels": "ScanLargeArrays", "periods": 1, "generations": 1},
        life={"epochs": 1},
    )
    path = mcage.run_sweep(spec, "r.h5", engine="numpy")
    with mcage.open_results("r.h5") as results:
        assert path.samefile("r.h5")
        assert results.sel(technique="rrcd")["life_years"].shape == (1, 3)
    with pytest.raises(mcage.UserError, match=r"no/r\.h5"):
        mcage.run_sweep(spec, "no/r.h5")


# ---- parts -------------------------------------------------------------------------------------


@each(
    "parts, places",
    [
        ({"technique": "rrcd"}, [1, 2]),
        ({"technique": "rrcd", "environment": "dvfs"}, [2]),
        ({"technique": ["rrcd", "baseline"], "environment": "nominal"}, [0, 1]),
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
    "parts, message",
    [
        ({"technique": "rrc"}, "no case with technique 'rrc'; there are baseline, rrcd"),
        ({"technique": "baseline", "environment": "dvfs"}, "no case has all of technique 'base"),
    ],
)
def test_what_no_case_has_is_said(results, parts, message):
    with pytest.raises(KeyError, match=message):
        results.sel(parts)


def test_ranges_are_of_numbers(results):
    with pytest.raises(ValueError, match="technique: only numbers have ranges"):
        results.sel(technique=slice("a", "b"))


def test_labels_select_and_align_as_before(results, path):
    """As in a dataset that xarray opens, whose only index of cases is that of the labels."""
    with xarray.open_dataset(path, engine="h5netcdf") as plain:
        assert results.drop_indexes(PARTS).identical(plain)
        ours, theirs = (each["life_years"].sel(case=LABELS[1]) for each in (results, plain))
        assert ours.identical(theirs)
        backwards = plain["life_years"].isel(case=[2, 1, 0]).drop_vars(PARTS)
        assert not (results["life_years"] - backwards).any()


def test_datasets_go_on_as_others(results, tmp_path):
    life = results["life_years"].mean("instance")
    results["mean_life"] = life
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
        life.sel(technique="rrcd") - life.sel(environment="nominal")


# ---- cube --------------------------------------------------------------------------------------


def test_the_cube_has_every_case_in_its_place(results):
    cube = results.mcage.cube()
    assert dict(cube.sizes) | {"technique": 2, "environment": 2, "scenario": 1} == dict(cube.sizes)
    assert "case" not in cube.dims
    for place, label in enumerate(LABELS):
        technique, environment = label.split()[:2]
        case = cube.sel(technique=technique, environment=environment, scenario="common")
        assert case["case"].item() == label
        for name in ("life_years", "end_cause", "epoch_max_dvth_mv", "dvth_histogram"):
            assert np.array_equal(case[name], results[name].isel(case=place), equal_nan=True), name
    assert cube["workload"].identical(results["workload"])


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
        (["epoch"], "'epoch' is no dimension of a cube; there are technique, environment"),
    ],
)
def test_cubes_that_cannot_be(results, dims, message):
    with pytest.raises(mcage.UserError, match=message):
        results.mcage.cube(*dims)
    with pytest.raises(mcage.UserError, match="made of several cases"):
        results.isel(case=0).mcage.cube()


@each(
    "place",
    [
        {"technique": 1},
        {"technique": [1, 0], "instance": [7, 2, 2]},
        {"instance": slice(10, 2, -3), "environment": slice(None, None, -1), "transistor": 1},
        {
            "technique": xarray.DataArray([0, 1], dims="x"),
            "environment": xarray.DataArray([0, 1], dims="x"),
        },
        {"instance": slice(0, 0)},
    ],
)
def test_parts_of_a_cube_are_those_of_the_whole(results, place):
    whole = results.mcage.cube()["max_dvth_mv"].load()
    assert results.mcage.cube()["max_dvth_mv"].isel(place).identical(whole.isel(place))
    if not whole.isel(place).size:
        return
    turned = results.transpose("instance", ...).mcage.cube()["max_dvth_mv"]
    assert turned.isel(place).transpose(*whole.isel(place).dims).identical(whole.isel(place))


def test_a_cube_reads_what_is_asked_for(results, monkeypatch):
    read, part_of = [], lazy_store._StoredArray._part

    def part(stored, key):
        read.append((stored._name, key))
        return part_of(stored, key)

    monkeypatch.setattr(lazy_store._StoredArray, "_part", part)
    cube = results.mcage.cube()
    read = [asked for asked in read if "instance" in results[asked[0]].dims]
    assert not read
    life = (
        cube["life_years"].sel(technique="rrcd", environment="nominal").isel(instance=slice(3, 5))
    )
    read.clear()
    assert life.size == 2
    assert not read
    _ = life.values
    assert read == [("life_years", (1, slice(3, 5, 1)))]
