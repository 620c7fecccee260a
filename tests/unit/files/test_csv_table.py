"""CSV tables of users: what is read, and that nothing is guessed."""

import math

import pytest
from tables import each

from mcage.errors import UserError
from mcage.files.csv_table import decimal_number, read_table


@pytest.fixture
def rows(tmp_path):
    """Reads all rows of the file table.csv of so many bytes."""

    def read(content, **bounds):
        path = tmp_path / "table.csv"
        path.write_bytes(content)
        return list(read_table(path, **bounds))

    return read


def test_a_table_as_programs_and_spreadsheets_write_it(rows):
    text = '# by hand\n\na , b\r\n1, "x, y"\n  \n# c\n+2.50e-1,"say ""so"""\r'
    first, second = rows(b"\xef\xbb\xbf" + text.encode())
    assert first.values == {"a": "1", "b": "x, y"}
    assert second.values == {"a": "+2.50e-1", "b": 'say "so"'}
    assert second.source.endswith("table.csv: line 7")
    assert second.number("a", 0, 1) == 0.25
    assert second.plain() == {"a": 0.25, "b": 'say "so"'}


def test_whole_numbers_keep_all_their_digits(rows):
    (row,) = rows(b"a,b\n12345678901234567,-7\n")
    assert row.plain() == {"a": 12345678901234567, "b": -7}


@each(
    ("content", "message"),
    [
        (b"", "there is no row in it"),
        (b"a,b\n", "there is no row in it"),
        (b"a,a\n1,2\n", "line 1: the column 'a' stands there twice"),
        (b"a\n1\n\n1,2\n", "line 4: 2 values, but 1 columns"),
        (b"a,b\n1\n", "line 2: 1 values, but 2 columns"),
        (b'a\n"1\n2"\n', r"line 2: no CSV \(unexpected end of data\)"),
        (b'a\n"1"2\n', "line 2: no CSV"),
        (b"a\n" + b"1" * 131_073, "line 2: no CSV .field larger than field limit"),
        (b"a\n\xff\n", "the file is no UTF-8 text"),
        (b"a\n1\n2\n3\n", "line 4: more than 2 rows"),
        (b"a\n" + b" " * 1100, "cannot read the table .it has 0.0 MiB; at most"),
    ],
)
def test_tables_that_cannot_be_meant(rows, content, message):
    bounds = {"most_bytes": 1000} if b"  " in content else {"most_rows": 2}
    with pytest.raises(UserError, match=rf"table\.csv: {message}"):
        rows(content, **bounds)


@each(
    ("text", "value"),
    [("0", 0), ("-0.000e5", 0), (".5", 0.5), ("5.", 5), ("+1E+2", 100), ("2.3e-308", 2.3e-308)],
)
def test_numbers_in_decimal_digits(text, value):
    assert decimal_number(text) == value


@each(
    "text",
    ["", "inf", "nan", "1_0", "1 0", "0x1", "1e-320", "1e-400", "1e999", "1,5", "٣", "--1", "e5"],
)
def test_texts_that_are_no_numbers(text):
    assert math.isnan(decimal_number(text))


def test_a_number_of_many_digits_is_refused_at_once():
    assert math.isnan(decimal_number("1" * 100_000 + "x"))
