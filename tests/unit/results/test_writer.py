"""Does a results file say what was computed, in a way that the field's readers understand?"""

import csv
import io
import json
import lzma
import pickle
import re
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import cf_units
import darts
import fake_campaign
import h5py
import netCDF4
import numpy as np
import pytest
import sweep_cases
import xarray
from command_line import invoke
from damaged_files import append_checksum
from fake_campaign import INSTANCES, compute, write
from gpu_cases import gating
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from tables import each

import mcage
from mcage.errors import UserError
from mcage.files.atomic import JSON, whole_file
from mcage.files.inputs import DamagedFileError, verify_checksum
from mcage.files.plain_hdf5 import MOST_CHUNK_BYTES, NotPlainError, look_through
from mcage.lifetime import EndCause
from mcage.results import lazy_store, writer
from mcage.results.header import SCHEMA_VERSION, header_class
from mcage.results.reader import LAST_OF_SCHEMA, OLDEST_SCHEMA, open_results, read_header
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


def test_chunks_are_written_together(monkeypatch, tmp_path, path):
    counts, write_some = [], writer._Content._write

    def writing(content, count):
        counts.append(count)
        write_some(content, count)

    monkeypatch.setattr(writer._Content, "_write", writing)
    monkeypatch.setattr(writer, "INSTANCES_PER_CHUNK", 2)
    write(tmp_path / "r.h5", (1, INSTANCES - 1))
    whole, rest = divmod(INSTANCES, 2 * writer.CHUNKS_TOGETHER)
    assert counts == [2 * writer.CHUNKS_TOGETHER] * whole + [rest] * (rest > 0)
    with h5py.File(path) as expected, h5py.File(tmp_path / "r.h5") as file:
        for name in expected:
            np.testing.assert_array_equal(file[name][...], expected[name][...])


# Results files as `open_results` opens them, and as xarray does by itself.


@pytest.fixture
def opened_twice(path):
    with (
        open_results(path) as opened,
        xarray.open_dataset(path, engine="h5netcdf") as expected,
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
    expected = compute(0, INSTANCES)["life_years"][1, 3:5]
    np.testing.assert_array_equal(life, expected)  # after closing, too
    assert read == [("life_years", (1, slice(3, 5, 1)))]


@each(
    "place",
    [
        {"instance": 3},
        {"instance": [7, 2, 2]},
        {"instance": slice(10, 2, -3), "case": [1, 0]},
        {"instance": np.arange(INSTANCES) % 3 == 0, "case": [2, 0], "transistor": 1},
        {"case": xarray.DataArray([0, 1]), "instance": xarray.DataArray([5, 4])},
        {"instance": slice(0, 0)},
    ],
)
def test_parts_are_those_of_xarray(opened_twice, place):
    parts = (results[["max_dvth_mv", "technique"]].isel(place) for results in opened_twice)
    assert next(parts).identical(next(parts))


# Is every file that is not a whole results file refused, with one clear line?


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "r.h5"
    write(path, (5,))
    return path.read_bytes()


def refuse(path, match):
    with pytest.raises(UserError, match=match) as refusal:
        open_results(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_missing_and_unreadable(tmp_path):
    refuse(tmp_path / "none.h5", "No such file")
    refuse(tmp_path, "Is a directory")


def test_foreign(tmp_path):
    path = tmp_path / "r.h5"
    with h5py.File(path, "w") as file:
        file["life_years"] = np.ones(3)
    for content in (path.read_bytes(), b"", b"time,life\n1,2\n" * 50):
        path.write_bytes(content)
        refuse(path, "not written by mcage")


def test_damaged_anywhere(good, tmp_path):
    path = tmp_path / "r.h5"
    draw = np.random.default_rng(3)
    for place in draw.integers(0, len(good), 100):
        damaged = bytearray(good)
        damaged[place] ^= 1 << draw.integers(8)
        path.write_bytes(damaged)
        refuse(path, "damaged|truncated")


def reseal(path, good, **attributes):
    path.write_bytes(good)
    with h5py.File(path, "r+") as file:
        file.attrs.update(attributes)
    append_checksum(path)


def test_a_newer_schema(good, tmp_path):
    path = tmp_path / "r.h5"
    reseal(path, good, schema_version=SCHEMA_VERSION + 1, mcage_version="9.9")
    refuse(path, f"by mcage 9.9 with schema {SCHEMA_VERSION + 1}; this one takes")


def test_a_sealed_file_of_another_type(good, tmp_path):
    path = tmp_path / "r.h5"
    reseal(path, good, filetype="mcage-trace")
    refuse(path, "holds mcage-trace, not mcage-results")


def test_what_contradicts_the_campaign_is_refused(good, tmp_path):
    """Every attribute repeats what the attribute ``campaign`` says, or follows from it."""
    path = tmp_path / "r.h5"
    path.write_bytes(good)
    with h5py.File(path) as file:
        attributes = {name: file.attrs[name] for name in file.attrs}
        campaign = json.loads(attributes.pop("campaign"))
    for name in attributes.keys() - {"filetype", "schema_version", "sums_checksum"}:
        content = attributes[name]
        other = f"{content} " if isinstance(content, str) else int(content) + 1
        reseal(path, good, **{name: other})
        refuse(path, f"attribute {name}: does not say what|campaign: name: ")
    for fields in (
        {"instances": 10**13, "absent": [[5, 6]]},
        {"instances": campaign["instances"] + 1},
        {"stopped": "ended"},
        {"kernels": [["a"]]},
        {"draws": [["life_years", "1", [0.5]]]},
    ):
        reseal(path, good, campaign=np.bytes_(json.dumps(campaign | fields)))
        refuse(path, "not as mcage writes it")


def test_chunks_are_not_larger_than_is_read(tmp_path):
    """A chunk is in memory as a whole, however little of it the file holds."""
    most = MOST_CHUNK_BYTES // 8
    for name, chunk in (("good", most), ("bad", most + 1)):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("x", (1,), "f8", maxshape=(None,), chunks=(chunk,))
    assert look_through(str(tmp_path / "good"))
    with pytest.raises(NotPlainError, match="x: has chunks of 64 MiB; at most 64 MiB are read"):
        look_through(str(tmp_path / "bad"))


def test_the_seal_covers_every_piece_of_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr("mcage.files.inputs._PIECE_BYTES", 10)
    path = tmp_path / "large"
    path.write_bytes(bytes(range(35)))
    append_checksum(path)
    verify_checksum(path)
    sealed = path.read_bytes()
    for place in range(len(sealed)):
        path.write_bytes(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :])
        with pytest.raises(DamagedFileError):
            verify_checksum(path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.h5"
    path.write_text("{}")

    def write_half():
        with whole_file(path, JSON) as stream:
            stream.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"cannot write .*r\.h5: No space left"):
        write_half()
    assert path.read_text() == "{}"
    assert list(tmp_path.iterdir()) == [path]


# Does a results file of every schema version that there was open, or say what opens it?
# `tests/support/data/schemas` holds a file of each, as the last code of that version has written
# it: three instances of ``baseline`` and ``rrcd`` on two kernels, cut to one window of each slot,
# in two periods and two epochs, by the engine numpy.

FOLDER = Path(sweep_cases.__file__).parent / "data/schemas"


@pytest.fixture
def file_of(tmp_path):
    def unpacked(name):
        path = tmp_path / f"{name}.h5"
        path.write_bytes(lzma.decompress((FOLDER / f"{name}.h5.xz").read_bytes()))
        return path

    return unpacked


def test_there_is_a_file_of_every_version():
    assert {path.name.split(".")[0] for path in FOLDER.iterdir()} == {
        *map(str, range(1, SCHEMA_VERSION + 1)),
    }
    assert [*LAST_OF_SCHEMA] == [*range(1, OLDEST_SCHEMA)]


@pytest.mark.parametrize("schema", [9, 10, 11])
def test_what_is_read(schema, file_of):
    path = file_of(schema)
    header = read_header(path)
    assert (header.study, header.instances, header.absent) == ("sweep", 3, ())
    guards = ["ecp1"] if schema == 9 else ["ecp1", "secded32"]
    names = [(technique, guard) for guard in guards for technique in ("baseline", "rrcd")]
    assert [(case["technique"], case["protection"]) for case in header.cases] == names
    with open_results(path) as results:
        assert results.attrs["schema_version"] == SCHEMA_VERSION
        assert np.allclose(results["life_years"], 3.0, atol=0.01)
        assert set(results["highest_temperature_kelvin"].values) == {353.15}
        assert set(results["kernel"].values) == {"Reduction", "DCT"}
    run = invoke("show", path)
    assert run.exit_code == 0
    assert "delay 100 %" in run.stdout


OLD = {
    "9.sweep-codes": ("none", "ecp1", "secded64x4", "secded32+ecp1", "ecp1+spare8"),
    "9.vmin-codes": ("none", "secded32x4", "ecp1+spare8"),
    "9.flip": ("none", "secded32"),
}


@pytest.mark.parametrize("name", OLD)
def test_protection_is_an_axis_of_older_files_too(name, file_of):
    path = file_of(name)
    with mcage.open_results(path) as results:
        assert set(results["technique"].values) == {"baseline", "rrcd"}
        assert {*results["protection"].values} == {*OLD[name]}
        assert {*results["cell"].values} == {"6t"}
        if "vmin" not in name:
            *_, lowest = results["voltages"].values[0].removesuffix(" V").split("/")
            assert float(lowest) == results["vdd_volts"].values[0]
        for guard in OLD[name]:
            of_it = results.sel(protection=guard, technique="rrcd")
            assert all(label.startswith("rrcd") for label in of_it["case"].values)
            assert len({*of_it["protection"].values} | {guard}) == 1
        again = header_class(results.attrs["study"]).from_json(str(results.attrs["campaign"]))
        assert again == read_header(path)
    lines = invoke("show", path, "--csv", "--where", f"protection={OLD[name][-1]}").stdout
    assert {line["protection"] for line in csv.DictReader(io.StringIO(lines))} == {OLD[name][-1]}


@pytest.mark.parametrize("schema", LAST_OF_SCHEMA)
def test_what_is_refused(schema, file_of):
    with pytest.raises(UserError) as refusal:
        read_header(file_of(schema))
    said = rf"was written by mcage 0\.1\.0(\+g\w+)? with schema {schema}; this one takes 9 to 11"
    assert re.search(said, str(refusal.value))
    assert str(refusal.value).endswith(f": use commit {LAST_OF_SCHEMA[schema]}")
