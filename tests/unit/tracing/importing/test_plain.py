"""Traces that users write down themselves, as CSV."""

import gzip

import pytest
import zstandard
from import_samples import assert_same_events, imported
from plain_files import plain_table
from tables import each

from mcage.errors import UserError
from mcage.traces import bundled_trace, first_generations, load_trace

HEAD = "# lanes: 32\ncycle,event,window,register,lanes,values,size\n"


@pytest.fixture(scope="module")
def recorded():
    return first_generations(bundled_trace("ScanLargeArrays"), 1)


def table(tmp_path, rows, head=HEAD):
    path = tmp_path / "run.csv"
    path.write_text(head + rows)
    return imported([path], tmp_path)


def only_trace(result, folder):
    ((name, made),) = result.slices
    loaded = load_trace(folder / name)
    assert loaded.digest() == made.trace.digest()
    return loaded


@pytest.mark.parametrize(
    ("packed", "end"), [(bytes, "\r\n"), (gzip.compress, "\n"), (zstandard.compress, "\n")]
)
def test_a_table_gives_the_trace_that_it_says(recorded, tmp_path, packed, end):
    path = tmp_path / "run.csv"
    path.write_bytes(packed(plain_table(recorded).replace("\n", end).encode()))
    result = imported([path], tmp_path)
    trace = only_trace(result, tmp_path)
    assert_same_events(trace, recorded)
    assert trace.kernels == recorded.kernels
    assert result.slices[0][0] == "run.cu3.simd1.h5"
    assert result.recording.tools == {"recorder": "1.0"}
    assert trace.source["tools"] == {"recorder": "1.0"}
    assert trace.source["approximate"] == {}


def test_a_last_line_without_a_line_break_counts(tmp_path):
    assert only_trace(table(tmp_path, "3,write,a,0,,7,"), tmp_path).writes == 1


def test_windows_without_allocations_last_from_first_to_last_access(tmp_path):
    result = table(tmp_path, "5,write,a,9,,7,\n8,read,a,9,,,\n9,write,b,0,1,ff,\n")
    trace = only_trace(result, tmp_path)
    assert result.recording.inferred["windows"] == "from the first to the last access"
    assert trace.windows == 2
    assert trace.cycle.tolist() == [0, 0, 3, 3, 4, 4, 4]
    assert trace.window_sizes == (1, 10)
    assert trace.geometry.components == 32


def test_windows_without_a_unit_go_to_units_that_the_file_does_not_name(tmp_path):
    head = HEAD.replace("size", "size,unit")
    rows = "0,write,a,0,,1,,\n0,alloc,b,,,,4,0\n1,write,b,0,,1,,\n2,write,c,0,,1,,\n"
    result = table(tmp_path, rows, head)
    assert [(name, made.trace.windows) for name, made in result.slices] == [
        ("run.sm0.part0.h5", 1),
        ("run.sm1.part0.h5", 2),
    ]


def test_strange_lines_are_read_as_all_others(recorded, tmp_path):
    """Spaces, quotes, comments and empty lines take another way through the importer."""
    head, _, rows = plain_table(recorded).partition("\n0,")
    lines = ("0," + rows).splitlines()
    for place in range(0, len(lines), 3):
        cycle, event, rest = lines[place].split(",", 2)
        lines[place] = f"{cycle} , {event},{rest}" if place % 2 else f'{cycle},"{event}",{rest}'
    lines.insert(2, "\n# a note: 1,write,w0,")
    result = table(tmp_path, "\n".join(lines), head + "\n")
    assert_same_events(only_trace(result, tmp_path), recorded)


def test_digits_belong_to_the_value_that_they_stand_with(tmp_path):
    values = ["00000001"] * 30
    rows = f"0,write,a,0,,{' '.join(['0000005', '000000006', *values])},\n"
    assert only_trace(table(tmp_path, rows), tmp_path).values[0, :3].tolist() == [5, 6, 1]


def test_values_are_one_for_all_lanes_or_one_for_each(tmp_path):
    result = table(tmp_path, "0,write,a,0,,deadbeef,\n1,write,a,0,5,1 2,\n")
    trace = only_trace(result, tmp_path)
    assert trace.values[trace.value[1]].tolist() == [0xDEADBEEF] * 32
    assert trace.values[trace.value[2]].tolist() == [1, 0xDEADBEEF, 2, *[0xDEADBEEF] * 29]


@each(
    ("rows", "words"),
    [
        ("0,write,a,0,,1 2,", "line 3: has 2 values for 32 lanes"),
        ("0,write,a,0,100000000,1,", "line 3: lanes: '100000000' is no hexadecimal"),
        ("0,write,a,0,0,1,", "line 3: a write without lanes"),
        ("0,write,a,0,1,1000000000000001,", "line 3: values: '1000000000000001'"),
        ("0,write,a,512,,1,", "line 3: register 512 is outside"),
        ("-1,write,a,0,,1,", "line 3: cycle is '-1'"),
        ("0,write,a,0,,1", "line 3: has 6 columns"),
        ('0,write,"a,0,,1,', "line 3: "),
        ("0,jump,a,0,,1,", "line 3: event 'jump'"),
        ("0,release,a,,,,", "line 3: window a is released, but not open"),
        ("0,alloc,a,,,,4\n1,release,a,,,,\n2,write,a,0,,1,", "line 5: window a has been released"),
        ("0,alloc,a,,,,4\n0,alloc,a,,,,4", "line 4: window a is allocated, but still open"),
        ("0,alloc,a,,,,513", "line 3: window a has 513 registers"),
        ("0,alloc,a,,,,4\n1,write,a,4,,1,", "line 4: register 4 is outside"),
        ("5,write,a,0,,1,\n4,write,a,0,,1,", "line 4: cycle 4 is before"),
        ("0,alloc,a,,,,4\n1,read,a,0,,,", "no register write"),
        ("0,write,a,0,,1,\n1,read,a,0,,1,", "line 4: values is '1'; the event read has none"),
        ("0,write,a,0,,1,\0", "line 3: holds a zero byte"),
        ("0,alloc,a,,,,4\n1,release,a,7,,,", "line 4: register is '7'; the event release has none"),
        ("0,write,a,0,,0x1,", "line 3: values: '0x1' .* without 0x"),
        ("0,write,a,0,,1_0,", "line 3: values: '1_0' is no hexadecimal"),
        ("0,write,,0,,1,", "line 3: window has no name"),
        ("0,alloc,,,,,4", "line 3: window has no name"),
    ],
)
def test_a_mistake_is_refused_with_its_line(tmp_path, rows, words):
    with pytest.raises(UserError, match=words):
        table(tmp_path, rows)
    assert [path.name for path in tmp_path.iterdir()] == ["run.csv"]


@each(
    ("head", "words"),
    [
        ("cycle,event,window\n", "line 1: no line '# lanes: 32'"),
        ("# lanes: 16\n", "line 1: 16 lanes"),
        ("# lanes: 32\ncycle,event,window,cycle\n", "line 2: column 'cycle'"),
        ("# lanes: 32\ncycle,event,window,colour\n", "line 2: column 'colour' is unknown"),
        ("# lanes: 32\ncycle,event\n", "line 2: has no column 'window'"),
        ("# lanes: 32\n", "has no line with the names of the columns"),
    ],
)
def test_a_head_that_is_no_head_is_refused(tmp_path, head, words):
    (tmp_path / "run.csv").write_text(head)
    with pytest.raises(UserError, match=words):
        imported([tmp_path / "run.csv"], tmp_path, "csv")
