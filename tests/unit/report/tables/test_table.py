"""Does a table keep what it is made of, whatever the width, the order and the form?"""

import csv
import io
import math
import re

import pytest

from mcage.errors import UserError
from mcage.report.console import WIDTH_WITHOUT_TERMINAL, PlainConsole
from mcage.report.tables.table import (
    ResultTable,
    ages,
    csv_of,
    estimates,
    names,
    numbers,
    remarks,
    sorted_by,
)
from mcage.report.tables.terminal import print_table
from mcage.stats.estimates import Estimate
from mcage.stats.wording import plus_minus

NAN, INF = math.nan, math.inf
LIVES = [Estimate(1234.5, 1200.25, 1250.75), Estimate(INF, 9.5, INF), Estimate(NAN, NAN, NAN)]
SHIFTS = [Estimate(0.01234567, 0.01234, 0.01235), None, Estimate(-5.0, -6.0, -4.0)]


def table(**fields):
    columns = (
        names("technique", "technique", ["a+very+long+name", "b", "c"]),
        names(
            "environment",
            "environment",
            ["dvfs 0.8/0.4 V", "nominal 1 V", "nominal 1 V"],
            groups=True,
        ),
        numbers("worked", "", [3, 2, 1]),
        ages("life_years", "life\n[years]", LIVES, [2000.0, 10.0, 10.0], primary=True),
        estimates("shift_mv", "shift\n[mV]", SHIFTS, plus_minus, primary=True),
        estimates("rate", "rate of\nspills", SHIFTS, plus_minus),
        remarks("lives end by", ["no home 99.9 %", "", "delay 1 %"]),
    )
    return ResultTable("3 cases", "what they mean", columns, **fields)


def printed(shown, width, **options):
    stream = io.StringIO()
    print_table(shown, PlainConsole(file=stream, width=width), **options)
    return stream.getvalue()


NUMBERS = re.compile(r"[-\d.]*\d")


def test_no_width_cuts_a_number_or_hides_a_column_in_silence():
    whole = printed(table(), 200)
    known = set(NUMBERS.findall(whole))
    for width in range(10, 140):
        text = printed(table(), width)
        assert "…" not in text
        cut = set(NUMBERS.findall(text)) - known
        assert not cut, (width, cut)
        assert ("[1200.25," in text) == ("1234.50 [1200.25, 1250.75]" in text), width
        for column in (of for of in table().shown if not of.groups):
            assert set(column.heading.split()) <= set(re.split(r"[\s,.:]+", text)), (width, column)
        if width >= 50:  # below, each line is a list, which the terminal wraps
            assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert printed(table(), 30, wide=True) == whole


def test_narrow_tables_say_environments_once_and_wide_ones_in_a_column():
    narrow, wide = printed(table(), 70), printed(table(), 200)
    assert narrow.count("nominal 1 V") == 1
    assert wide.count("nominal 1 V") == 2
    assert (
        "Too wide for this terminal: rate of spills, lives end by. mcage show --wide"
        in " ".join(narrow.split())
    )
    assert "Too wide" not in wide


def test_pipes_have_room_for_any_name():
    files = names("file", "file", ["x" * 2000, "y", "z"])
    text = printed(ResultTable("", "", (files, *table().columns)), WIDTH_WITHOUT_TERMINAL)
    assert f"{'x' * 2000}  a+very+long+name" in text
    assert "Too wide" not in text


def test_what_is_below_is_printed_below():
    other = ResultTable("other title", "other words", (names("x", "x", ["y"]),))
    lines = [line.strip() for line in printed(table(below=(other,)), 200).splitlines()]
    assert lines.index("what they mean") < lines.index("other title") < lines.index("y")


def test_csv_is_for_machines():
    lines = list(csv.DictReader(io.StringIO(csv_of(table()))))
    assert [line["technique"] for line in lines] == ["a+very+long+name", "b", "c"]
    first, second, third = lines
    assert (first["life_years"], first["life_years_lower"]) == ("1234.5", "1200.25")
    assert float(second["life_years"]) == INF
    assert float(second["life_years_lower"]) == 9.5
    assert third["life_years"] == third["life_years_upper"] == ""
    assert float(first["shift_mv"]) == 0.01234567, "not rounded as for people"
    assert second["shift_mv"] == second["shift_mv_lower"] == ""
    assert first["worked"] == "3"
    assert "worked_lower" not in first
    assert not [key for key in first if "end" in key and "vironment" not in key]


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "＝"])
def test_no_name_in_csv_is_a_formula_of_a_spreadsheet(begin):
    cells = [f"{begin}cmd|' /C calc'!A0", "-0.5", "+1e-3", "-inf", "rc+rar", "a=b"]
    (_, first, *others) = csv.reader(
        io.StringIO(csv_of(ResultTable("", "", (names("x", "x", cells),))))
    )
    assert first[0][0] in "'\\"
    assert first[0].endswith("cmd|' /C calc'!A0")
    assert [line[0] for line in others] == cells[1:]


def test_lines_are_sorted_with_the_unknown_last():
    def order(key):
        return [cell.text for cell in sorted_by(table(), key).columns[0].cells]

    assert order("life_years") == ["a+very+long+name", "b", "c"]
    assert order("-life") == ["b", "a+very+long+name", "c"]
    assert order("shift_mv") == ["c", "a+very+long+name", "b"]
    assert order("-technique") == ["c", "b", "a+very+long+name"]
    for key, words in (("x", "no such columns; they are technique"), ("", "several such columns")):
        with pytest.raises(UserError, match=words):
            sorted_by(table(), key)


def test_a_column_is_found_by_any_name_of_its_quantity():
    rmst = estimates("life_to_horizon_years", "RMST\n[years]", SHIFTS, plus_minus)
    shown = ResultTable("", "", (names("case", "case", ["a", "b", "c"]), rmst))
    for key in ("rmst", "mean_life", "life_to_horizon"):
        assert [cell.text for cell in sorted_by(shown, key).columns[0].cells] == ["c", "a", "b"]


def test_tables_that_contradict_themselves_are_refused():
    column = names("x", "x", ["y"])
    with pytest.raises(ValueError, match="keys of their own"):
        ResultTable("", "", (column, column))
    with pytest.raises(ValueError, match="equally many"):
        ResultTable("", "", (column, names("z", "z", [])))
