"""Tables of papers in terminals: which printed value a line is about, and what agrees."""

import io

import pytest
from rich.console import Console

from mcage.studies.reproduction.measured import Measured
from mcage.studies.reproduction.published import NUMBERS, published_figures
from mcage.studies.reproduction.table import Row, as_json, cells, print_rows, ways_of


def rows_of(paper):
    """Rows of a paper whose printed values are measured to the last digit."""
    return [
        Row(figure, dict.fromkeys(ways_of(paper), Measured(figure.high)), "", "")
        for figure in published_figures(paper)
        if figure.high == figure.high
    ]


def printed(rows, width):
    text = io.StringIO()
    print_rows(rows, Console(file=text, width=width))
    return text.getvalue()


@pytest.mark.parametrize("width", [80, 120, 159, 300])
@pytest.mark.parametrize("paper", NUMBERS.values(), ids=NUMBERS)
def test_lines_of_any_width_say_what_they_are_about(paper, width):
    rows = rows_of(paper)
    text = printed(rows, width)
    words = set(text.replace(",", " ").replace(":", " ").split())
    for row in rows:
        subjects = [*cells(row)[1:5]]
        assert set(" ".join(subjects).replace(",", " ").split()) <= words
    left_out = text.partition("Too wide for this terminal: ")[2].partition(".")[0]
    names = {"policy", "design", "technique", "kernel", "benchmark", "scenario", "structure"}
    assert not names & {name.strip() for name in left_out.split(",")}
    assert max(map(len, text.splitlines())) <= width


def test_what_agrees_with_about_is_said():
    (row,) = (row for row in rows_of("000") if row.figure.text == "about 0.01")
    assert cells(row)[-2:] == ["0.0032 to 0.032", "yes"]
    (line,) = as_json([row])
    assert (line["name"], line["low"], line["high"]) == ("valero-2019", 0.0032, 0.032)
    (other,) = (row for row in rows_of("000") if row.figure.text == "about 100")
    assert cells(other)[-2] == "±10"
