"""Arrays on disk: taken when they are whole and of the right key, made again otherwise."""

import multiprocessing
import os

import numpy as np
import pytest

from mcage.files import disk_cache
from mcage.files.disk_cache import cache_folder, kept_on_disk

ARRAYS = {
    "numbers": np.arange(1000, dtype=np.int32).reshape(10, 100),
    "floats": np.array([0.1, np.nan, -np.inf]),
    "truth": np.array([[True], [False]]),
    "one number": np.array(7, dtype=np.uint64),
    "none": np.zeros((0, 3), dtype=np.float32),
}


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


@pytest.mark.parametrize("place", [0, 8, 20, 28, 36, 40, 100, 250, 400, 600, 3000, -70, -1])
def test_a_changed_bit_anywhere_is_noticed_and_the_file_made_again(folder, place):
    made_anew()
    content = bytearray(only_file(folder).read_bytes())
    content[place] ^= 4
    only_file(folder).write_bytes(content)
    assert made_anew()
    assert not made_anew()


@pytest.mark.parametrize("length", [0, 1, 30, 200, 1000])
def test_a_file_that_is_cut_off_is_made_again(folder, length):
    made_anew()
    only_file(folder).write_bytes(only_file(folder).read_bytes()[:length])
    assert made_anew()
    assert not made_anew()


def test_a_file_of_another_key_is_made_again(folder):
    made_anew()
    path = only_file(folder)
    kept_on_disk("other", lambda: {"numbers": np.zeros(3)})
    (other,) = set(folder.iterdir()) - {path}
    os.replace(other, path)
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
