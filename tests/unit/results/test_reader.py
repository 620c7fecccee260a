"""Is every file that is not a whole results file refused, with one clear line?"""

import csv
import io
import json
import lzma
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import sweep_cases
from command_line import invoke
from damaged_files import append_checksum
from fake_campaign import write

import mcage
from mcage.errors import UserError
from mcage.files.atomic import JSON, whole_file
from mcage.files.inputs import DamagedFileError, verify_checksum
from mcage.files.plain_hdf5 import MOST_CHUNK_BYTES, NotPlainError, look_through
from mcage.results.header import SCHEMA_VERSION, header_class
from mcage.results.reader import LAST_OF_SCHEMA, OLDEST_SCHEMA, open_results, read_header


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
