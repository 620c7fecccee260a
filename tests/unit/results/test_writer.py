"""Does a results file say what was computed, in a way that the field's readers understand?"""

import pickle
import re
import warnings
from contextlib import contextmanager
from dataclasses import replace

import cf_units
import darts
import fake_campaign
import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from fake_campaign import INSTANCES, compute, write
from gpu_cases import gating
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from tables import each

import mcage
from mcage.lifetime import EndCause
from mcage.results import lazy_store, writer
from mcage.results.reader import open_results, read_header
from mcage.results.variable import Coordinate, dimension_sizes
from mcage.results.writer import conforming, write_results
from mcage.studies.gpu_both.study import TECHNIQUE
from mcage.studies.gpu_both.study import VARIABLES as BOTH
from mcage.studies.gpu_gating.study import AGE, POLICY
from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec
from mcage.studies.gpu_heterogeneity.study import Heterogeneity
from mcage.studies.sweep.axes import AXES


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "r.h5"
    write(path)
    return path


def test_xarray_reads_back_what_was_computed_without_a_warning(path):
    expected = fake_campaign.compute(0, INSTANCES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xarray.open_dataset(path, engine="h5netcdf") as results:
            results.load()
    assert set(results.data_vars) == {v.name for v in fake_campaign.CAMPAIGN.variables}
    for variable in fake_campaign.CAMPAIGN.variables:
        array = results[variable.name]
        assert array.dims == variable.dims
        assert array.dtype == variable.dtype
        np.testing.assert_array_equal(array, expected[variable.name].astype(variable.dtype))
    labels = {label.variable.name for label in fake_campaign.CAMPAIGN.coordinates}
    assert set(results.coords) == labels >= {"case", "epoch", *(axis.name for axis in AXES)}
    assert not any("phony" in str(dim) for dim in results.sizes)


def test_netcdf4_masks_what_comes_after_the_end_of_life(path):
    with netCDF4.Dataset(path) as results:
        faulty = results["epoch_faulty_entries"][:]
        assert results["epoch_faulty_entries"].dimensions == ("case", "instance", "epoch")
    computed = fake_campaign.compute(0, INSTANCES)["epoch_faulty_entries"]
    np.testing.assert_array_equal(np.ma.getmaskarray(faulty), np.isnan(computed))


def test_sums_cannot_round():
    for variable in fake_campaign.CAMPAIGN.variables:
        if not variable.per_instance:
            assert np.dtype(variable.dtype).kind == "i"


def test_the_header_comes_back_whole(path):
    assert read_header(path) == fake_campaign.campaign(instances=INSTANCES)
    with h5py.File(path) as file:
        assert file.attrs["filetype"] == "mcage-results"
        assert file.attrs["spec"] == fake_campaign.CAMPAIGN.spec_toml
        assert file.attrs["engine_reason"] == "no CUDA device"
        cause = file["end_cause"].attrs
        meanings = dict(zip(cause["flag_values"], cause["flag_meanings"].split(), strict=True))
    assert meanings == {flag.value: flag.name.lower() for flag in EndCause}


@contextmanager
def short_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "INSTANCES_PER_CHUNK", 8)
        yield


@pytest.fixture(scope="module")
def whole_in_short_chunks(tmp_path_factory):
    whole = tmp_path_factory.mktemp("whole") / "r.h5"
    with short_chunks():
        write(whole)
    return whole.read_bytes()


@settings(max_examples=5, deadline=None)
@given(cuts=st.sets(st.integers(1, INSTANCES - 1)))
def test_the_bytes_do_not_depend_on_how_instances_arrive(
    whole_in_short_chunks, cuts, tmp_path_factory
):
    borders = [0, *sorted(cuts), INSTANCES]
    pieces = tmp_path_factory.mktemp("pieces") / "r.h5"
    with short_chunks():
        write(pieces, tuple(np.diff(borders).tolist()))
    assert pieces.read_bytes() == whole_in_short_chunks


def test_a_file_with_too_few_instances_never_appears(tmp_path):
    campaign = fake_campaign.campaign(instances=10)

    def write_nine():
        arrays = conforming(campaign, fake_campaign.compute(0, 9), 9)
        write_results(tmp_path / "r.h5", campaign, [arrays])

    with pytest.raises(ValueError, match="9 instances written of 10"):
        write_nine()
    assert list(tmp_path.iterdir()) == []


def bad_arrays():
    """Name what is wrong, and make it so."""
    yield "missing", lambda arrays: arrays.pop("spill_rate")
    yield "unknown", lambda arrays: arrays.update(extra=np.zeros(1))
    yield "shape", lambda arrays: arrays.update(spill_rate=arrays["spill_rate"][:, :2])
    yield "not finite", lambda arrays: arrays["life_years"].__setitem__((0, 0), np.nan)
    yield "not finite", lambda arrays: arrays["epoch_faulty_entries"].__setitem__((0, 0), np.inf)
    yield "not a float", lambda arrays: arrays.update(life_years=np.ones((3, 5), int))
    yield "not an integer", lambda arrays: arrays.update(peak_spilled_rows=np.ones((3, 5)))
    yield "do not fit", lambda arrays: arrays.update(faulty_entries_end=np.full((3, 5), 40_000))
    yield "other than", lambda arrays: arrays.update(end_cause=np.full((3, 5), 9))


@each(("message", "spoil"), list(bad_arrays()))
def test_computed_arrays_that_break_the_schema_are_refused(message, spoil):
    arrays = fake_campaign.compute(0, 5)
    spoil(arrays)
    with pytest.raises(ValueError, match=message):
        conforming(fake_campaign.CAMPAIGN, arrays, 5)


@each(
    "fields",
    [
        {"instances": 0},
        {"cases": ()},
        {"cases": fake_campaign.CAMPAIGN.cases[:1] * 2},
        {"epoch_edges_years": (0.0,)},
        {"epoch_edges_years": (0.0, 5.0, 5.0)},
        {"epoch_edges_years": (1.0, 5.0)},
        {"epoch_edges_years": (0.0, float("inf"))},
    ],
)
def test_a_campaign_that_contradicts_itself_is_refused(fields):
    with pytest.raises(ValueError):
        fake_campaign.campaign(**fields)


def test_the_documentation_names_every_array_and_attribute(path):
    text = (ROOT / "docs" / "results-format.md").read_text()
    with h5py.File(path) as file:
        names = [*file, *file.attrs]
    assert [name for name in names if f"`{name}`" not in text] == []


# Results files of all studies as other tools read them, and as the conventions want them.

FEW = 4
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""What CF 1.8, section 2.3, recommends for the names of variables, dimensions and attributes."""


LABELS_OF_BOTH = (
    Coordinate(POLICY, ("default", "round-robin")),
    Coordinate(TECHNIQUE, ("baseline",)),
    Coordinate(AGE, (5.0, 10.0)),
)
HEADERS = {
    "sweep": lambda: fake_campaign.campaign(instances=FEW, margins=("read", "write")),
    "gating": lambda: gating(instances=FEW, policies=["default"]).header,
    "both": lambda: replace(darts.pi_by_darts(FEW).header, computes=BOTH, labels=LABELS_OF_BOTH),
    "heterogeneity": lambda: Heterogeneity(HeterogeneitySpec(instances=FEW)).header,
    "darts": lambda: darts.pi_by_darts(FEW).header,
}


def zeros(header):
    """Arrays of a study in which every number is 0."""
    sizes = {**dimension_sizes(header.coordinates), "instance": FEW}
    return {v.name: np.zeros(v.shape(sizes), v.dtype) for v in header.variables}


@pytest.fixture(scope="module", params=HEADERS)
def path_of_any_study(request, tmp_path_factory):
    header = HEADERS[request.param]()
    path = tmp_path_factory.mktemp("results") / "r.h5"
    write_results(path, header, [conforming(header, zeros(header), FEW)])
    return path


@pytest.fixture
def results(path_of_any_study):
    """As the files say it: numbers are not decoded."""
    with xarray.open_dataset(path_of_any_study, engine="netcdf4", decode_cf=False) as results:
        yield results


# ---- CF 1.8 ------------------------------------------------------------------------------------


def test_names_are_those_that_cf_recommends(results):
    names = {*results.variables, *results.dims, *results.attrs}
    names |= {name for variable in results.variables.values() for name in variable.attrs}
    assert not [name for name in names - {"_FillValue"} if not NAME.fullmatch(str(name))]


def test_every_array_says_what_it_is_in_which_unit_and_what_is_missing(results):
    for name, variable in results.variables.items():
        assert variable.attrs["long_name"].strip(), name
        assert cf_units.Unit(variable.attrs["units"]).is_udunits(), name
        if variable.dtype.kind in "OUS":
            assert variable.attrs["units"] == "1", name
        if "_FillValue" in variable.attrs:
            fill = variable.attrs["_FillValue"]
            assert fill.dtype == variable.dtype, name
            assert np.isnan(fill), name
            assert name in results.data_vars, name


def test_coordinates_are_there_and_lie_along_their_array(results):
    for name, variable in results.variables.items():
        for coordinate in str(variable.attrs.get("coordinates", "")).split():
            assert set(results[coordinate].dims) <= set(variable.dims), (name, coordinate)
            assert coordinate not in variable.dims, (name, coordinate)
    for dim in results.dims:
        assert results[dim].dims == (dim,)
        if results[dim].dtype.kind in "iuf":
            assert (np.diff(results[dim].values) > 0).all(), dim


# ---- readers -----------------------------------------------------------------------------------


def test_xarray_reads_the_same_by_each_engine(path_of_any_study):
    with (
        xarray.open_dataset(path_of_any_study, engine="h5netcdf") as one,
        xarray.open_dataset(path_of_any_study, engine="netcdf4") as other,
        mcage.open_results(path_of_any_study) as ours,
    ):
        assert set(one.variables) == set(other.variables) == set(ours.variables)
        for name in one.variables:
            assert one[name].dims == other[name].dims == ours[name].dims
            assert one[name].attrs.keys() == ours[name].attrs.keys()
            values = one[name].values
            assert values.dtype.kind == other[name].dtype.kind
            for reader in (other, ours):
                assert (values == reader[name].values).all(), name


def test_netcdf_and_hdf5_read_names_dimensions_and_units(path_of_any_study):
    with netCDF4.Dataset(path_of_any_study) as netcdf, h5py.File(path_of_any_study) as hdf5:
        assert set(netcdf.variables) == set(hdf5)
        assert netcdf.Conventions == hdf5.attrs["Conventions"] == "CF-1.8"
        for name, variable in netcdf.variables.items():
            assert hdf5[name].dtype.kind in "iufO", "no bool, no compound, no fixed-length text"
            if not hdf5[name].is_scale:
                scales = [hdf5[name].dims[axis][0].name for axis in range(hdf5[name].ndim)]
                assert scales == [f"/{dim}" for dim in variable.dimensions], name
            assert variable.units == hdf5[name].attrs["units"], name
            assert variable.shape == hdf5[name].shape, name


# Results files as `open_results` opens them, and as xarray does by itself.


@pytest.fixture(scope="module")
def long_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "r.h5"
    write(path, (20,))
    return path


@pytest.fixture
def opened_twice(long_file):
    with (
        open_results(long_file) as opened,
        xarray.open_dataset(long_file, engine="h5netcdf") as expected,
    ):
        yield opened, expected


def test_arrays_attributes_and_their_order_are_those_of_xarray(opened_twice):
    opened, expected = opened_twice
    assert opened.identical(expected)
    assert pickle.loads(pickle.dumps(opened)).identical(expected)
    assert opened.copy(deep=True).identical(expected)
    assert list(opened.attrs) == list(expected.attrs)
    assert list(opened.variables) == list(expected.variables)
    assert list(opened.coords) == list(expected.coords)
    for name, variable in expected.variables.items():
        same = opened[name].variable
        assert same.dtype == variable.dtype
        assert {key: type(value) for key, value in same.attrs.items()} == {
            key: type(value) for key, value in variable.attrs.items()
        }
        assert same.encoding.items() <= variable.encoding.items(), name


def test_only_what_is_asked_for_is_read(long_file, monkeypatch):
    read, part_of = [], lazy_store._StoredArray._part

    def part(stored, key):
        read.append((stored._name, key))
        return part_of(stored, key)

    monkeypatch.setattr(lazy_store._StoredArray, "_part", part)
    with open_results(long_file) as opened:
        read.clear()  # labels of dimensions are read at once
        life = opened["life_years"].isel(case=1, instance=slice(3, 5))
        assert not read
    np.testing.assert_array_equal(life, compute(0, 20)["life_years"][1, 3:5])  # after closing, too
    assert read == [("life_years", (1, slice(3, 5, 1)))]


@each(
    "place",
    [
        {"instance": 3},
        {"instance": [7, 2, 2]},
        {"instance": slice(10, 2, -3), "case": [1, 0]},
        {"instance": np.arange(20) % 3 == 0, "case": [2, 0], "transistor": 1},
        {"case": xarray.DataArray([0, 1]), "instance": xarray.DataArray([5, 4])},
        {"instance": slice(0, 0)},
    ],
)
def test_parts_are_those_of_xarray(opened_twice, place):
    parts = (results[["max_dvth_mv", "technique"]].isel(place) for results in opened_twice)
    assert next(parts).identical(next(parts))
