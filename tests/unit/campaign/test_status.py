"""What another terminal is told about a campaign."""

import json
import os
import time
from dataclasses import replace

import fake_campaign
import pytest
from campaign_cases import CAMPAIGN, Listener

from mcage.campaign.part import Part, run_part
from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import shard_folder
from mcage.campaign.status.reader import state_of, statuses
from mcage.campaign.status.record import RunRecord, began_at
from mcage.campaign.status.writer import StatusWriter
from mcage.campaign.study import Study
from mcage.errors import UserError


class Clock:
    def __init__(self, now=50.0):
        self.now = now

    def __call__(self):
        return self.now


def record(first=0, last=20, **more):
    return RunRecord("sweep", CAMPAIGN.spec_digest, 20, first, last, **more)


@pytest.fixture
def folder(tmp_path):
    folder = shard_folder(tmp_path / "r.h5")
    folder.mkdir()
    return folder


def writer(folder, run=None, clock=None):
    clock = clock or Clock()
    listener = Listener()
    return StatusWriter(folder, run or record(), listener, clock, clock), listener, clock


def test_the_file_says_what_progress_shows(folder):
    status, listener, clock = writer(folder)
    status.start(20, 4)
    for _ in range(4):
        clock.now += 10.0
        status.finished("worker 1", 2, deaths=0)
        status.advance(2)
    status.finished("worker 2", 1, deaths=2)
    status.say("worker 3 has died")
    status.finish()
    status.enter("computed")
    assert (listener.begin, listener.advanced) == ((20, 4), 8)
    assert listener.said == ["worker 3 has died"]
    read = RunRecord.read(folder / "status.json")
    assert (read.done, read.deaths, read.messages) == (12, 2, ["worker 3 has died"])
    assert read.workers["worker 1"].instances == 8
    assert read.instances_per_second == pytest.approx(0.2)
    assert read.seconds_left == pytest.approx(40.0)
    assert (read.began, read.updated) == (50.0, 90.0)


def test_it_is_written_at_most_every_second(folder):
    status, _, clock = writer(folder)
    status.start(20, 0)
    before = (folder / "status.json").read_bytes()
    clock.now += 0.9
    status.advance(5)
    assert (folder / "status.json").read_bytes() == before
    clock.now += 0.2
    status.advance(5)
    assert json.loads((folder / "status.json").read_bytes())["done"] == 10


def test_a_status_that_cannot_be_written_is_said_once_and_stops_nothing(folder):
    status, listener, clock = writer(folder)
    (folder / "status.json").mkdir()
    status.start(20, 0)
    for _ in range(3):
        clock.now += 2.0
        status.advance(5)
    assert listener.advanced == 15
    assert len(listener.said) == 1
    assert "cannot write" in listener.said[0]


def place(folder, run, state="computing", **more):
    """Write the status file of a run."""
    run.state = state
    for name, content in more.items():
        setattr(run, name, content)
    (folder / run.name).write_text(run.to_json())


def test_a_run_of_this_machine_is_killed_when_its_process_is_gone(folder):
    run = record()
    assert state_of(run) == "computing"
    run.process_began -= 1  # another process has been given its number
    assert state_of(run) == "killed"
    run.process, run.process_began = 2**22 + 1, 5
    assert state_of(run) == "killed"
    run.state = "interrupted"
    assert state_of(run) == "interrupted"
    assert began_at(os.getpid()) == record().process_began


def test_a_run_elsewhere_is_silent_after_ten_minutes():
    run = record(host="elsewhere", updated=time.time() - 30)
    assert state_of(run) == "computing"
    run.updated -= 700
    assert state_of(run) == "silent"
    run.updated = time.time() + 3600  # its clock, or ours, is wrong
    assert state_of(run) == "computing"


def test_parts_add_up(folder):
    place(folder, record(0, 10), instances_per_second=2.0, seconds_left=3.0, done=4)
    place(folder, record(10, 20), instances_per_second=1.0, seconds_left=8.0, done=2)
    for name in ("a-000000000-000000003.h5", "a-000000010-000000011.h5"):
        (folder / name).touch()
    (status,) = statuses(folder)
    assert (status.done, status.instances, status.state) == (6, 20, "computing")
    assert (status.instances_per_second, status.seconds_left) == (3.0, 8.0)
    place(folder, record(0, 10), "computed")
    assert statuses(folder)[0].state == "computing"
    place(folder, record(10, 20), "computed")
    assert statuses(folder)[0].state == "computed"


def test_shards_that_overlap_count_once(folder):
    place(folder, record())
    for name in ("000000000-000000007", "000000004-000000009", "000000005-000000006"):
        (folder / f"a-{name}.h5").touch()
    assert statuses(folder)[0].done == 10


@pytest.mark.parametrize("where", ["r.h5", "r.h5.shards", "."])
def test_places(folder, tmp_path, command, where):
    place(folder, record(), done=5, messages=["\x1b[2Jwiped"])
    code, out, err = command("status", where)
    assert (code, err) == (0, "")
    assert "computing" in out
    assert "0/20" in out
    assert "\\u001b[2Jwiped" in out
    code, out, _ = command("status", where, "--json")
    assert json.loads(out)[0]["runs"][0]["done"] == 5


def test_nothing_there(command, tmp_path):
    assert command("status")[::2] == (
        2,
        "error: there is no campaign results: neither the file nor results.shards\n",
    )
    (tmp_path / "results").mkdir()
    assert "results holds no campaign that is being computed" in command("status")[2]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"study": 3}', "\x00"])
def test_a_status_that_is_none(folder, text):
    (folder / "status.json").write_text(text)
    with pytest.raises(UserError, match=r"status\.json: is not the status of a campaign"):
        statuses(folder)


def test_a_campaign_says_what_it_does(tmp_path):
    """While it computes, after Ctrl-C, and nothing once the file is there."""
    out = tmp_path / "r.h5"
    seen = []

    def compute(first, last):
        if first >= 6:
            (status,) = statuses(out)
            seen.append((status.state, status.instances, status.runs[0].processes))
            if first >= 12 and len(seen) < 4:
                raise KeyboardInterrupt
        return fake_campaign.compute(first, last)

    with pytest.raises(KeyboardInterrupt):
        run_campaign(Study(CAMPAIGN, compute), out, 3)
    assert set(seen) == {("computing", 20, 1)}
    (status,) = statuses(out)
    assert status.state == "interrupted"
    # A shard may have been written that the run did not come to count.
    assert 0 < status.runs[0].workers["this process"].instances <= status.done
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["r.h5"]
    assert statuses(out)[0].state == "finished"


def test_a_campaign_that_fails_says_why(tmp_path):
    def compute(first, last):
        if first >= 6:
            raise ValueError("no such slice")
        return fake_campaign.compute(first, last)

    with pytest.raises(ValueError, match="no such slice"):
        run_campaign(Study(CAMPAIGN, compute), tmp_path / "r.h5", 3)
    (status,) = statuses(tmp_path)
    assert status.state == "failed"
    assert status.runs[0].messages[-1] == "ValueError: no such slice"


def test_a_part_waits_for_the_others(tmp_path):
    out = tmp_path / "r.h5"
    run_part(Study(CAMPAIGN, fake_campaign.compute), out, Part(2, 4), 5)
    (status,) = statuses(tmp_path)
    assert (status.state, status.done, status.instances) == ("computed", 5, 20)
    assert (status.runs[0].first, status.runs[0].last) == (5, 10)


def test_instances_that_a_file_holds_count_while_more_are_added(tmp_path):
    out = tmp_path / "r.h5"
    run_campaign(Study(replace(CAMPAIGN, instances=8), fake_campaign.compute), out, 4)
    run_part(Study(CAMPAIGN, fake_campaign.compute), out, Part(3, 4), 5)
    (status,) = statuses(out)
    assert (status.done, status.instances) == (8 + 5, 20)
