"""Does progress tell the truth about rate and time left, in logs as on a terminal?"""

import io

from rich.console import Console

from mcage.campaign.progress import Bar, Lines, duration


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
    assert stream.getvalue() == "910/1000 instances, 0.5 instances/s, 3 min 00 s left\n"


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
