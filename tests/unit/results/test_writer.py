"""Does a results file say what was computed, in a way that the field's readers understand?"""

import subprocess
import sys
import warnings
from contextlib import contextmanager

import fake_campaign
import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from result_files import INSTANCES, write
from tables import each

from mcage.lifetime.end_cause import EndCause
from mcage.results import writer
from mcage.results.conform import conforming
from mcage.results.reader import open_results, read_header
from mcage.results.writer import write_results
from mcage.sweep.header import LABELS
from mcage.sweep.variables import VARIABLES


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
    assert set(results.data_vars) == {v.name for v in VARIABLES}
    for variable in VARIABLES:
        array = results[variable.name]
        assert array.dims == variable.dims
        assert array.dtype == variable.dtype
        np.testing.assert_array_equal(array, expected[variable.name].astype(variable.dtype))
    assert set(results.coords) == {label.name for label in LABELS}
    assert not any("phony" in str(dim) for dim in results.sizes)


def test_cases_and_instances_are_selected_by_name(path):
    with open_results(path) as results:
        life = results["life_years"].sel(case="rrcd dvfs common 0.8/0.419 V")
        assert (life["technique"].item(), life["environment"].item()) == ("rrcd", "dvfs")
        dvth = results["max_dvth_mv"].sel(transistor="T1", instance=7)
        assert dvth.shape == (3,)
        np.testing.assert_array_equal(results["epoch_end_years"], [2, 4, 6, 8, 10])


def test_netcdf4_and_xarray_agree_and_both_can_copy_the_file(path, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with (
            xarray.open_dataset(path, engine="h5netcdf") as here,
            xarray.open_dataset(path, engine="netcdf4") as other,
        ):
            assert here.identical(other)
            here.to_netcdf(tmp_path / "h5netcdf.nc", engine="h5netcdf")
            other.to_netcdf(tmp_path / "netcdf4.nc", engine="netcdf4")
            for copy in ("h5netcdf.nc", "netcdf4.nc"):
                with xarray.open_dataset(tmp_path / copy, engine="h5netcdf") as copied:
                    assert copied.identical(here)


def test_netcdf4_masks_what_comes_after_the_end_of_life(path):
    with netCDF4.Dataset(path) as results:
        faulty = results["epoch_faulty_entries"][:]
        assert results["epoch_faulty_entries"].dimensions == ("case", "instance", "epoch")
    computed = fake_campaign.compute(0, INSTANCES)["epoch_faulty_entries"]
    np.testing.assert_array_equal(np.ma.getmaskarray(faulty), np.isnan(computed))


def test_every_array_carries_the_attributes_that_readers_need(path):
    with h5py.File(path) as file:
        for dataset in file.values():
            assert dataset.attrs["units"]
            assert dataset.attrs["long_name"]
            assert dataset.dtype.kind in "iufO", "no bool, no compound, no fixed-length text"
            assert dataset.dtype != np.float16
            for axis in dataset.dims:
                assert dataset.is_scale or len(axis) == 1, "an axis without a scale"
            computed = dataset.name[1:] in {v.name for v in VARIABLES}
            is_float = dataset.dtype.kind == "f"
            assert ("_FillValue" in dataset.attrs) == (computed and is_float)
            if computed and is_float:
                assert np.isnan(dataset.fillvalue)
        cause = file["end_cause"].attrs
        meanings = dict(zip(cause["flag_values"], cause["flag_meanings"].split(), strict=True))
        assert meanings == {flag.value: flag.name.lower() for flag in EndCause}
        assert cause["flag_values"].dtype == np.int8


def test_sums_cannot_round():
    for variable in VARIABLES:
        if not variable.per_instance:
            assert np.dtype(variable.dtype).kind == "i"


def test_the_header_comes_back_whole(path):
    assert read_header(path) == fake_campaign.campaign(instances=INSTANCES)
    with h5py.File(path) as file:
        assert file.attrs["filetype"] == "mcage-results"
        assert file.attrs["spec"] == fake_campaign.CAMPAIGN.spec_toml
        assert file.attrs["engine_reason"] == "no CUDA device"


def test_one_instance_is_a_sample(tmp_path):
    write(tmp_path / "one.h5", (1,))
    with open_results(tmp_path / "one.h5") as results:
        assert results.sizes["instance"] == 1


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


@settings(max_examples=15, deadline=None)
@given(cuts=st.sets(st.integers(1, INSTANCES - 1)))
def test_the_bytes_do_not_depend_on_how_instances_arrive(
    whole_in_short_chunks, cuts, tmp_path_factory
):
    borders = [0, *sorted(cuts), INSTANCES]
    pieces = tmp_path_factory.mktemp("pieces") / "r.h5"
    with short_chunks():
        write(pieces, tuple(np.diff(borders).tolist()))
    assert pieces.read_bytes() == whole_in_short_chunks


def test_another_process_writes_the_same_bytes(path, tmp_path):
    command = [sys.executable, fake_campaign.__file__, tmp_path / "r.h5", str(INSTANCES), "7"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "r.h5").read_bytes() == path.read_bytes()


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
