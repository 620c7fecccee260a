"""Is nothing of a user's overwritten, followed or left behind by what mcage writes?"""

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import fake_campaign
import pytest
from command_line import invoke
from small_traces import small_trace

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import shard_folder
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.files.atomic import CSV, FIGURES, JSON, PNG, TABLES, TRACE, make_ready, whole_file
from mcage.traces import save_trace

CAMPAIGN = fake_campaign.campaign(instances=20)
PRECIOUS = "a year of work"


def never(*_):
    raise AssertionError("computed first")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Bytes of the results file of `CAMPAIGN`."""
    out = tmp_path_factory.mktemp("good") / "r.h5"
    return run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 20).read_bytes()


@pytest.fixture
def precious(tmp_path):
    path = tmp_path / "precious.txt"
    path.write_text(PRECIOUS)
    return path


def process(*arguments, **options):
    script = "from mcage.cli.main import main; main()"
    line = [sys.executable, "-c", script, *map(os.fspath, arguments)]
    return subprocess.run(line, stderr=subprocess.PIPE, text=True, timeout=60, **options)


def refused(message, *arguments):
    result = invoke(*arguments)
    assert isinstance(result.exception, UserError), result.output
    assert message in str(result.exception)


# ---- temporary files -------------------------------------------------------------------------


def test_a_link_in_the_way_of_a_results_file_is_not_followed(good, precious, tmp_path):
    out = tmp_path / "r.h5"
    (tmp_path / "r.h5.partial").symlink_to(precious)
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 7)
    assert precious.read_text() == PRECIOUS
    assert not out.is_symlink()
    assert out.read_bytes() == good


def test_a_link_at_the_very_name_is_not_followed(precious, tmp_path, monkeypatch):
    """Nobody can guess a random name; if somebody did, no file would be opened by it."""
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    name = fake_campaign.abandoned(tmp_path / "t.json")
    name.unlink()
    name.symlink_to(precious)
    with (
        pytest.raises(UserError, match="File exists"),
        whole_file(tmp_path / "t.json", JSON) as stream,
    ):
        stream.write(b"{}")
    assert precious.read_text() == PRECIOUS
    assert name.is_symlink()


def test_only_abandoned_files_of_the_same_destination_are_removed(precious, tmp_path):
    path = tmp_path / "t.json"
    left = fake_campaign.abandoned(path)
    other = fake_campaign.abandoned(tmp_path / "other.json")
    with whole_file(path, JSON) as stream:
        in_work = set(tmp_path.iterdir()) - {left, other, precious}
        make_ready(path, JSON)
        stream.write(b"{}")
        assert in_work < set(tmp_path.iterdir())
    assert set(tmp_path.iterdir()) == {path, other, precious}


def test_what_is_no_file_of_ours_stays(precious, tmp_path):
    path = tmp_path / "t.json"
    name = fake_campaign.abandoned(path)
    name.unlink()
    name.symlink_to(precious)
    make_ready(path, JSON)
    assert precious.read_text() == PRECIOUS
    assert name.is_symlink()


def test_the_folder_of_the_shards_outlasts_a_power_failure(tmp_path, monkeypatch):
    flushed = []
    fsync = os.fsync

    def remember(descriptor):
        flushed.append((os.readlink(f"/proc/self/fd/{descriptor}"), set(tmp_path.iterdir())))
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", remember)
    out = tmp_path / "r.h5"
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 20)
    assert flushed[0] == (str(tmp_path), {shard_folder(out)})


# ---- destinations ----------------------------------------------------------------------------


def test_a_link_is_followed(good, tmp_path):
    (tmp_path / "large").mkdir()
    for target in ("large/r.h5", "large/again.h5"):
        out = tmp_path / "r.h5"
        out.unlink(missing_ok=True)
        out.symlink_to(target)
        assert run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 7) == out
        assert out.is_symlink()
        assert (tmp_path / target).read_bytes() == good
    run_campaign(Study(CAMPAIGN, never), out, 7)
    assert len(list((tmp_path / "large").iterdir())) == 2


def odd_file(kind, path):
    """A destination that is not a regular file."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        folder = os.getcwd()
        os.chdir(path.parent)  # paths of sockets are short
        socket.socket(socket.AF_UNIX).bind(path.name)
        os.chdir(folder)
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        path.symlink_to(kind)
    return path


@pytest.mark.parametrize("kind", ["pipe", "socket", "loop", "/dev/full"])
def test_only_regular_files_are_written(kind, tmp_path):
    with pytest.raises(UserError, match="not a regular file"):
        run_campaign(Study(CAMPAIGN, never), odd_file(kind, tmp_path / "r.h5"), 7)
    refused("not a regular file", "faults", "--png", odd_file(kind, tmp_path / "map.png"))
    assert {path.name for path in tmp_path.iterdir()} == {"r.h5", "map.png"}


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_file_that_appears_meanwhile_stays(hard_links, good, tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    if not hard_links:
        monkeypatch.setattr("os.link", no_links)
    out = tmp_path / "r.h5"

    def compute(first, last):
        out.write_text(PRECIOUS)
        return fake_campaign.compute(first, last)

    with pytest.raises(UserError, match=r"there already; all instances are in .*shards"):
        run_campaign(Study(CAMPAIGN, compute), out, 7)
    assert out.read_text() == PRECIOUS
    out.unlink()
    run_campaign(Study(CAMPAIGN, never), out, 7)
    assert out.read_bytes() == good
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_that_appears_at_the_last_moment_stays(tmp_path):
    out = tmp_path / "t.json"

    def write_too_late():
        with whole_file(out) as stream:
            stream.write(b"{}")
            out.write_text(PRECIOUS)

    with pytest.raises(UserError, match="there already"):
        write_too_late()
    assert out.read_text() == PRECIOUS
    assert list(tmp_path.iterdir()) == [out]


LONG = "x" * 246


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (LONG + ".h5", "its name has 249 bytes; at most 248 are possible"),
        ("µ" * 200 + ".h5", "its name has 403 bytes; at most 248 are possible"),
        ("x/" * 2100 + "r.h5", "cannot write x/"),
    ],
)
def test_bad_names_of_results_are_refused_before_the_work(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refusal:
        run_campaign(Study(CAMPAIGN, never), Path(name), 7)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 400
    assert not list(tmp_path.iterdir())


def test_a_path_that_is_too_long_only_for_its_shards(tmp_path):
    folder = tmp_path
    while len(str(folder)) < 3900:
        folder = folder / ("d" * 100)
        folder.mkdir()
    out = folder / ("r" * (4090 - len(str(folder))))
    with pytest.raises(UserError, match="its path has 4091 bytes; at most 3982"):
        run_campaign(Study(CAMPAIGN, never), out, 7)


def test_the_longest_name(good, tmp_path):
    out = run_campaign(Study(CAMPAIGN, fake_campaign.compute), tmp_path / LONG[1:], 7)
    assert out.read_bytes() == good
    figure = tmp_path / f"{'f' * 251}.png"
    with whole_file(figure, PNG) as stream:
        stream.write(b"\x89PNG\r\n\x1a\n")
    assert set(tmp_path.iterdir()) == {out, figure}


def test_the_command_refuses_bad_names(command, tmp_path):
    """The first in a process of its own: how bytes become an argument and words is the system's."""
    run = process("sweep", "--out", os.fsdecode(b"r\xff.h5"), cwd=tmp_path)
    code, _, said = command("sweep", "--out", "y" * 249)
    assert (run.returncode, code) == (2, 2)
    for words in (run.stderr, said):
        assert words.startswith("error: cannot write ")
        assert len(words.splitlines()) == 1
    assert not list(tmp_path.iterdir())


# ---- kinds of files --------------------------------------------------------------------------


@pytest.fixture
def files(good, tmp_path):
    """A results file and a trace."""
    results, trace = tmp_path / "r.h5", tmp_path / "t.h5"
    results.write_bytes(good)
    save_trace(small_trace(), trace)
    return {path: path.read_bytes() for path in (results, trace)}


def test_what_is_in_a_file_counts_as_well_as_its_name(files, tmp_path):
    results, *_ = files
    for path, content in files.items():
        for suffix in (*FIGURES, *TABLES):
            disguised = path.with_suffix(suffix)
            disguised.write_bytes(content)
            refused("is not replaced", "sensitivity", "--out", disguised)
            if suffix in FIGURES:
                refused("is not replaced", "show", results, "--figure", disguised)
            if suffix == ".png":
                refused("is not replaced", "faults", "--png", disguised)
            assert disguised.read_bytes() == content
    with pytest.raises(UserError, match="is not a trace, and is not replaced"):
        save_trace(small_trace(), results)
    assert results.read_bytes() == files[results]


@pytest.mark.parametrize(
    ("kind", "content", "foreign_contents"),
    [
        (FIGURES[".pdf"], b"%PDF-1.4 ...", [b"\x89PNG\r\n\x1a\n", b"a,b\n"]),
        (JSON, b' {"a": 1}', [b"a,b\n", b"\x89HDF\r\n\x1a\n"]),
        (CSV, "µ,b\n1,2\n".encode(), [b'{"a": 1, "b": 2}', b"a\0,b", b"\xff,b", b"notes"]),
        (TRACE, b"\x89HDF\r\n\x1a\n...", [b"CDF", b"\x89PNG\r\n\x1a\n"]),
    ],
)
def test_a_file_of_the_same_kind_is_replaced(kind, content, foreign_contents, tmp_path):
    path = tmp_path / "file"
    for earlier in (content, b""):
        path.write_bytes(earlier)
        with whole_file(path, kind) as stream:
            stream.write(content)
        assert path.read_bytes() == content
    for foreign in foreign_contents:
        path.write_bytes(foreign)
        with pytest.raises(UserError, match="is not replaced"), whole_file(path, kind) as stream:
            never()
        with pytest.raises(UserError, match="is not replaced"):
            make_ready(path, kind)
        assert path.read_bytes() == foreign


def test_a_merge_follows_links_and_refuses_the_rest(good, tmp_path):
    with pytest.raises(UserError, match="not a regular file"):
        merge(odd_file("pipe", tmp_path / "p.h5"))
    (tmp_path / "large").mkdir()
    place, out = tmp_path / "large/r.h5", tmp_path / "r.h5"
    out.symlink_to(place)
    fake_campaign.write_shards(shard_folder(place), CAMPAIGN, range(20))
    fake_campaign.abandoned(place)
    assert merge(out) == out
    assert out.is_symlink()
    assert list(place.parent.iterdir()) == [place]
    assert place.read_bytes() == good


# ---- standard output -------------------------------------------------------------------------


def test_standard_output_is_full():
    with open("/dev/full", "w") as full:
        run = process("techniques", stdout=full)
    assert run.returncode == 2
    assert run.stderr == "error: cannot write to standard output: No space left on device\n"


def test_a_closed_output_is_no_place_for_results(tmp_path):
    """A new file gets the first free descriptor, that of standard output; it must not."""
    script = (
        "import sys\n"
        "from mcage.cli.process import checked_output\n"
        "from mcage.files.atomic import whole_file\n"
        "from pathlib import Path\n"
        "with checked_output(), whole_file(Path('t')) as stream:\n"
        "    print(stream.fileno() > 2, file=sys.stderr)\n"
    )
    line = [sys.executable, "-c", script]
    close = {"preexec_fn": lambda: os.close(1), "cwd": tmp_path}
    assert subprocess.run(line, stderr=subprocess.PIPE, **close).stderr == b"True\n"


@pytest.mark.slow
def test_a_reader_that_has_left_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    run = process("techniques", "--json", stdout=writer)
    os.close(writer)
    assert (run.returncode, run.stderr) == (141, "")
