"""Does a results file of every schema version that there was open, or say what opens it?

`tests/support/data/schemas` holds a file of each, as the last code of that version has written it:
three instances of ``baseline`` and ``rrcd`` on two kernels, cut to one window of each slot, in two
periods and two epochs, by the engine numpy.
"""

import lzma
from pathlib import Path

import fake_campaign
import numpy as np
import pytest
import sweep_cases  # whose folder has the files
from campaign_cases import Computer
from typer.testing import CliRunner

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
from mcage.cli.app import app
from mcage.errors import UserError
from mcage.results.header import SCHEMA_VERSION
from mcage.results.reader import LAST_OF_SCHEMA, READ_SCHEMAS, open_results, read_header

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
        "6-first",
    }
    assert [*LAST_OF_SCHEMA, *READ_SCHEMAS] == [*range(1, SCHEMA_VERSION + 1)]


@pytest.mark.parametrize("schema", READ_SCHEMAS)
def test_what_is_read(schema, file_of):
    path = file_of(schema)
    header = read_header(path)
    assert (header.study, header.instances, header.absent) == ("sweep", 3, ())
    assert [case.technique for case in header.cases] == ["baseline", "rrcd"]
    with open_results(path) as results:
        assert results.attrs["schema_version"] == schema
        assert np.allclose(results["life_years"], 3.0, atol=0.01)
        assert set(results["kernel"].values) == {"Reduction", "DCT"}
    run = CliRunner().invoke(app, ["show", str(path)])
    assert run.exit_code == 0
    assert "delay 100 %" in run.stdout


@pytest.mark.parametrize("schema", LAST_OF_SCHEMA)
def test_what_is_refused(schema, file_of):
    with pytest.raises(UserError) as refusal:
        read_header(file_of(schema))
    said = f"was written by mcage 0.1.0 with schema {schema}; this one takes "
    assert said in str(refusal.value)
    assert str(refusal.value).endswith(f": use commit {LAST_OF_SCHEMA[schema]}")


def test_the_first_files_of_schema_6_lack_a_variable(file_of):
    with pytest.raises(UserError) as refusal:
        read_header(file_of("6-first"))
    assert "energy_saving_nominal: missing" in str(refusal.value)
    assert str(refusal.value).endswith("mcage 0.1.0+ge9d2f9f with schema 6: use that mcage")


def test_files_of_an_older_schema_get_no_more_instances(file_of):
    path = file_of(6)
    before = path.read_bytes()
    computer = Computer()
    with pytest.raises(UserError, match=r"with schema 6; this one takes 7: use that mcage"):
        run_campaign(Study(fake_campaign.campaign(instances=20), computer), path, 5)
    assert computer.ranges == []
    assert path.read_bytes() == before
