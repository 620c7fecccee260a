"""Does progress tell the truth about rate and time left, in logs as on a terminal?"""

import io
import json
import os
import sys
import time
from dataclasses import replace
from itertools import pairwise
from types import ModuleType

import fake_campaign
import pytest
from campaign_cases import CAMPAIGN, STUDY, Listener
from rich.console import Console
from tables import each

from mcage.campaign.progress import (
    Lines,
    Pace,
    Progress,
    ProgressBar,
    duration,
    progress_in_notebooks,
    progress_on_stderr,
)
from mcage.campaign.run import Part, run_campaign
from mcage.campaign.shards import shard_folder
from mcage.campaign.status import RunRecord, StatusWriter, began_at, statuses
from mcage.campaign.study import Study
from mcage.errors import UserError


class Clock:
    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


def test_lines_come_every_ten_seconds_and_at_the_end():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, clock)
    lines.start(total=100, done=40)
    for _ in range(12):
        clock.now += 3.0
        lines.advance(5)
    assert stream.getvalue().splitlines() == [
        "60/100 instances, 1.67 instances/s, 24 s left",
        "80/100 instances, 1.67 instances/s, 12 s left",
        "100/100 instances, 1.67 instances/s, 0 s left",
    ]


def test_instances_of_an_earlier_run_do_not_count_into_the_rate():
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, clock)
    lines.start(total=1000, done=900)
    clock.now += 20.0
    lines.advance(10)
    assert stream.getvalue() == (
        "910/1000 instances, 0.5 instances/s since the start, at most 3 min 00 s left\n"
    )


def pace_of(reports):
    """Pace after reports of (seconds since the begin, instances)."""
    clock = Clock(0.0)
    pace = Pace(10_000, 0, clock)
    for seconds, instances in reports:
        clock.now = seconds
        pace.advance(instances)
    return pace


def test_the_rate_forgets_compiling():
    pace = pace_of([(60.0, 10)])
    assert pace.per_second == pytest.approx(10 / 60)
    pace = pace_of([(60.0, 10), (62.0, 10), (64.0, 10), (66.0, 10)])
    assert pace.per_second == pytest.approx(5.0)
    assert pace.seconds_left == pytest.approx(9960 / 5.0)


def test_shards_that_end_together_make_no_burst_of_rate():
    """Four workers, each with shards of four seconds: four shards in four seconds."""
    starts = (20.0, 20.1, 20.2, 20.3)
    reports = sorted((start + 4.0 * turn, 8) for start in starts for turn in range(6))
    assert pace_of(reports[:4]).per_second == pytest.approx(32 / 20.3)
    for several in range(12, len(reports) + 1, 4):
        assert pace_of(reports[:several]).per_second == pytest.approx(8.0)


def test_long_shards_in_pairs_make_no_jumps_of_the_time_left():
    """Reports of a real sweep of 36 cases: two shards of 160 s each at a time, after compiling."""
    seconds = (278, 292, 460, 468, 625, 628, 790, 799, 950, 963, 1120, 1125)
    reports = [(float(at), 96) for at in seconds]
    paces = [pace_of(reports[: number + 1]) for number in range(len(reports))]
    ends = [at + pace.seconds_left for at, pace in zip(seconds, paces, strict=True)]
    for number in range(5, len(ends)):
        assert paces[number].per_second == pytest.approx(192 / 168, rel=0.15)
    for earlier, later in pairwise(ends[1:]):  # the first is "at most", with compiling
        assert 0.6 < later / earlier < 1.25
    assert "at most" in paces[1].in_words()
    assert "at most" not in paces[5].in_words()


def test_the_rate_is_that_of_the_last_minute():
    quick = [(10.0 + second, 100) for second in range(60)]
    slow = [(70.0 + second, 1) for second in range(0, 120, 2)]
    assert pace_of(quick + slow).per_second == pytest.approx(0.5, rel=0.05)


def test_no_rate_without_instances_or_time():
    assert pace_of([]).in_words() is None
    assert pace_of([(0.0, 4)]).in_words() is None


@pytest.mark.parametrize(
    ("kind", "terminal", "type_"),
    [
        (None, False, Lines),
        (None, True, ProgressBar),
        ("plain", True, Lines),
        ("rich", False, ProgressBar),
        ("none", True, Progress),
    ],
)
def test_kinds(kind, terminal, type_, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    assert type(progress_on_stderr(kind)) is type_


@each("line", [["sweep"], ["gpu", "gating", "--out", "r.h5"], ["rare"]])
def test_no_such_kind(refusal, tmp_path, line):
    said = refusal(*line, "--progress", "loud")
    assert said == "error: --progress 'loud': must be one of rich, plain, none\n"
    assert not list(tmp_path.iterdir())


def test_lines_in_notebooks_only(monkeypatch, capsys):
    assert type(progress_in_notebooks()) is Progress
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setattr("builtins.get_ipython", lambda: shell, raising=False)
    progress = progress_in_notebooks()
    progress.say("engine <numba>")
    progress.start(total=5, done=0)
    progress.advance(5)
    out, err = capsys.readouterr()
    assert out.startswith("engine <numba>\n5/5 instances")
    assert err == ""


def test_durations():
    assert [duration(s) for s in (0.2, 59.6, 3599, 3660, 90_000)] == [
        "0 s",
        "1 min 00 s",
        "59 min 59 s",
        "1 h 01 min",
        "25 h 00 min",
    ]


def test_the_bar_shows_counts_and_lets_messages_through():
    stream = io.StringIO()
    bar = ProgressBar(Console(file=stream, force_terminal=True, width=100))
    bar.start(total=20, done=6)
    bar.say("warning: [file] is damaged")
    bar.advance(14)
    bar.finish()
    assert "20/20" in stream.getvalue()
    assert "warning: [file] is damaged" in stream.getvalue()
    assert "0 s left" in stream.getvalue()


# What another terminal is told about a campaign.


def record(first=0, last=20, **more):
    return RunRecord(study="sweep", of_campaign=20, first=first, last=last, **more)


@pytest.fixture
def folder(tmp_path):
    folder = shard_folder(tmp_path / "r.h5")
    folder.mkdir()
    return folder


def writer(folder):
    clock, listener = Clock(50.0), Listener()
    return StatusWriter(folder, record(), listener, clock, clock), listener, clock


def test_the_file_says_what_progress_shows(folder):
    status, listener, clock = writer(folder)
    status.start(20, 4)
    for _ in range(4):
        clock.now += 10.0
        status.advance(2)
    status.died(2)
    status.say("r\udcff.h5: worker 3 has died")
    status.finish()
    status.enter("computed")
    assert (listener.begin, listener.advanced) == ((20, 4), 8)
    assert listener.said == ["r\udcff.h5: worker 3 has died"]
    read = RunRecord.read(folder / "status.json")
    assert (read.done, read.deaths, read.messages) == (12, 2, [r"r\udcff.h5: worker 3 has died"])
    assert read.instances_per_second == pytest.approx(0.2)
    assert read.seconds_left == pytest.approx(40.0)
    assert read.updated == 90.0


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


def place(folder, run):
    """Write the status file of a run."""
    (folder / run.name).write_text(run.model_dump_json())


def test_a_run_of_this_machine_is_killed_when_its_process_is_gone(folder):
    run = record()
    assert run.state_now == "computing"
    run.process_began -= 1  # another process has been given its number
    assert run.state_now == "killed"
    run.process, run.process_began = 2**22 + 1, 5
    assert run.state_now == "killed"
    run.state = "interrupted"
    assert run.state_now == "interrupted"
    assert began_at(os.getpid()) == record().process_began


def test_a_run_elsewhere_is_silent_after_ten_minutes():
    run = record(host="elsewhere", updated=time.time() - 30)
    assert run.state_now == "computing"
    run.updated -= 700
    assert run.state_now == "silent"
    run.updated = time.time() + 3600  # its clock, or ours, is wrong
    assert run.state_now == "computing"


def test_parts_add_up(folder):
    place(folder, record(0, 10, instances_per_second=2.0, seconds_left=3.0, done=4))
    place(folder, record(10, 20, instances_per_second=1.0, seconds_left=8.0, done=2))
    for name in ("a-000000000-000000003.h5", "a-000000010-000000011.h5"):
        (folder / name).touch()
    (status,) = statuses(folder)
    assert (status.done, status.instances, status.state) == (6, 20, "computing")
    assert (status.instances_per_second, status.seconds_left) == (3.0, 8.0)
    place(folder, record(0, 10, state="computed"))
    assert statuses(folder)[0].state == "computing"
    place(folder, record(10, 20, state="computed"))
    assert statuses(folder)[0].state == "stopped"  # shards are missing, and no run computes them
    (folder / "a-000000000-000000019.h5").touch()
    assert statuses(folder)[0].state == "computed"


def test_shards_that_overlap_count_once(folder):
    place(folder, record())
    for name in ("000000000-000000007", "000000004-000000009", "000000005-000000006"):
        (folder / f"a-{name}.h5").touch()
    assert statuses(folder)[0].done == 10


def test_any_whole_shard_tells_the_campaign_where_no_run_does(folder):
    fake_campaign.write_shards(folder, CAMPAIGN, range(3), range(3, 6))
    for path in sorted(folder.iterdir(), reverse=True)[:1]:
        path.write_bytes(b"damaged")
    (status,) = statuses(folder)
    assert (status.study, status.instances, status.state) == ("sweep", 20, "stopped")
    for path in folder.iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(UserError, match="a folder without a finished shard"):
        statuses(folder)


@pytest.mark.parametrize("where", ["r.h5", "r.h5.shards", "."])
def test_places(folder, tmp_path, command, where):
    place(folder, record(done=5, messages=["\x1b[2Jwiped"]))
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
    assert 0 < status.runs[0].done <= status.done
    run_campaign(STUDY, out, 3)
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


def test_instances_that_a_file_holds_count_while_more_are_added(tmp_path):
    out = tmp_path / "r.h5"
    run_campaign(Study(replace(CAMPAIGN, instances=8), fake_campaign.compute), out, 4)
    run_campaign(STUDY, out, 5, part=Part(3, 4))
    (status,) = statuses(out)
    assert (status.done, status.instances) == (8 + 5, 20)
