"""Does ``mcage merge`` make the same file from shards computed anywhere, and refuse the rest?"""

import re
import shutil

import fake_campaign
import pytest
from campaign_cases import CAMPAIGN, interrupt

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import shard_folder
from mcage.campaign.shards import shard_name, write_shard
from mcage.campaign.study import Study
from mcage.errors import UserError


def compute_shards(out, *ranges):
    folder = shard_folder(out)
    folder.mkdir()
    for instances in ranges:
        arrays = fake_campaign.compute(instances.start, instances.stop)
        write_shard(folder, CAMPAIGN, instances, arrays)
    return folder


def test_shards_of_two_machines_make_the_file_of_one(tmp_path):
    whole = run_campaign(Study(CAMPAIGN, fake_campaign.compute), tmp_path / "whole.h5", 20)
    out = tmp_path / "r.h5"
    folder = compute_shards(out, range(8), range(8, 9))
    other = compute_shards(tmp_path / "other.h5", range(9, 20))
    for path in other.iterdir():
        shutil.move(path, folder)
    assert merge(out) == out
    assert out.read_bytes() == whole.read_bytes()
    assert not folder.exists()


def test_missing_instances_are_named(tmp_path):
    folder = compute_shards(tmp_path / "r.h5", range(4), range(6, 12))
    with pytest.raises(UserError, match=re.escape("10 of 20 instances are missing")) as refusal:
        merge(tmp_path / "r.h5")
    assert "the first: 4-5" in str(refusal.value)
    assert len(list(folder.glob("*.h5"))) == 2


def test_a_damaged_shard_is_refused(tmp_path):
    folder = compute_shards(tmp_path / "r.h5", range(4), range(4, 20))
    with (folder / shard_name(CAMPAIGN.spec_digest, range(4))).open("r+b") as stream:
        stream.seek(3000)
        stream.write(b"x")
    with pytest.raises(UserError, match=r"damaged.*: run the same campaign again to recompute it"):
        merge(tmp_path / "r.h5")
    assert not (tmp_path / "r.h5").exists()


def test_a_foreign_shard_is_refused(tmp_path):
    folder = compute_shards(tmp_path / "r.h5", range(4))
    other = fake_campaign.campaign(instances=20, spec_digest="fedcba98" * 8)
    write_shard(folder, other, range(4, 20), fake_campaign.compute(4, 20))
    with pytest.raises(UserError, match="another campaign"):
        merge(tmp_path / "r.h5")


def test_no_shards(tmp_path):
    with pytest.raises(UserError, match="nothing to merge"):
        merge(tmp_path / "r.h5")
    shard_folder(tmp_path / "r.h5").mkdir()
    with pytest.raises(UserError, match="no finished shard"):
        merge(tmp_path / "r.h5")


def test_another_result_is_not_overwritten(tmp_path):
    compute_shards(tmp_path / "r.h5", range(20))
    (tmp_path / "r.h5").write_text("my notes")
    with pytest.raises(UserError, match="not written by mcage"):
        merge(tmp_path / "r.h5")
    assert (tmp_path / "r.h5").read_text() == "my notes"


def test_what_others_put_into_the_folder_stays(tmp_path):
    out = tmp_path / "r.h5"
    folder = compute_shards(out, range(20))
    (folder / "notes").mkdir()
    with pytest.raises(UserError, match="not a shard"):
        merge(out)
    assert (folder / "notes").is_dir()


def test_the_command(command, tmp_path):
    interrupt(tmp_path / "r.h5")
    code, _, said = command("merge", "r.h5")
    assert code == 2
    assert said.startswith("error: 14 of 20 instances are missing in r.h5.shards")
    folder = shard_folder(tmp_path / "r.h5")
    write_shard(folder, CAMPAIGN, range(6, 20), fake_campaign.compute(6, 20))
    assert command("merge", "r.h5") == (0, "r.h5\n", "")
