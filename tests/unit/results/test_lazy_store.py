"""Results files as `open_results` opens them, and as xarray does by itself."""

import pickle

import numpy as np
import pytest
import xarray
from fake_campaign import compute
from result_files import write

from mcage.results import lazy_store
from mcage.results.reader import open_results


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "r.h5"
    write(path, (20,))
    return path


@pytest.fixture
def both(path):
    with open_results(path) as opened, xarray.open_dataset(path, engine="h5netcdf") as expected:
        yield opened, expected


def test_arrays_attributes_and_their_order_are_those_of_xarray(both):
    opened, expected = both
    assert opened.identical(expected)
    assert opened.encoding == expected.encoding
    assert list(opened.attrs) == list(expected.attrs)
    assert list(opened.variables) == list(expected.variables)
    assert list(opened.coords) == list(expected.coords)
    for name, variable in expected.variables.items():
        same = opened[name].variable
        assert same.dtype == variable.dtype
        assert {key: type(value) for key, value in same.attrs.items()} == {
            key: type(value) for key, value in variable.attrs.items()
        }
        used = {key: value for key, value in variable.encoding.items() if value is not False}
        known = {key: value for key, value in same.encoding.items() if value is not False}
        if "contiguous" not in variable.encoding:  # older versions of xarray do not tell it
            known.pop("contiguous", None)
        np.testing.assert_equal(known, used)


def test_only_what_is_asked_for_is_read(path, monkeypatch):
    read, part_of = [], lazy_store._StoredArray._part

    def part(stored, key):
        read.append((stored._name, key))
        return part_of(stored, key)

    monkeypatch.setattr(lazy_store._StoredArray, "_part", part)
    with open_results(path) as opened:
        read.clear()  # labels of dimensions are read at once
        life = opened["life_years"].isel(case=1, instance=slice(3, 5))
        assert not read
    np.testing.assert_array_equal(life, compute(0, 20)["life_years"][1, 3:5])  # after closing, too
    assert read == [("life_years", (1, slice(3, 5, 1)))]


@pytest.mark.parametrize(
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
def test_parts_are_those_of_xarray(both, place):
    parts = (results[["max_dvth_mv", "technique"]].isel(place) for results in both)
    assert next(parts).identical(next(parts))


def test_copies_are_the_same(both, tmp_path):
    opened, expected = both
    assert pickle.loads(pickle.dumps(opened)).identical(expected)
    assert opened.copy(deep=True).identical(expected)
    sizes = []
    for number, results in enumerate(both):
        copy = tmp_path / f"{number}.nc"
        results.to_netcdf(copy, engine="h5netcdf")
        sizes.append(copy.stat().st_size)
    with xarray.open_dataset(copy, engine="h5netcdf") as copied:
        assert copied.identical(expected)
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)
