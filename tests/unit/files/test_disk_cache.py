"""Arrays on disk: taken when they are whole and of the right key, made again otherwise."""

import grp
import multiprocessing
import os
import pwd
import random
import zlib
from pathlib import Path

import numpy as np
import pytest
from mutations import BYTE_MUTATIONS

from mcage.files import disk_cache
from mcage.files.disk_cache import cache_folder, code_folder, code_folders, kept_on_disk

ARRAYS = {
    "numbers": np.arange(1000, dtype=np.int32).reshape(10, 100),
    "floats": np.array([0.1, np.nan, -np.inf]),
    "truth": np.array([[True], [False]]),
    "one number": np.array(7, dtype=np.uint64),
    "none": np.zeros((0, 3), dtype=np.float32),
}


def in_group(monkeypatch, name, *members):
    """Have every group be of this name, with these members besides those whose own it is."""
    group = grp.struct_group((name, "x", 0, list(members)))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)


@pytest.fixture(autouse=True)
def group_of_others(monkeypatch):
    in_group(monkeypatch, "lab", "somebody")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MCAGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made_anew(key="key"):
    """Whether arrays had to be made; they are the right ones in any case."""
    calls = []
    arrays = kept_on_disk(key, lambda: calls.append(key) or ARRAYS)
    assert list(arrays) == list(ARRAYS)
    for name, array in arrays.items():
        assert array.dtype == ARRAYS[name].dtype
        assert np.array_equal(array, ARRAYS[name], equal_nan=array.dtype.kind == "f")
        assert array.shape == ARRAYS[name].shape
        assert array.flags.writeable
    return bool(calls)


def only_file(folder):
    (path,) = folder.iterdir()
    return path


def test_they_are_made_once(folder):
    assert made_anew()
    assert not made_anew()
    assert made_anew("another key")
    assert not made_anew()


def test_what_is_written_into_them_does_not_reach_the_file(folder):
    made_anew()
    kept_on_disk("key", dict)["numbers"][:] = 0
    assert not made_anew()


@pytest.mark.parametrize("kind", BYTE_MUTATIONS)
def test_damage_anywhere_is_noticed_and_the_file_made_again(folder, kind):
    made_anew()
    sound, rng = only_file(folder).read_bytes(), random.Random(5)
    for _ in range(20):
        damaged = BYTE_MUTATIONS[kind](rng, sound)
        only_file(folder).write_bytes(damaged)
        assert made_anew() is (damaged != sound)
        assert not made_anew()


def test_a_file_of_another_key_is_made_again(folder):
    made_anew()
    path = only_file(folder)
    kept_on_disk("other", lambda: {"numbers": np.zeros(3)})
    (other,) = set(folder.iterdir()) - {path}
    os.replace(other, path)
    assert made_anew()


@pytest.mark.parametrize(
    "spoil", [lambda path: path.chmod(0o660), lambda path: os.chown(path, 1, 1)]
)
def test_a_file_that_others_could_have_written_is_made_again(folder, spoil):
    made_anew()
    spoiled(only_file(folder), spoil)
    assert made_anew()
    assert not made_anew()


@pytest.mark.parametrize(
    "spoil", [lambda path: path.chmod(0o777), lambda path: os.chown(path, 1, 1)]
)
def test_a_folder_of_others_is_not_used_and_a_line_says_so(folder, spoil):
    made_anew()
    spoiled(folder, spoil)
    with pytest.warns(UserWarning, match=f"the cache {folder} is not used"):
        assert made_anew()


def test_a_group_of_the_user_alone_may_write(folder, monkeypatch):
    user = pwd.getpwuid(os.geteuid()).pw_name
    folder.mkdir()
    folder.chmod(0o775)
    in_group(monkeypatch, user, user)
    assert made_anew()
    only_file(folder).chmod(0o664)
    assert not made_anew()
    in_group(monkeypatch, user, "somebody")
    with pytest.warns(UserWarning, match="is not used"):
        assert made_anew()


def spoiled(path, spoil):
    try:
        spoil(path)
    except PermissionError:
        pytest.skip("only root gives files away")


def test_a_new_folder_is_for_its_user_alone(folder):
    made_anew()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_fifo_is_made_again(folder):
    made_anew()
    path = only_file(folder)
    path.unlink()
    os.mkfifo(path)
    assert made_anew()
    assert not made_anew()


@pytest.mark.parametrize("begins", ["[", '{"key":'])
def test_a_header_that_is_nested_deep_is_made_again(folder, begins):
    made_anew()
    header = 20_000 * begins.encode()
    numbers = zlib.crc32(header).to_bytes(8, "little") + len(header).to_bytes(8, "little")
    only_file(folder).write_bytes(disk_cache._MARK + numbers + header)
    assert made_anew()


def test_off_keeps_nothing(folder, monkeypatch):
    monkeypatch.setenv("MCAGE_CACHE", "off")
    assert cache_folder() is None
    assert made_anew()
    assert made_anew()


def test_the_users_cache_folder_is_the_default(monkeypatch, tmp_path):
    monkeypatch.delenv("MCAGE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made_anew()
    assert only_file(tmp_path / "mcage" / "arrays")


def test_a_relative_cache_folder_of_the_user_is_ignored(monkeypatch, tmp_path):
    monkeypatch.delenv("MCAGE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "mcage" / "arrays"


def test_a_user_without_a_home_keeps_nothing(monkeypatch, tmp_path):
    for name in ("MCAGE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(_):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert cache_folder() is None
    (tmp_path / "a file").touch()
    assert code_folder("0123", tmp_path / "a file") == "", "which is no folder"
    assert made_anew()


# ---- machine code ----------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A place beside the source, and that of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    return tmp_path / "beside", tmp_path / "user" / "mcage"


def test_machine_code_lies_beside_its_source_or_in_the_users_folder(places):
    beside, user = places
    assert code_folder("0123", beside) == f"{beside}/numba-0123"
    (beside / "numba-0123").chmod(0o770)
    assert code_folder("0123", beside) == f"{user}/numba-0123"
    (user / "numba-0123").chmod(0o702)
    with pytest.warns(UserWarning, match="is not used"):
        assert code_folder("0123", beside) == ""


def test_a_place_at_which_nobody_may_look_has_no_machine_code(places, monkeypatch):
    """A name that is too long fails for root, too, whom no folder of others keeps out."""
    beside, _ = places
    monkeypatch.setenv("XDG_CACHE_HOME", "/" + 300 * "x")
    beside.touch()
    assert code_folder("0123", beside) == ""
    assert code_folders(disk_cache.user_folder()) == []
    assert disk_cache.array_files(disk_cache.user_folder()) == []


def test_machine_code_that_others_could_have_written_is_not_run(places):
    beside, user = places
    code = Path(code_folder("0123", beside)) / "below" / "f.nbi"
    code.parent.mkdir()
    code.touch(0o644)
    code.chmod(0o664)
    assert code_folder("0123", beside) == f"{beside}/numba-0123", "which nobody else can reach"
    (beside / "numba-0123").chmod(0o755)
    assert code_folder("0123", beside) != f"{beside}/numba-0123"
    (user / "numba-0123" / "f.nbi").touch(0o666)
    (user / "numba-0123" / "f.nbi").chmod(0o666)
    (user / "numba-0123").chmod(0o755)
    with pytest.warns(UserWarning, match="is not used"):
        assert code_folder("0123", beside) == ""
    code.chmod(0o644)
    assert code_folder("0123", beside) == f"{beside}/numba-0123"


def test_machine_code_that_another_process_renames_meanwhile_is_no_error(places, monkeypatch):
    beside, _ = places
    folder = Path(code_folder("0123", beside))
    (folder / "f.nbi").touch()
    monkeypatch.setattr(Path, "rglob", lambda self, _: [self / "f.nbi.tmp.1", self / "f.nbi"])
    assert code_folder("0123", beside) == str(folder)
    (folder / "f.nbi").chmod(0o606)
    folder.chmod(0o755)
    assert code_folder("0123", beside) != str(folder)


def test_machine_code_of_few_versions_is_kept(places):
    beside, _ = places
    for number in range(6):
        os.utime(code_folder(str(number), beside), (number, number))
        (beside / f"numba-{number}" / "f.nbi").touch()
        os.utime(beside / f"numba-{number}", (number, number))
    assert [folder.name for folder in code_folders(beside)] == [f"numba-{n}" for n in range(2, 6)]


# ---- the command -----------------------------------------------------------------------------


def test_the_command_shows_what_is_kept_and_clears_it(folder, places, command, monkeypatch):
    from mcage.cli import doctor

    monkeypatch.setattr(doctor, "PACKAGE", folder.parent)  # or the engine is compiled anew
    made_anew()
    (folder / "mine.kept").write_text("of the user")
    (folder / "tmpabcdefgh.partial").write_bytes(bytes(10**6))
    code = Path(code_folder("0123")) / "f.nbi"
    code.write_bytes(bytes(2 * 10**6))
    _, said, _ = command("cache")
    assert f"{folder}: files of arrays: 2, 1.0 MB\n" in said
    assert f"{places[1]}: folders of machine code: 1, 2.0 MB\n" in said
    _, said, _ = command("cache", "--clear")
    assert f"{folder}: files of arrays: 2, 1.0 MB, removed\n" in said
    assert [path.name for path in folder.iterdir()] == ["mine.kept"]
    assert not code_folders(places[1])
    assert made_anew()


# ---- where there is no room ------------------------------------------------------------------


def test_where_nothing_can_be_written_the_arrays_are_made(folder):
    folder.write_text("no folder")
    assert made_anew()
    assert made_anew()


def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        assert made_anew()
    assert not list(folder.iterdir())
    assert made_anew()


def test_what_has_not_been_used_for_longest_makes_room(folder, monkeypatch):
    made_anew("first")
    monkeypatch.setattr(disk_cache, "MOST_BYTES", 3 * only_file(folder).stat().st_size)
    for number, key in enumerate(("second", "third")):
        made_anew(key)
        for path in folder.iterdir():
            os.utime(path, (number, number))
    assert not made_anew("first"), "which is the latest now"
    made_anew("fourth")
    assert len(list(folder.iterdir())) == 3
    assert not made_anew("first")


def _use(number):
    return kept_on_disk(f"key {number % 3}", lambda: ARRAYS | {"number": np.array(number % 3)})


def test_processes_share_the_folder(folder):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        for number, arrays in enumerate(pool.imap(_use, range(60))):
            assert arrays["number"] == number % 3
            assert np.array_equal(arrays["numbers"], ARRAYS["numbers"])
    assert len(list(folder.iterdir())) == 3
