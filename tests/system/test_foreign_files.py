"""Does whatever somebody else's file does to HDF5 or to mcage end in one line and exit code 2?"""

import io
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
from engine_cases import daily
from small_traces import small_trace
from tables import each

from mcage.campaign.shards import read_owner, read_shard
from mcage.errors import UserError
from mcage.files import hdf5, inputs
from mcage.files.inputs import DamagedFileError
from mcage.geometry import GCN
from mcage.report.folder import CONTENTS, whole_folder
from mcage.results.reader import read_header
from mcage.single_runs.replay import load_fault_maps
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.presentation import SweepPresentation
from mcage.traces import bundled_trace, load_trace, save_trace

MOST_BYTES, MOST_SECONDS = 1 << 30, 60
PARTS = 5


def resident(line, process="self"):
    """Bytes of a line of what the system says of a process."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.split(f"{line}:")[1].split()[0]) << 10


@contextmanager
def little_memory():
    """Neither this process nor that which reads may take much."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    yield
    assert resident("VmHWM") - before < MOST_BYTES
    assert resident("VmHWM", hdf5._Process.running()._process.pid) < MOST_BYTES


def is_refused(path, read):
    """Whether a file is refused, in a line that names it."""
    try:
        read(path)
    except (UserError, DamagedFileError) as error:
        message = str(error)
        assert str(path) in message
        assert message.isprintable()
        assert len(message.replace(str(path), "")) < 300
        return True
    return False


in_parts = pytest.mark.parametrize("part", daily(range(PARTS), [0]))


def assert_all_refused(part, read, sound, mutations, damage=lambda path, mutate: mutate(path)):
    """Damage a file in every way of a part: none may crash, take much memory or be taken."""
    mutations = dict([*mutations.items()][part::PARTS])
    content, taken = sound.read_bytes(), []
    with little_memory():
        for name, mutate in mutations.items():
            sound.write_bytes(content)
            damage(sound, mutate)
            if not is_refused(sound, read):
                taken.append(name)
    assert not taken


# ---- traces ----------------------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path):
    """A trace as a recorder writes it, with text of variable length."""
    path = tmp_path / "sound.trace"
    save_trace(small_trace(), path)
    damaged_files.store_as_recorders_do(path)
    return path


def read_trace(path):
    load_trace(path).digest()


def test_sound_traces_are_read(recorded, tmp_path):
    save_trace(bundled_trace("DCT"), tmp_path / "large.trace")
    assert not is_refused(recorded, read_trace)
    assert not is_refused(tmp_path / "large.trace", read_trace)


@in_parts
def test_traces_of_another_structure(part, recorded):
    assert_all_refused(part, read_trace, recorded, damaged_files.trace_mutations())


# ---- sealed files ----------------------------------------------------------------------------


@in_parts
def test_forged_results(part, tmp_path):
    sound = tmp_path / "sound"
    fake_campaign.write(sound, (8,))
    mutations = damaged_files.results_mutations()
    assert_all_refused(part, show_results, sound, mutations, damaged_files.forge)


def show_results(path):
    SweepPresentation(SweepHeader).summarize_file(path)


@in_parts
def test_forged_shards(part, tmp_path):
    (sound,) = fake_campaign.write_shards(tmp_path, fake_campaign.CAMPAIGN, range(3))
    mutations = damaged_files.shard_mutations()
    assert_all_refused(part, open_shard, sound, mutations, damaged_files.forge)


def open_shard(path):
    read_owner(path)
    read_shard(path)


def test_a_sealed_text(tmp_path):
    path = tmp_path / "r.h5"
    path.write_text("time,life\n1,2\n")
    damaged_files.append_checksum(path)
    with pytest.raises(UserError, match="not a readable HDF5 file, or damaged"):
        read_header(path)


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


def test_what_is_no_regular_file_is_refused_at_once(odd_files, refusal):
    for line in commands_that_read(odd_files / "fifo"):
        with at_once():
            said = refusal(*line)
        assert str(odd_files / "fifo") in said, line
        assert said.count("\n") <= 2, line


def fault_maps(path):
    return load_fault_maps(path, GCN)


@pytest.mark.parametrize("read", [load_trace, read_header, fault_maps])
@each("name", ["fifo", "socket", "folder", "zero", "null", "nowhere", "a\0b"])
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


@pytest.mark.parametrize(
    ("read", "gigabytes"), [(load_trace, 2), (read_header, 100), (fault_maps, 1)]
)
def test_files_beyond_their_size_are_not_read(read, gigabytes, tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(gigabytes << 30)  # takes no room on the disk
    with (
        little_memory(),
        pytest.raises(UserError, match=r"it has [\d,.]+ MiB; at most [\d,]+ MiB are read"),
    ):
        read(path)


def test_a_large_spec_is_not_read(tmp_path, refusal):
    (tmp_path / "large.toml").write_text("#" * (5 << 20))
    assert "it has 5.0 MiB; at most 4 MiB are read" in refusal("sweep", "large.toml")


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


@each(
    ("number", "words"),
    [
        (signal.SIGSEGV, "the HDF5 library crashes on it (SIGSEGV); it is damaged"),
        (
            signal.SIGXCPU,
            "the HDF5 library does not come to an end with it in 4 s of processor time",
        ),
        (signal.SIGKILL, "cannot be read: the process that reads it was killed"),
    ],
)
def test_the_death_of_the_process_has_a_reason(recorded, number, words):
    """Of a crash, and of a search without end; if somebody kills it, that is not the file's."""
    assert end_while_it_reads(recorded, number).startswith(f"{recorded}: {words}")
    assert load_trace(recorded).writes


def test_a_machine_without_time_is_no_fault_of_the_file(recorded, monkeypatch):
    load_trace(recorded)
    process = hdf5._Process.running()._process
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(hdf5, "SECONDS_TO_WAIT", 0.1)
    with at_once(), pytest.raises(UserError, match=r"cannot be read: .* is busy"):
        load_trace(recorded)
    monkeypatch.undo()
    assert process.returncode == -signal.SIGKILL
    assert load_trace(recorded).writes


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
    status = Path(f"/proc/{int(run.stdout)}/stat")
    with at_once():
        while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.05)
