"""gem5's log as it may also look: other flags, other output between the lines, damage."""

import re

import pytest
import zstandard
from import_samples import FOLDER, imported

from mcage.errors import UserError

LONG_NAME = b"warn: slow kernel " + b"x<" * 2500
LINE = re.compile(rb"(?m)^(\d+): (system\S+|global): (.*)$")


@pytest.fixture(scope="module")
def text():
    packed = (FOLDER / "gem5" / "reduction-vrf-only.txt.zst").read_bytes()
    return zstandard.ZstdDecompressor().decompressobj().decompress(packed)


def facts(text, folder, **options):
    (folder / "log.txt").write_bytes(text)
    return imported([folder / "log.txt"], folder, **options).facts()


@pytest.fixture(scope="module")
def windows(text, tmp_path_factory):
    return facts(text, tmp_path_factory.mktemp("gem5"))["windows"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: LINE.sub(rb"\1: GPUVRF: \2: \3", text),
        lambda text: LINE.sub(rb"   \1: \2: \3", text),
        lambda text: b"gem5 Simulator System.\n" + text + b"Exiting @ tick 12\n",
        lambda text: text + b"1048755",
        lambda text: text.replace(b"system.cpu1.CUs0", b"system.Shader.CUs00"),
        lambda text: re.sub(rb"(?m)^(\d+: global: W)", LONG_NAME + rb"\n\1", text),
    ],
)
def test_the_same_windows_are_found(text, windows, tmp_path, change):
    assert facts(change(text), tmp_path)["windows"] == windows


def test_a_read_of_other_contents_than_the_last_write_is_a_gap(text, tmp_path):
    before = facts(text, tmp_path)["gaps"]
    assert before["other_contents"] == 0
    lost = re.sub(rb"48567500: global: Write v\[1\]\n(?:48567500: .*v\[1\].*\n)+", b"", text)
    assert len(lost) < len(text)
    after = facts(lost, tmp_path)["gaps"]
    assert after["other_contents"] == 1
    assert after["share"] == pytest.approx((before["before_any_write"] + 1) / before["reads"])


def test_without_pools_a_window_lasts_from_the_first_to_the_last_access(text, windows, tmp_path):
    without = b"".join(line for line in text.splitlines(True) if b"pool_manager" not in line)
    found = facts(without, tmp_path)
    assert [window["wave_dyn_id"] for window in found["windows"]] == [0, 1]
    assert found["inferred"]["windows"] == "from the first to the last access of a wave"
    first = found["windows"][0]
    assert {key: first[key] for key in ("writes", "reads", "digest")} == {
        key: windows[0][key] for key in ("writes", "reads", "digest")
    }


def test_registers_of_a_wave_begin_at_its_lowest_where_no_pool_says_it(text, windows, tmp_path):
    """With the simple policy, the waves of a work-group lie one behind the other."""
    without = b"".join(line for line in text.splitlines(True) if b"pool_manager" not in line)
    sizes = [window["registers"] for window in windows]

    def moved(match):
        return b"%b%d" % (match[1], int(match[2]) + 1600)

    found = facts(re.sub(rb"(v\[)(\d+)(?=\])", moved, without), tmp_path)
    assert [window["first_register"] for window in found["windows"]] == [1600, 1600 + sizes[0]]
    assert [window["registers"] for window in found["windows"]] == sizes
    keys = ("writes", "reads", "digest")
    assert [[window[key] for key in keys] for window in found["windows"]] == [
        [window[key] for key in keys] for window in windows
    ]


def test_without_ticks_only_the_order_is_known(text, windows, tmp_path):
    found = facts(LINE.sub(rb"\2: \3", text), tmp_path)
    assert found["approximate"] == {"time": "only the order is known"}
    assert [window["digest"] for window in found["windows"]] == [w["digest"] for w in windows]


def test_lines_that_say_nothing_whole_are_counted(text, tmp_path):
    damaged = text.replace(b"v[1][5] = 0x100", b"v[1][5] = 0x1zz", 1)
    assert facts(damaged, tmp_path)["skipped"] == {
        "accesses whose lanes are of another register, or damaged": {
            "records": 1,
            "first": "log.txt: line 9",
        }
    }


def test_a_part_in_time_needs_the_length_of_a_cycle(text, tmp_path):
    from mcage.traces.importing.limits import Limits

    with pytest.raises(UserError, match="--cycles needs --ticks-per-cycle"):
        facts(text, tmp_path, limits=Limits(latest=5))
    part = facts(text, tmp_path, limits=Limits(latest=400), period=1000)
    assert part["traces"][0]["cycles"] == 401
    assert 0 < part["windows"][0]["writes"] < 20
