"""Does a sweep survive kill -9 at any moment?"""

import random
import subprocess
import sys
import time

import fake_campaign
import pytest

from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import shard_folder
from mcage.campaign.study import Study
from mcage.results.header import StoppingRule

INSTANCES = 40


def start(out, shard_size, seconds_per_shard, instances=INSTANCES, rel_ci=()):
    numbers = (instances, shard_size, seconds_per_shard, *rel_ci)
    command = [sys.executable, fake_campaign.__file__, out, *map(str, numbers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("shard_size", [1, 6])
def test_killed_and_continued_is_bit_identical(shard_size, tmp_path):
    campaign = fake_campaign.campaign(instances=INSTANCES)
    whole = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "whole.h5", 9)
    moments = random.Random(shard_size)
    out = tmp_path / "killed.h5"
    kills = 0
    for _ in range(5):
        process = start(out, shard_size, 0.005)
        process.stdout.readline()  # the first shard of this run has begun
        time.sleep(moments.uniform(0, 0.08))
        process.kill()
        kills += process.wait() == -9
        assert not out.exists() or out.read_bytes() == whole.read_bytes()
    assert kills, "no run was killed in its middle"
    run_campaign(Study(campaign, fake_campaign.compute), out, 5)
    assert out.read_bytes() == whole.read_bytes()
    assert not shard_folder(out).exists()


def test_killed_on_the_way_to_a_precision(tmp_path):
    """Killed before its first checkpoint, between two, and at any moment: same end, same bits."""
    rule = StoppingRule(0.047, "spill_rate")
    campaign = fake_campaign.campaign(instances=900, stopping=rule)
    whole = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "whole.h5", 1000)
    out = tmp_path / "killed.h5"
    kills = 0
    for begun in (1, 5, 4, 1):
        process = start(out, 50, 0.005, 900, (rule.rel_ci,))
        for _ in range(begun):
            process.stdout.readline()
        process.kill()
        kills += process.wait() == -9
        assert not out.exists() or out.read_bytes() == whole.read_bytes()
    assert kills, "no run was killed in its middle"
    run_campaign(Study(campaign, fake_campaign.compute), out, 40)
    assert out.read_bytes() == whole.read_bytes()
    assert not shard_folder(out).exists()


def test_killed_while_merging(tmp_path):
    """The moments that random kills seldom meet: before and after the file gets its name."""
    campaign = fake_campaign.campaign(instances=INSTANCES)
    whole = run_campaign(Study(campaign, fake_campaign.compute), tmp_path / "whole.h5", 9)
    expected = [whole]
    for moment in ("os.link", "os.unlink", "pathlib.Path.rmdir"):
        out = tmp_path / f"{moment}.h5"
        expected.append(out)
        out_is_there = moment != "os.link"
        script = (
            f"import os, pathlib, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
            f"sys.path.insert(0, {fake_campaign.__file__.rsplit('/', 1)[0]!r})\n"
            "import fake_campaign\n"
            f"original = {moment}\n"
            "def die(path, *arguments):\n"
            "    if moment_has_come(str(path)):\n"
            "        os.kill(os.getpid(), 9)\n"
            "    return original(path, *arguments)\n"
            "moment_has_come = lambda path: path.endswith('.shards') or (\n"
            f"    'partial' in path and '.shards' not in path and {out_is_there!r} == "
            f"pathlib.Path({str(out)!r}).exists() and pathlib.Path(path).stat().st_size > 0)\n"
            f"{moment} = die\n"
            f"sys.argv[1:] = [{str(out)!r}, '{INSTANCES}', '7', '0']\n"
            "fake_campaign.main()\n"
        )
        run = subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
        assert run.returncode == -9
        assert out.exists() == (moment != "os.link")
        run_campaign(Study(campaign, fake_campaign.compute), out, 5)
        assert out.read_bytes() == whole.read_bytes()
        assert not shard_folder(out).exists()
        assert sorted(tmp_path.iterdir()) == sorted(expected)


def test_a_second_process_on_the_same_output_is_refused(tmp_path):
    out = tmp_path / "r.h5"
    first = start(out, 1, 0.1)
    first.stdout.readline()
    command = [sys.executable, fake_campaign.__file__, out, str(INSTANCES), "1", "0"]
    second = subprocess.run(command, capture_output=True, text=True)
    assert "another mcage is working on" in second.stderr
    assert first.poll() is None
    first.kill()
    first.wait()
