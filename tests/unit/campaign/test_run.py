"""Does a campaign end in the same file however it was cut, stopped, damaged and continued?"""

import fcntl
import shutil
from pathlib import Path

import fake_campaign
import pytest
from campaign_cases import CAMPAIGN, Computer, Listener, interrupt, refused

from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import LOCK_NAME, shard_folder
from mcage.campaign.shards import shard_name, write_shard
from mcage.campaign.study import Study
from mcage.errors import UserError


@pytest.mark.parametrize("shard_size", [1, 7, 1000])
def test_shard_size_does_not_matter(shard_size, uninterrupted, tmp_path):
    listener = Listener()
    out = run_campaign(
        Study(CAMPAIGN, fake_campaign.compute), tmp_path / "r.h5", shard_size, listener
    )
    assert out.read_bytes() == uninterrupted
    assert list(tmp_path.iterdir()) == [out]
    assert (listener.begin, listener.advanced, listener.finished) == ((20, 0), 20, True)


def test_a_stopped_campaign_continues_with_what_is_missing(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    listener = Listener()
    with pytest.raises(KeyboardInterrupt):
        run_campaign(Study(CAMPAIGN, Computer(stop_after=2)), out, 3, listener)
    assert "the same command continues" in listener.said[-1]
    assert not out.exists()
    computer = Computer()
    run_campaign(Study(CAMPAIGN, computer), out, 5, listener)
    assert computer.ranges == [(6, 11), (11, 16), (16, 20)]
    assert listener.begin == (20, 6)
    assert out.read_bytes() == uninterrupted
    assert not shard_folder(out).exists()


def test_a_finished_campaign_is_left_alone(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    out.write_bytes(uninterrupted)
    computer, listener = Computer(), Listener()
    assert run_campaign(Study(CAMPAIGN, computer), out, 5, listener) == out
    assert computer.ranges == []
    assert "nothing to compute" in listener.said[0]
    assert list(tmp_path.iterdir()) == [out]


def test_shards_left_by_a_kill_after_the_merge_are_cleared(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    interrupt(out)
    out.write_bytes(uninterrupted)
    computer = Computer()
    run_campaign(Study(CAMPAIGN, computer), out, 5)
    assert computer.ranges == []
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_damaged_shard_is_computed_again_with_a_warning(damage, uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    victim = interrupt(out) / shard_name(CAMPAIGN.spec_digest, range(3, 6))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 4
    spoiled = {"truncate": content[:-100], "flip": content, "empty": b""}
    victim.write_bytes(spoiled[damage])
    computer, listener = Computer(), Listener()
    run_campaign(Study(CAMPAIGN, computer), out, 100, listener)
    assert computer.ranges == [(3, 20)]
    assert "warning" in listener.said[0]
    assert victim.name in listener.said[0]
    assert sum("warning" in line for line in listener.said) == 1
    assert out.read_bytes() == uninterrupted
    assert list(tmp_path.iterdir()) == [out]


def test_half_written_files_of_a_kill_are_swept_away(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    fake_campaign.abandoned(interrupt(out) / "half.h5")
    fake_campaign.abandoned(out)
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 5)
    assert out.read_bytes() == uninterrupted
    assert list(tmp_path.iterdir()) == [out]


def test_a_defect_in_computing_loses_no_finished_shard(tmp_path):
    out = tmp_path / "r.h5"
    with pytest.raises(ZeroDivisionError):
        run_campaign(Study(CAMPAIGN, Computer(1, ZeroDivisionError)), out, 5)
    assert (shard_folder(out) / shard_name(CAMPAIGN.spec_digest, range(5))).exists()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("spec_digest", "fedcba98" * 8, "spec_digest 0123456789.*, not fedcba98"),
        ("engine", "numpy", "engine numba, not numpy"),
        ("kernels", ("Reduction",), "another grid"),
    ],
)
def test_another_sweep_is_not_overwritten(field, value, message, uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    other = fake_campaign.campaign(instances=20, **{field: value})
    out.write_bytes(uninterrupted)
    refused(out, f"already holds another campaign .{message}", other)
    out.unlink()
    interrupt(out)
    refused(out, f"shard of another campaign .{message}", other)


def test_another_device_may_continue(uninterrupted, tmp_path):
    out = tmp_path / "r.h5"
    interrupt(out)
    run_campaign(
        Study(
            fake_campaign.campaign(instances=20, device="another", engine_reason="asked for"),
            fake_campaign.compute,
        ),
        out,
        5,
    )
    assert out.read_bytes() == uninterrupted


def test_a_file_of_something_else_is_not_overwritten(tmp_path):
    (tmp_path / "r.h5").write_text("my notes")
    refused(tmp_path / "r.h5", "not written by mcage")


def test_a_destination_that_cannot_be_written(tmp_path):
    refused(tmp_path / "none" / "r.h5", "there is no folder .*none")
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", "is a folder")
    with pytest.raises(UserError, match=r"cannot write into /proc/r\.h5\.shards"):
        run_campaign(Study(CAMPAIGN, fake_campaign.compute), Path("/proc/r.h5"), 5)
    (tmp_path / "r.h5.shards").write_text("a file")
    refused(tmp_path / "r.h5", "cannot write into .*shards")


def test_overlapping_shards(tmp_path):
    folder = interrupt(tmp_path / "r.h5")
    write_shard(folder, CAMPAIGN, range(5, 8), fake_campaign.compute(5, 8))
    refused(tmp_path / "r.h5", "overlap .instances 3-5 and 5-7")


def test_files_that_are_no_shards(tmp_path):
    folder = interrupt(tmp_path / "r.h5")
    name = shard_name(CAMPAIGN.spec_digest, range(3))
    shutil.copy(folder / name, folder / f"copy of {name}")
    refused(tmp_path / "r.h5", "is not a shard: move")


def test_a_renamed_shard(tmp_path):
    folder = interrupt(tmp_path / "r.h5")
    name = shard_name(CAMPAIGN.spec_digest, range(3))
    (folder / name).rename(folder / shard_name(CAMPAIGN.spec_digest, range(9, 12)))
    refused(tmp_path / "r.h5", "renamed copy")


def test_the_same_instances_twice(tmp_path):
    folder = interrupt(tmp_path / "r.h5")
    name = shard_name(CAMPAIGN.spec_digest, range(3))
    shutil.copy(folder / name, folder / name.replace("-000000000-", "-00-"))
    refused(tmp_path / "r.h5", "hold the same instances")


def test_a_shard_beyond_the_sweep(tmp_path):
    folder = interrupt(tmp_path / "r.h5")
    write_shard(folder, CAMPAIGN, range(18, 23), fake_campaign.compute(18, 23))
    refused(tmp_path / "r.h5", "reaches beyond the 20 instances")


def test_two_sweeps_at_once(tmp_path):
    folder = interrupt(tmp_path / "r.h5")
    with (folder / LOCK_NAME).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(tmp_path / "r.h5", "another mcage is working on")
