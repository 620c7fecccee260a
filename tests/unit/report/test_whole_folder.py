"""Is the folder of a report there and whole, or not there, and is nothing else lost for it?"""

import pytest
from tables import each

from mcage.errors import UserError
from mcage.report.whole_folder import CONTENTS, _digest, _new_folder, whole_folder


def write(folder, **files):
    with whole_folder(folder) as place:
        (place / "part").mkdir()
        for name, text in files.items():
            (place / "part" / name).write_text(text)


def files_in(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != CONTENTS
    }


def test_a_report_replaces_a_report_or_nothing(tmp_path):
    (tmp_path / "r").mkdir()
    write(tmp_path / "r", first="1", second="2")
    assert files_in(tmp_path) == {"r/part/first": "1", "r/part/second": "2"}
    write(tmp_path / "r", first="3")
    assert files_in(tmp_path) == {"r/part/first": "3"}
    (tmp_path / "link").symlink_to(tmp_path / "r")
    write(tmp_path / "link", first="4")
    assert (tmp_path / "link").is_symlink()
    assert files_in(tmp_path / "r") == {"part/first": "4"}


@each("name", ["notes.txt", "part/notes.txt", "part/link"])
def test_what_is_not_of_the_report_stays(tmp_path_factory, name):
    tmp_path = tmp_path_factory.mktemp("stays")
    write(tmp_path / "r", first="1")
    other = tmp_path / "r" / name
    other.symlink_to("first") if name.endswith("link") else other.write_text("mine")
    before = files_in(tmp_path)
    with pytest.raises(UserError, match=f"holds {name}, which is not of a report"):
        write(tmp_path / "r", first="2")
    assert files_in(tmp_path) == before


def test_what_appears_meanwhile_stays(tmp_path):
    write(tmp_path / "r", first="1")
    with pytest.raises(UserError, match="which is not of a report"), whole_folder(tmp_path / "r"):
        (tmp_path / "r" / "late").write_text("mine")
    assert files_in(tmp_path) == {"r/part/first": "1", "r/late": "mine"}


def test_what_fails_leaves_the_old_report(tmp_path):
    write(tmp_path / "r", first="1")
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "r"):
        raise KeyboardInterrupt
    with pytest.raises(UserError, match="cannot write"), whole_folder(tmp_path / "r"):
        raise OSError(28, "No space left on device")
    assert files_in(tmp_path) == {"r/part/first": "1"}


def test_what_a_killed_process_left_is_removed_but_not_what_one_writes(tmp_path):
    abandoned = tmp_path / f".mcage-{_digest(tmp_path / 'r')}-{'0' * 16}.report"
    abandoned.mkdir()
    (abandoned / "half").write_text("x")
    in_work, _ = _new_folder(tmp_path / "r")  # which holds its lock
    write(tmp_path / "r", first="1")
    assert {path.name for path in tmp_path.iterdir()} == {"r", in_work.name}


def test_refusals(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "file").write_text("x")
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / CONTENTS).write_text('{"filetype": "another", "files": []}')
    before = files_in(tmp_path)
    for name, words in (
        ("file", "a file of this name is there already"),
        ("none/r", "there is no folder"),
        ("claims", "holds contents.json"),
        ("here", "is the current folder"),
        (".", "is the current folder"),
    ):
        with pytest.raises(UserError, match=words):
            write(tmp_path / name, first="1")
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000])
def test_names_that_no_folder_can_have(name, tmp_path):
    with pytest.raises(UserError, match="cannot write"), whole_folder(tmp_path / name):
        raise AssertionError
