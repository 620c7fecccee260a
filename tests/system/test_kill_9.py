"""Does a sweep survive kill -9 at any moment?"""

import random
import re
import time

import darts
import fake_campaign
import pytest
from killable import DARTS, Nursery, dying, job_of_darts

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import shard_folder
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.results.header import StoppingRule

INSTANCES = 40
SECONDS_TO_BEGIN = 60.0


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as process:
        yield process


@pytest.mark.parametrize("shard_size", [1, 6])
def test_killed_and_continued_is_bit_identical(shard_size, nursery, tmp_path):
    campaign = fake_campaign.campaign(instances=INSTANCES)
    whole = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "whole.h5", 9)
    moments = random.Random(shard_size)
    out = tmp_path / "killed.h5"
    kills = 0
    for _ in range(5):
        process = nursery.start(fake_campaign.run, out, INSTANCES, shard_size, 0.005)
        process.words.readline()  # the first shard of this run has begun
        time.sleep(moments.uniform(0, 0.08))
        process.kill()
        kills += process.wait() == -9
        assert not out.exists() or out.read_bytes() == whole.read_bytes()
    assert kills, "no run was killed in its middle"
    run_campaign(Study(campaign, fake_campaign.compute), out, 5)
    assert out.read_bytes() == whole.read_bytes()
    assert not shard_folder(out).exists()


def test_killed_on_the_way_to_a_precision(nursery, tmp_path):
    """Killed before its first checkpoint, between two, and at any moment: same end, same bits."""
    rule = StoppingRule(0.047, "spill_rate")
    campaign = fake_campaign.campaign(instances=900, stopping=rule)
    whole = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "whole.h5", 1000)
    out = tmp_path / "killed.h5"
    kills = 0
    for begun in (1, 5, 4, 1):
        process = nursery.start(fake_campaign.run, out, 900, 50, 0.005, rule.rel_ci)
        for _ in range(begun):
            process.words.readline()
        process.kill()
        kills += process.wait() == -9
        assert not out.exists() or out.read_bytes() == whole.read_bytes()
    assert kills, "no run was killed in its middle"
    run_campaign(Study(campaign, fake_campaign.compute), out, 40)
    assert out.read_bytes() == whole.read_bytes()
    assert not shard_folder(out).exists()


def test_killed_while_merging(nursery, tmp_path):
    """The moments that random kills seldom meet: before and after the file gets its name."""
    campaign = fake_campaign.campaign(instances=INSTANCES)
    whole = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "whole.h5", 9)
    expected = [whole]
    for moment in ("os.link", "os.unlink", "pathlib.Path.rmdir"):
        out = tmp_path / f"{moment}.h5"
        expected.append(out)
        assert nursery.start(dying, out, INSTANCES, 7, moment).wait() == -9
        assert out.exists() == (moment != "os.link")
        run_campaign(Study(campaign, fake_campaign.compute), out, 5)
        assert out.read_bytes() == whole.read_bytes()
        assert not shard_folder(out).exists()
        assert sorted(tmp_path.iterdir()) == sorted(expected)


def test_a_second_process_on_the_same_output_is_refused(nursery, tmp_path):
    out = tmp_path / "r.h5"
    first = nursery.start(fake_campaign.run, out, INSTANCES, 1, 0.1)
    first.words.readline()
    second = nursery.start(fake_campaign.run, out, INSTANCES, 1)
    assert "another mcage is working on" in second.words.read()
    assert second.wait() == 1
    first.kill()
    assert first.wait() == -9  # it was still running


def test_an_array_of_four_jobs_of_which_one_is_killed(nursery, tmp_path):
    """As Slurm runs them, at the same time; the killed one is run again."""
    out = tmp_path / "pi.h5"
    array = [nursery.start(job_of_darts, out, f"{number}/4") for number in (1, 2, 3, 4)]
    until = time.monotonic() + SECONDS_TO_BEGIN
    while not (shard_folder(out).is_dir() and in_folder(out, r"bench-000000030-.*")):
        assert time.monotonic() < until
    array[2].kill()
    assert [process.wait() for process in array] == [0, 0, -9, 0]
    with pytest.raises(UserError, match="instances are missing"):
        merge(out)
    again = nursery.start(job_of_darts, out, "3/4")
    assert again.wait() == 0
    assert not in_folder(out, "bench.*")
    study = darts.pi_by_darts(DARTS, seconds_per_shard=0.05)
    expected = run_campaign(study, tmp_path / "whole.h5", DARTS)
    assert merge(out).read_bytes() == expected.read_bytes()
    assert not shard_folder(out).exists()


def in_folder(out, pattern):
    return [path for path in shard_folder(out).iterdir() if re.fullmatch(pattern, path.name)]
