"""Results files of all studies as other tools read them, and as the conventions want them."""

import re
import shutil
import subprocess

import cf_units
import darts
import fake_campaign
import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from gpu_cases import gating

import mcage
from mcage.gpu.both.study import BothHeader
from mcage.gpu.both.variables import TECHNIQUE
from mcage.gpu.both.variables import VARIABLES as BOTH
from mcage.gpu.gating.variables import AGE, POLICY
from mcage.gpu.heterogeneity.spec import HeterogeneitySpec
from mcage.gpu.heterogeneity.study import Heterogeneity
from mcage.results.conform import conforming
from mcage.results.variable import Coordinate, dimension_sizes
from mcage.results.writer import write_results

INSTANCES = 4
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""What CF 1.8, section 2.3, recommends for the names of variables, dimensions and attributes."""


def both():
    """A study of both levels, whose spec costs seconds to be checked."""
    labels = (
        Coordinate(POLICY, ("default", "round-robin")),
        Coordinate(TECHNIQUE, ("baseline",)),
        Coordinate(AGE, (5.0, 10.0)),
    )
    return BothHeader(
        name="gpu-both",
        computes=BOTH,
        labels=labels,
        spec_toml="",
        spec_digest="0" * 64,
        seed=1,
        instances=INSTANCES,
        engine="numba",
    )


HEADERS = {
    "sweep": lambda: fake_campaign.campaign(instances=INSTANCES, margins=("read", "write")),
    "gating": lambda: gating(instances=INSTANCES, policies=["default"]).header,
    "both": both,
    "heterogeneity": lambda: Heterogeneity(HeterogeneitySpec(instances=INSTANCES)).header,
    "darts": lambda: darts.pi_by_darts(INSTANCES).header,
}


def zeros(header):
    """Arrays of a study in which every number is 0."""
    sizes = {**dimension_sizes(header.coordinates), "instance": INSTANCES}
    return {v.name: np.zeros(v.shape(sizes), v.dtype) for v in header.variables}


@pytest.fixture(scope="module", params=HEADERS)
def path(request, tmp_path_factory):
    header = HEADERS[request.param]()
    path = tmp_path_factory.mktemp("results") / "r.h5"
    write_results(path, header, [conforming(header, zeros(header), INSTANCES)])
    return path


@pytest.fixture
def results(path):
    """As the files say it: numbers are not decoded."""
    with xarray.open_dataset(path, engine="netcdf4", decode_cf=False) as results:
        yield results


# ---- CF 1.8 ------------------------------------------------------------------------------------


def test_the_file_names_its_conventions(results):
    assert results.attrs["Conventions"] == "CF-1.8"


def test_names_are_those_that_cf_recommends(results):
    names = {*results.variables, *results.dims, *results.attrs}
    names |= {name for variable in results.variables.values() for name in variable.attrs}
    assert not [name for name in names - {"_FillValue"} if not NAME.fullmatch(str(name))]


def test_every_array_says_what_it_is_and_in_which_unit(results):
    for name, variable in results.variables.items():
        assert variable.attrs["long_name"].strip(), name
        assert cf_units.Unit(variable.attrs["units"]).is_udunits(), name
        if variable.dtype.kind in "OUS":
            assert variable.attrs["units"] == "1", name


def test_fill_values_have_the_type_of_their_array(results):
    for name, variable in results.variables.items():
        is_coordinate = name in results.coords or name in results.dims
        fill = variable.attrs.get("_FillValue")
        if fill is not None:
            assert fill.dtype == variable.dtype, name
            assert np.isnan(fill), name
            assert not is_coordinate, name
        assert not {"missing_value", "scale_factor", "add_offset"} & set(variable.attrs), name


def test_flags_are_of_the_type_of_their_array_and_each_has_a_meaning(results):
    flagged = 0
    for name, variable in results.variables.items():
        if "flag_values" not in variable.attrs:
            assert "flag_meanings" not in variable.attrs, name
            continue
        flagged += 1
        values = np.atleast_1d(variable.attrs["flag_values"])
        meanings = variable.attrs["flag_meanings"].split(" ")
        assert values.dtype == variable.dtype, name
        assert len(values) == len(meanings) == len(set(values)) == len(set(meanings)), name
        assert all(re.fullmatch(r"[A-Za-z0-9_.+@-]+", word) for word in meanings), name
    assert flagged == ("end_cause" in results)


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


def test_xarray_reads_the_same_by_each_engine(path):
    with (
        xarray.open_dataset(path, engine="h5netcdf") as one,
        xarray.open_dataset(path, engine="netcdf4") as other,
        mcage.open_results(path) as ours,
    ):
        assert set(one.variables) == set(other.variables) == set(ours.variables)
        for name in one.variables:
            assert one[name].dims == other[name].dims == ours[name].dims
            assert one[name].attrs.keys() == ours[name].attrs.keys()
            values = one[name].values
            assert values.dtype.kind == other[name].dtype.kind
            for reader in (other, ours):
                assert (values == reader[name].values).all(), name


def test_netcdf_and_hdf5_read_names_dimensions_and_units(path):
    with netCDF4.Dataset(path) as netcdf, h5py.File(path) as hdf5:
        assert set(netcdf.variables) == set(hdf5)
        assert netcdf.Conventions == hdf5.attrs["Conventions"] == "CF-1.8"
        for name, variable in netcdf.variables.items():
            if not hdf5[name].is_scale:
                scales = [hdf5[name].dims[axis][0].name for axis in range(hdf5[name].ndim)]
                assert scales == [f"/{dim}" for dim in variable.dimensions], name
            assert variable.units == hdf5[name].attrs["units"], name
            assert variable.shape == hdf5[name].shape, name


def test_pandas_has_a_column_for_each_variable(path):
    with mcage.open_results(path) as results:
        frame = results.mcage.to_pandas()
        assert len(frame) % INSTANCES == 0
        per_instance = [n for n, v in results.data_vars.items() if "instance" in v.dims]
        over_time = [n for n in per_instance if {"epoch", "age"} & set(results[n].dims)]
        for name in set(per_instance) - set(over_time):
            assert [column for column in frame if str(column).startswith(str(name))], name
        series = results[per_instance[0]].to_series()
        assert series.index.names[-1] == results[per_instance[0]].dims[-1]


@pytest.mark.skipif(shutil.which("ncdump") is None, reason="no ncdump")
def test_ncdump_describes_it(path, results):
    run = subprocess.run(["ncdump", "-h", path], capture_output=True, text=True, check=True)
    for dim, size in results.sizes.items():
        assert f"\t{dim} = {size} ;" in run.stdout
    for name, variable in results.variables.items():
        assert re.search(rf"\b{name}\({', '.join(map(str, variable.dims))}\) ;", run.stdout)
    assert ':Conventions = "CF-1.8" ;' in run.stdout
