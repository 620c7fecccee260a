"""Text of other tools: plain or compressed, cut, damaged, with any line breaks."""

import gzip
import sys

import pytest
import zstandard

from mcage.errors import UserError
from mcage.traces.importing.sources import BLOCK_BYTES, LONGEST_LINE, Source

LINES = [b"line %d %s" % (number, b"x" * (number % 97)) for number in range(30_000)]
TEXT = b"\n".join(LINES) + b"\n"


def source(tmp_path, content, name="log.txt"):
    (tmp_path / name).write_bytes(content)
    return Source(tmp_path / name)


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstandard.compress])
def test_lines_come_with_their_numbers(tmp_path, packed):
    assert len(TEXT) > 1.5 * BLOCK_BYTES
    assert list(source(tmp_path, packed(TEXT)).lines()) == list(enumerate(LINES, 1))


def test_parts_of_a_compressed_file_are_read_on(tmp_path):
    parts = zstandard.compress(TEXT[:50_000]) + zstandard.compress(TEXT[50_000:])
    assert list(source(tmp_path, parts).lines()) == list(enumerate(LINES, 1))


def test_line_breaks_of_windows_and_marks_of_unicode_are_no_content(tmp_path):
    text = source(tmp_path, b"\xef\xbb\xbfone\r\ntwo\r\n\r\nfour\r\n")
    assert list(text.lines()) == [(1, b"one"), (2, b"two"), (3, b""), (4, b"four")]


def test_a_last_line_without_a_line_break_was_cut_unless_users_wrote_it(tmp_path):
    cut = source(tmp_path, b"one\ntwo")
    assert list(cut.lines()) == [(1, b"one")]
    assert cut.cut_line == 2
    assert list(cut.lines(unfinished=True)) == [(1, b"one"), (2, b"two")]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_compressed_file_that_is_cut_is_refused_with_its_line(tmp_path, pack):
    packed = pack(TEXT)
    text = source(tmp_path, packed[: -len(packed) // 20])
    with pytest.raises(UserError, match=r"log.txt: after line \d+: .* is not complete"):
        list(text.lines())


@pytest.mark.parametrize(
    "pack", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress]
)
def test_a_compressed_file_that_is_damaged_is_refused(tmp_path, pack):
    packed = bytearray(pack(TEXT))
    packed[len(packed) // 2] ^= 0x55
    with pytest.raises(UserError, match=r"log.txt: .*damaged"):
        list(source(tmp_path, packed).lines())


def test_without_zstandard_its_files_are_refused_and_all_others_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(
        UserError, match=r"log\.txt: Zstandard is not .*: pip install '\.\[import\]'"
    ):
        list(source(tmp_path, zstandard.compress(TEXT)).lines())
    assert list(source(tmp_path, gzip.compress(b"one\n")).lines()) == [(1, b"one")]


def test_a_line_without_end_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"log\.txt: line 2: has more than 4 MiB"):
        list(source(tmp_path, b"one\n" + b"x" * (LONGEST_LINE + BLOCK_BYTES)).lines())


def test_a_small_file_that_holds_far_too_much_text_is_refused(tmp_path):
    text = b"read\n" * (16 << 20)
    packed = source(tmp_path, zstandard.compress(text))
    with pytest.raises(UserError, match=r"bytes hold more than \d+ MiB .* decompress it"):
        for _ in packed.blocks():
            pass
    plain = source(tmp_path, text)
    assert sum(len(block) for _, block in plain.blocks()) == len(text)


def test_the_stem_is_without_what_was_appended(tmp_path):
    assert source(tmp_path, b"", "isa_GPU[1].CU0.debug.zst").stem == "isa_GPU[1].CU0"


def test_progress_is_told_in_bytes_on_disk(tmp_path):
    packed = gzip.compress(TEXT)
    (tmp_path / "log.gz").write_bytes(packed)
    told = []
    list(Source(tmp_path / "log.gz", lambda _, done: told.append(done)).lines())
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] == len(packed)
