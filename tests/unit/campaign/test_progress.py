"""Does progress tell the truth about rate and time left, in logs as on a terminal?"""

import io
import json
import sys
from itertools import pairwise
from types import ModuleType

import pytest
from rich.console import Console

from mcage.campaign.progress import Silent
from mcage.campaign.progress.bar import Bar
from mcage.campaign.progress.choice import progress_in_notebooks, progress_on_stderr
from mcage.campaign.progress.lines import JsonLines, Lines
from mcage.campaign.progress.notebook import NotebookBar
from mcage.campaign.progress.pace import Pace, duration


class Clock:
    def __init__(self):
        self.now = 1000.0

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


def pace_of(reports, begin=0.0):
    """Pace after reports of (seconds since the begin, instances)."""
    clock = Clock()
    clock.now = begin
    pace = Pace(10_000, 0, clock)
    for seconds, instances in reports:
        clock.now = begin + seconds
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


def test_json_lines():
    stream, clock = io.StringIO(), Clock()
    lines = JsonLines(stream, clock)
    lines.start(total=100, done=40)
    lines.say("a\nb")
    for _ in range(6):
        clock.now += 0.5
        lines.advance(10)
    lines.finish()
    start, message, *progress, finish = map(json.loads, stream.getvalue().splitlines())
    assert start == {
        "event": "start",
        "instances": 100,
        "done": 40,
        "instances_per_second": None,
        "seconds_left": None,
    }
    assert message == {"event": "message", "text": "a\nb"}
    assert [record["done"] for record in progress] == [60, 80, 100]
    assert finish == {
        "event": "finish",
        "instances": 100,
        "done": 100,
        "instances_per_second": 20.0,
        "seconds_left": 0.0,
    }


@pytest.mark.parametrize(
    ("kind", "terminal", "type_"),
    [
        (None, False, Lines),
        (None, True, Bar),
        ("plain", True, Lines),
        ("rich", False, Bar),
        ("json", True, JsonLines),
        ("none", True, Silent),
    ],
)
def test_kinds(kind, terminal, type_, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    assert type(progress_on_stderr(kind)) is type_


@pytest.mark.parametrize("line", [["sweep"], ["gpu", "gating", "--out", "r.h5"], ["rare"]])
def test_no_such_kind(command, tmp_path, line):
    code, _, err = command(*line, "--progress", "loud")
    assert code == 2
    assert err == "error: --progress 'loud': must be one of rich, plain, json, none\n"
    assert not list(tmp_path.iterdir())


def test_a_bar_in_notebooks_only(monkeypatch):
    assert type(progress_in_notebooks()) is Silent
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setattr("builtins.get_ipython", lambda: shell, raising=False)
    assert type(progress_in_notebooks()) is NotebookBar


def test_the_bar_of_a_notebook_is_one_output_that_is_replaced(capsys):
    shown, clock = [], Clock()

    class Output:
        def update(self, content, raw):
            assert raw
            shown.append(content)

    def show(content):
        shown.append(content)
        return Output()

    bar = NotebookBar(show, clock)
    bar.say("engine <numba>")
    bar.start(total=2000, done=500)
    for _ in range(3):
        clock.now += 10.0
        bar.advance(500)
    bar.finish()
    assert capsys.readouterr().out == "engine <numba>\n"
    assert [content["text/plain"] for content in shown] == [
        "500/2,000 instances, preparing the first ones",
        "1,000/2,000 instances, 50 instances/s since the start, at most 20 s left",
        "1,500/2,000 instances, 50 instances/s, 10 s left",
        "2,000/2,000 instances, 50 instances/s, 0 s left",
        "2,000/2,000 instances, 30 s",
    ]
    assert '<progress value="2000" max="2000"' in shown[-1]["text/html"]


def test_a_bar_that_was_never_shown_ends_in_silence():
    bar = NotebookBar(lambda content: pytest.fail(f"shows {content}"))
    bar.finish()


def test_durations():
    assert [duration(s) for s in (0.2, 59.6, 3599, 3660, 90_000)] == [
        "0 s",
        "1 min 00 s",
        "59 min 59 s",
        "1 h 01 min",
        "25 h 00 min",
    ]


def test_the_bar_says_that_it_prepares_before_there_is_a_rate():
    stream = io.StringIO()
    bar = Bar(Console(file=stream, force_terminal=True, width=100))
    bar.start(total=20, done=6)
    bar.finish()
    assert "preparing the first ones" in stream.getvalue()
    assert "0:00:00" in stream.getvalue()


def test_the_bar_shows_counts_and_lets_messages_through():
    stream = io.StringIO()
    bar = Bar(Console(file=stream, force_terminal=True, width=100))
    bar.start(total=20, done=6)
    bar.say("warning: [file] is damaged")
    bar.advance(14)
    bar.finish()
    assert "20/20" in stream.getvalue()
    assert "warning: [file] is damaged" in stream.getvalue()
    assert "0 s left" in stream.getvalue()
