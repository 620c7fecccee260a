"""Values that threads share: made once, side by side, and gone with their keys."""

import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcage import concurrency
from mcage.concurrency import Memo, in_background
from mcage.errors import UserError


class Key:
    pass


def test_values_of_several_keys_are_made_side_by_side():
    together = threading.Barrier(2, timeout=60)
    memo = Memo(lambda key: (together.wait(), object())[1])
    keys = Key(), Key()
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(memo.of, (*keys, *keys)))
    assert made[0] is made[2] is memo.of(keys[0])
    assert made[1] is made[3] is not made[0]


def test_a_value_goes_with_its_key():
    class Value:
        pass

    memo, key = Memo(lambda key: Value()), Key()
    value, gone = weakref.ref(memo.of(key)), weakref.ref(key)
    assert value() is memo.of(key)
    del key
    gc.collect()
    assert gone() is None
    assert value() is None


def test_an_error_meets_whoever_asks():
    """What makes it is asked again: the error may have passed."""
    failures, done = [ValueError("first"), ValueError("second")], threading.Event()

    def make(key):
        try:
            if failures:
                raise failures.pop(0)
            return 7
        finally:
            done.set()

    memo, key = Memo(make), Key()
    in_background([lambda: memo.of(key)])
    assert done.wait(60)
    with pytest.raises(ValueError, match="second"):
        memo.of(key)
    assert memo.of(key) == 7


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of 64 cores with control groups of one's own making."""
    monkeypatch.delenv("MCAGE_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    monkeypatch.setattr(concurrency, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(concurrency, "_OWN_GROUPS", tmp_path / "own")

    def made(own, **files):
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return made


IN_A_CONTAINER = "12:pids:/\n3:cpu,cpuacct:/docker/0a\n1:name=systemd:/docker/0a\n0::/docker/0a\n"


OF_VERSION_1 = "cpu,cpuacct/cpu.cfs_quota_us", "cpu,cpuacct/cpu.cfs_period_us"
BELOW = "cpu/docker/0a/cpu.cfs_quota_us", "cpu/docker/0a/cpu.cfs_period_us"
ABOVE = "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"


def granted(names, quota):
    """Files of the first version of control groups."""
    return dict(zip(names, (str(quota), "100000"), strict=True))


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        *(
            ("0::/\n", {"cpu.max": f"{text}\n"}, cores)
            for text, cores in {
                "max 100000": 64,
                "200000 100000": 2,
                "150000 100000": 2,
                "50000 100000": 1,
                "9900000 100000": 64,
                "no numbers": 64,
                "": 64,
                "0 0": 64,
            }.items()
        ),
        ("0::/a/b/c\n", {"a/b/c/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "300000 100000", "a/cpu.max": "900000 100000"}, 3),
        ("0::/a/b\n", {"other/cpu.max": "100000 100000\n"}, 64),
        # The group of the host by its name, and its files at the root of the container.
        ("0::/system.slice/docker-0a.scope\n", {"cpu.max": "400000 100000\n"}, 4),
        ("0::/../../x\n", {"x/cpu.max": "500000 100000\n"}, 5),
        ("nothing", {"cpu.max": "200000 100000\n"}, 64),
        # The first version, alone and beside the second.
        (IN_A_CONTAINER, granted(OF_VERSION_1, 200_000), 2),
        (IN_A_CONTAINER, granted(BELOW, 300_000) | granted(ABOVE, -1), 3),
        ("2:cpu:/\n", granted(ABOVE, -1), 64),
        ("2:cpuset:/\n", granted(("cpuset/cpu.cfs_quota_us", "cpuset/cpu.cfs_period_us"), 1), 64),
        ("1:cpu:/\n0::/a\n", {"unified/a/cpu.max": "700000 100000\n"}, 7),
    ],
)
def test_no_more_cores_than_control_groups_grant(own, files, cores, machine):
    machine(own, **files)
    assert concurrency.usable_cores() == cores


def test_a_machine_without_control_groups(machine, tmp_path):
    assert not (tmp_path / "own").exists()
    assert concurrency.usable_cores() == 64


def test_a_variable_says_how_many_threads(machine, monkeypatch):
    machine("0::/\n", **{"cpu.max": "200000 100000\n"})
    monkeypatch.setenv("MCAGE_THREADS", "3")
    assert concurrency.usable_cores() == 3
    for wrong in ("0", "-1", "2.5", "many", "1e3", "9" * 5000, "٣", "4097"):
        monkeypatch.setenv("MCAGE_THREADS", wrong)
        with pytest.raises(UserError, match=r"MCAGE_THREADS = .*number of threads"):
            concurrency.usable_cores()
    monkeypatch.setenv("MCAGE_THREADS", "")
    assert concurrency.usable_cores() == 2
