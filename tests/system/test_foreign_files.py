"""Does whatever somebody else's file does to HDF5 or to mcage end in one line and exit code 2?

Damaged and forged files are read by `read_files.py`, a program of its own: if one of them crashes
HDF5 inside mcage, the test fails and the others go on.
"""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import damaged_files
import fake_campaign
import numpy as np
import pytest
from places import ROOT
from result_files import write
from small_traces import small_trace

from mcage.campaign.shards import read_owner, shard_name, write_shard
from mcage.errors import UserError
from mcage.files import hdf5, inputs
from mcage.geometry import GCN
from mcage.report.folder import CONTENTS, whole_folder
from mcage.results import reader
from mcage.results.reader import read_header
from mcage.single_runs.replay import load_fault_maps
from mcage.traces import bundled_trace, load_trace, save_trace

READ_FILES = ROOT / "tests" / "support" / "read_files.py"
MOST_SECONDS, MOST_MEGABYTES = 10, 1024
FLIPS = 40


class Reading:
    """The program that reads files as mcage does, in a process of its own for each folder."""

    def __init__(self):
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, READ_FILES], stdin=pipe, stdout=pipe, text=True
        )

    def read(self, folder):
        """What became of every file in a folder, by name; none may end in a crash or take long."""
        print(folder, file=self._process.stdin, flush=True)
        records = []
        while "code" not in (record := json.loads(self._process.stdout.readline())):
            records.append(record)
        assert record["code"] == 0, f"died with {records[-1]['name']}"
        assert records.pop()["megabytes"] < MOST_MEGABYTES
        outcomes = {record["name"]: record for record in records if record["outcome"] != "begun"}
        for name, record in outcomes.items():
            assert record["outcome"] in ("read", "refused"), record
            assert record["seconds"] < MOST_SECONDS, record
            if record["outcome"] == "refused":
                assert str(folder / name) in record["message"]
                assert record["message"].isprintable(), record
                assert len(record["message"].replace(str(folder), "")) < 300
        return outcomes

    def close(self):
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def reading():
    process = Reading()
    yield process
    process.close()


def assert_all_refused(reading, folder, names):
    outcomes = reading.read(folder)
    assert set(outcomes) == set(names)
    assert [names[n] for n, record in outcomes.items() if record["outcome"] != "refused"] == []


# ---- traces ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A trace as a recorder writes it, with text of variable length."""
    path = tmp_path_factory.mktemp("recorded") / "sound.trace"
    save_trace(small_trace(), path)
    damaged_files.store_as_recorders_do(path)
    return path


def test_sound_traces_are_read(reading, recorded, tmp_path):
    shutil.copy(recorded, tmp_path)
    save_trace(bundled_trace("DCT"), tmp_path / "large.trace")
    assert {record["outcome"] for record in reading.read(tmp_path).values()} == {"read"}


def test_traces_of_another_structure(reading, recorded, tmp_path):
    names = {}
    for number, (name, mutate) in enumerate(damaged_files.trace_mutations().items()):
        path = tmp_path / f"{number:03}.trace"
        shutil.copy(recorded, path)
        mutate(path)
        names[path.name] = name
    assert_all_refused(reading, tmp_path, names)


@pytest.mark.parametrize("kind", list(damaged_files.BYTE_MUTATIONS))
def test_damaged_traces(kind, reading, recorded, tmp_path):
    random, content = np.random.default_rng(11), recorded.read_bytes()
    for number in range(FLIPS):
        damaged = damaged_files.BYTE_MUTATIONS[kind](content, random)
        (tmp_path / f"{number:03}.trace").write_bytes(damaged)
    outcomes = reading.read(tmp_path)
    assert len(outcomes) == FLIPS
    assert sum(record["outcome"] == "refused" for record in outcomes.values()) > FLIPS // 10


# ---- sealed files ----------------------------------------------------------------------------


def test_forged_results(reading, tmp_path):
    sound = tmp_path / "sound"
    write(sound, (8,))
    names = {}
    for number, (name, mutate) in enumerate(damaged_files.results_mutations().items()):
        path = tmp_path / f"{number:03}.results"
        shutil.copy(sound, path)
        damaged_files.forge(path, mutate)
        names[path.name] = name
    assert_all_refused(reading, tmp_path, names)


def make_shard(folder):
    campaign = fake_campaign.campaign(instances=10)
    return write_shard(folder, campaign, range(3), fake_campaign.compute(0, 3))


def test_forged_shards(reading, tmp_path):
    sound = make_shard(tmp_path)
    content = sound.read_bytes()
    sound.unlink()
    names = {}
    for number, (name, mutate) in enumerate(damaged_files.shard_mutations().items()):
        path = tmp_path / str(number) / sound.name
        path.parent.mkdir()
        path.write_bytes(content)
        damaged_files.forge(path, mutate)
        names[f"{number}/{sound.name}"] = name
    assert_all_refused(reading, tmp_path, names)


def test_results_in_place_of_a_shard(tmp_path):
    path = tmp_path / shard_name(fake_campaign.CAMPAIGN.spec_digest, range(8))
    write(path, (8,))
    with pytest.raises(UserError, match="holds mcage-results, not mcage-shard"):
        read_owner(path)


def test_a_shard_in_place_of_results(tmp_path):
    with pytest.raises(UserError, match="holds mcage-shard, not mcage-results"):
        read_header(make_shard(tmp_path))


def test_a_sealed_text(tmp_path):
    path = tmp_path / "r.h5"
    path.write_text("time,life\n1,2\n")
    damaged_files.append_checksum(path)
    with pytest.raises(UserError, match="not a readable HDF5 file, or damaged"):
        read_header(path)


def test_a_content_is_looked_through_once(tmp_path, monkeypatch):
    write(tmp_path / "r.h5", (4,))
    looks = []
    look_through = hdf5.ForeignFile.look_through
    monkeypatch.setattr(reader, "_looked_through", {})
    monkeypatch.setattr(
        reader.ForeignFile,
        "look_through",
        lambda file: looks.append(file) or look_through(file),
    )
    shutil.copy(tmp_path / "r.h5", tmp_path / "copy.h5")
    for name in ("r.h5", "r.h5", "copy.h5"):
        read_header(tmp_path / name)
    assert len(looks) == 1


# ---- what is no regular file, or too large ---------------------------------------------------


@pytest.fixture
def odd_files(tmp_path):
    """A FIFO, a socket, a folder, and links to devices, as a file may be one by mistake."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(tmp_path)
        listening.bind("socket")
        os.chdir(here)
    (tmp_path / "folder").mkdir()
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "null").symlink_to("/dev/null")
    return tmp_path


@contextmanager
def at_once(seconds=MOST_SECONDS):
    """A command that waits for what nobody writes is ended, and fails."""

    def give_up(*_):
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def commands_that_read(path):
    yield ["show", path]
    yield ["trace", "validate", path]
    yield ["sweep", path]
    yield ["sweep", "--kernel", path, "--out", path.with_name("out.h5")]
    yield ["sweep", "--out", path, "--instances", "1"]
    yield ["replay", "DCT", "--technique", "rrcd", "--fault-map", path]
    yield ["merge", path.with_name("out.h5"), path]
    yield ["verify", path]
    yield ["compare", path, path]
    yield ["gpu", "gating", "--recorded", path, "--out", path.with_name("out.h5")]


@pytest.mark.parametrize(
    ("number", "name"),
    [*((number, "fifo") for number in range(10)), *((number, "zero") for number in (0, 5, 6))],
)
def test_what_is_no_regular_file_is_refused_at_once(number, name, odd_files, command):
    with at_once():
        code, _, said = command(*list(commands_that_read(odd_files / name))[number])
    assert code == 2, said
    assert str(odd_files / name) in said
    assert said.count("\n") <= 2


def fault_maps(path):
    return load_fault_maps(path, GCN)


@pytest.mark.parametrize("name", ["fifo", "socket", "folder", "zero", "null", "nowhere", "a\0b"])
@pytest.mark.parametrize("read", [load_trace, read_header, fault_maps])
def test_readers_take_regular_files_only(name, read, odd_files):
    with pytest.raises(UserError, match=name[0]):
        read(odd_files / name)


def test_a_fifo_in_place_of_the_contents_of_a_report(tmp_path):
    (tmp_path / "report").mkdir()
    os.mkfifo(tmp_path / "report" / CONTENTS)
    with (
        at_once(),
        pytest.raises(UserError, match="which is not of a report"),
        whole_folder(tmp_path / "report"),
    ):
        raise AssertionError


def test_a_file_that_would_make_its_reader_wait(tmp_path, monkeypatch):
    """As /proc/kmsg does, which is a regular file; opened so that nobody waits, it says None."""

    class Waiting(io.FileIO):
        def readall(self):
            return None

    (tmp_path / "kmsg").touch()
    opened = lambda *_: io.BufferedReader(Waiting(tmp_path / "kmsg"))  # noqa: E731
    monkeypatch.setattr(inputs, "open_regular", opened)
    with pytest.raises(inputs.DamagedFileError, match="was not written by mcage"):
        inputs.verify_checksum(tmp_path / "kmsg")


def test_a_fifo_in_place_of_a_shard(tmp_path):
    path = tmp_path / shard_name("0123", range(3))
    os.mkfifo(path)
    with pytest.raises(UserError, match="it is a FIFO; a regular file is needed"):
        read_owner(path)


@pytest.mark.parametrize(
    ("read", "gigabytes"), [(load_trace, 2), (read_header, 100), (fault_maps, 1)]
)
def test_files_beyond_their_size_are_not_read(read, gigabytes, tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(gigabytes << 30)  # takes no room on the disk
    begun = time.monotonic()
    with pytest.raises(UserError, match=r"it has [\d,.]+ MiB; at most [\d,]+ MiB are read"):
        read(path)
    assert time.monotonic() - begun < 1


def test_a_large_spec_is_not_read(tmp_path, command):
    path = tmp_path / "large.toml"
    path.write_text("#" * (5 << 20))
    with at_once():
        code, _, said = command("sweep", path)
    assert code == 2
    assert "it has 5.0 MiB; at most 4 MiB are read" in said


@pytest.mark.parametrize("shape", ["(1099511627776, 256)", f"({'9' * 4000}, 256)", "(-1, 256)"])
def test_a_fault_map_that_says_it_is_huge(shape, tmp_path):
    path = tmp_path / "maps.npy"
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    path.write_bytes(magic + header + bytes(256))
    with pytest.raises(UserError, match="no NumPy file with a fault map") as refusal:
        fault_maps(path)
    assert len(str(refusal.value)) < 300


# ---- the process that reads ------------------------------------------------------------------


def test_what_comes_with_mcage_needs_no_process(monkeypatch):
    def refuse(_):
        raise AssertionError("a process was started")

    monkeypatch.setattr(hdf5._Process, "__init__", refuse)
    monkeypatch.setattr(hdf5._Process, "_running", None)
    assert bundled_trace("QuasiRandomSequence").writes


def end_while_it_reads(path, number):
    """Let the process die of a signal while it reads the file; the refusal of the file."""
    load_trace(path)  # so that there is a process
    reader = hdf5._Process.running()
    process, answer = reader._process, reader._message
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)

    def end():  # when the request has been sent, and before it is read
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        return answer()

    with mock.patch.object(reader, "_message", end), pytest.raises(UserError) as refusal:
        load_trace(path)
    assert process.returncode == -number
    return str(refusal.value)


def test_a_file_may_be_named_by_its_descriptor(recorded):
    """As /dev/stdin names it, which is another file in the process that reads."""
    with recorded.open("rb") as stream:
        assert load_trace(f"/proc/self/fd/{stream.fileno()}").writes
        assert load_trace(f"/dev/fd/{stream.fileno()}").writes


def test_a_crash_of_hdf5_is_that_of_the_file(recorded):
    message = end_while_it_reads(recorded, signal.SIGSEGV)
    assert message == f"{recorded}: the HDF5 library crashes on it (SIGSEGV); it is damaged"
    assert load_trace(recorded).writes


def test_a_search_without_end_is_ended(recorded):
    message = end_while_it_reads(recorded, signal.SIGXCPU)
    assert "the HDF5 library does not come to an end with it in 4 s of processor time" in message
    assert load_trace(recorded).writes


def test_a_machine_without_time_is_no_fault_of_the_file(recorded, monkeypatch):
    load_trace(recorded)
    process = hdf5._Process.running()._process
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(hdf5, "SECONDS_TO_WAIT", 0.1)
    with at_once(1), pytest.raises(UserError, match=r"cannot be read: .* is busy"):
        load_trace(recorded)
    monkeypatch.undo()
    assert process.returncode == -signal.SIGKILL
    assert load_trace(recorded).writes


def test_a_reader_that_somebody_kills_is_no_fault_of_the_file(recorded):
    message = end_while_it_reads(recorded, signal.SIGKILL)
    assert message == f"{recorded}: cannot be read: the process that reads it was killed"


def test_a_process_that_died_in_between_is_no_fault_of_the_file(recorded):
    load_trace(recorded)
    process = hdf5._Process.running()._process
    process.kill()
    process.wait()
    assert load_trace(recorded).writes


def test_a_file_that_changes_while_it_is_read(recorded, tmp_path):
    shutil.copy(recorded, tmp_path / "t.h5")
    file = hdf5.ForeignFile(tmp_path / "t.h5", 1 << 20)
    for rows in (3, 300):
        with pytest.raises(UserError, match="event/kind: has changed while it was read"):
            file.read("event/kind", np.uint8, (rows,))
    assert len(file.read("event/kind", np.uint8, (9,))) == 9


def test_the_process_ends_with_that_of_mcage(recorded):
    script = (
        "import os, signal, sys\n"
        "from mcage import load_trace\n"
        "from mcage.files import hdf5\n"
        f"load_trace({str(recorded)!r})\n"
        "print(hdf5._Process.running()._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == -signal.SIGKILL
    until = time.monotonic() + MOST_SECONDS
    while Path(f"/proc/{int(run.stdout)}/mem").exists() and time.monotonic() < until:
        state = Path(f"/proc/{int(run.stdout)}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            return
        time.sleep(0.05)
    assert time.monotonic() < until
