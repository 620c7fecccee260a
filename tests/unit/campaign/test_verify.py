"""Does `mcage verify` say what is whole, and does the same command make the rest again?"""

import fake_campaign
import pytest
from typer.testing import CliRunner

from mcage.campaign.run import run_campaign
from mcage.campaign.shards import write_shard
from mcage.campaign.study import Study
from mcage.cli.app import app
from mcage.errors import UserError

CAMPAIGN = fake_campaign.campaign(instances=20)
STUDY = Study(CAMPAIGN, fake_campaign.compute)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_campaign(STUDY, tmp_path_factory.mktemp("whole") / "r.h5", 20)


@pytest.fixture
def out(whole, tmp_path):
    path = tmp_path / "r.h5"
    path.write_bytes(whole.read_bytes())
    return path


def spoil(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def verify(path):
    return CliRunner().invoke(app, ["verify", str(path)])


def test_a_whole_file(out):
    run = verify(out)
    assert run.exit_code == 0
    assert f"{out} is whole: 20 instances of sweep, seed 7" in run.output
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("place", [200, 3000, -5000, -10])
def test_a_damaged_file_is_refused_and_stays_until_it_is_moved_away(place, out, whole):
    spoil(out, place)
    damaged = out.read_bytes()
    run = verify(out)
    assert isinstance(run.exception, UserError)
    assert "is damaged, or was changed" in str(run.exception) or "truncated" in str(run.exception)
    assert str(run.exception).endswith("move it away, and the same command computes it again")
    with pytest.raises(UserError, match="to rely on; move it away to compute it again"):
        run_campaign(STUDY, out, 20)
    assert out.read_bytes() == damaged
    assert list(out.parent.iterdir()) == [out]
    out.rename(out.with_name("aside.h5"))
    run_campaign(STUDY, out, 7)
    assert out.read_bytes() == whole.read_bytes()


def test_folders_and_shards(tmp_path):
    folder = tmp_path / "x.h5.shards"
    folder.mkdir()
    paths = [
        write_shard(folder, CAMPAIGN, range(a, b), fake_campaign.compute(a, b))
        for a, b in ((0, 3), (3, 8), (12, 20))
    ]
    run = verify(folder)
    assert run.exit_code == 0
    assert "16 of 20 instances are in 3 whole shards (0-7, 12-19)" in run.output
    assert "is whole: a shard of sweep" in verify(paths[0]).output
    spoil(paths[1], 3000)
    run = verify(folder)
    assert "11 of 20 instances are in 2 whole shards (0-2, 12-19)" in run.output
    assert "1 shards are damaged: the same command computes them again" in str(run.exception)
    assert str(verify(paths[1]).exception).endswith(": the same command computes it again")
