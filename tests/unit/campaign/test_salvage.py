"""Is what `mcage verify` keeps of a damaged file right, whatever is damaged?"""

import json
import os
import random
import resource
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import darts
import fake_campaign
import h5py
import numpy as np
import pytest
from campaign_cases import Computer
from typer.testing import CliRunner

from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import shard_folder
from mcage.campaign.shards import read_shard, write_shard
from mcage.campaign.sources import salvage as salvage_module
from mcage.campaign.sources.salvage import damage_of, salvage
from mcage.campaign.study import Study
from mcage.cli.app import app
from mcage.errors import UserError
from mcage.files import damage as damage_module
from mcage.results.header import StoppingRule

CAMPAIGN = fake_campaign.campaign(instances=20)
MORE = fake_campaign.campaign(instances=30)
CHUNK = 4
MODULES = (
    "results.writer",
    "campaign.finished",
    "campaign.sources.salvage",
)


@contextmanager
def chunks_of_length(length):
    with ExitStack() as patches:
        for name in MODULES:
            patches.enter_context(patch(f"mcage.{name}.INSTANCES_PER_CHUNK", length))
        yield


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    """Five chunks in a file of twenty instances."""
    with chunks_of_length(CHUNK):
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "r.h5"
    return run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 20)


@pytest.fixture
def out(whole, tmp_path):
    path = tmp_path / "r.h5"
    path.write_bytes(whole.read_bytes())
    return path


def chunks_of(path, name):
    """Place and length of each chunk in the file, by the number of its instances' chunk."""
    with h5py.File(path) as file:
        dataset = file[name]
        axis = dataset.shape.index(20) if 20 in dataset.shape else 0
        stored = [dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())]
        return [(s.chunk_offset[axis] // CHUNK, s.byte_offset, s.size) for s in stored]


def spoil(path, place, how=lambda old: old ^ 4):
    content = bytearray(path.read_bytes())
    content[place] = how(content[place])
    path.write_bytes(content)


def verify(*arguments):
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def in_a_fork(path):
    """As the process that looks at damage, with less to start and less time; HDF5 may not end."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = 1
        with suppress(Exception), os.fdopen(writer, "w") as stream:
            stream.write(json.dumps(damage_module._seen(str(path))))
            code = 0
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    return None if status else json.loads(said)


@pytest.fixture(autouse=True)
def forked(monkeypatch):
    """Damage is looked at in a fork: a process of its own begins with its imports each time."""
    monkeypatch.setattr(salvage_module, "look_at_damage", in_a_fork)


@pytest.fixture
def in_a_process(forked, monkeypatch):
    """Damage is looked at as users have it, in a process of its own."""
    monkeypatch.setattr(salvage_module, "look_at_damage", damage_module.look_at_damage)


def test_a_whole_file(out):
    run = verify(out)
    assert run.exit_code == 0
    assert f"{out} is whole: 20 instances of sweep, seed 7" in run.output
    assert verify(out, "--salvage").exit_code == 0
    assert list(out.parent.iterdir()) == [out]


def test_a_damaged_chunk_costs_its_instances(out, whole, in_a_process):
    number, place, size = chunks_of(out, "spill_rate")[3]
    spoil(out, place + size // 2)
    run = verify(out)
    first = number * CHUNK
    assert isinstance(run.exception, UserError)
    assert "is damaged, or was changed" in str(run.exception)
    assert str(run.exception).endswith(": --salvage keeps what is whole")
    lines = run.output.splitlines()
    assert f"spill_rate: damaged in instances {first}-{first + 3}" in lines
    assert "life_years: whole" in lines
    assert "dvth_histogram, summed over all instances: whole" in lines
    assert lines[-1] == "16 of 20 instances are whole"
    assert list(out.parent.iterdir()) == [out]

    kept = verify(out, "--salvage")
    assert kept.exit_code == 0, kept.output
    assert kept.output.endswith(f"mcage sweep --engine numba {shard_folder(out)} --out {out}\n")
    assert sorted(out.parent.iterdir()) == [Path(f"{out}.damaged"), shard_folder(out)]
    computer = Computer()
    run_campaign(Study(CAMPAIGN, computer), out, 100)
    assert computer.ranges == [(first, first + 4)]
    assert out.read_bytes() == whole.read_bytes()


def test_a_truncated_file_keeps_its_first_chunks(out, whole, in_a_process):
    """All but instances lies at the beginning, the sums included."""
    places = {
        place + size
        for name in ("epoch_max_dvth_mv", "spill_rate")
        for number, place, size in chunks_of(out, name)
        if number < 2
    }
    out.write_bytes(out.read_bytes()[: max(places) + 3000])
    damage = damage_of(out)
    assert damage.sums_are_whole
    assert damage.whole[:2] == [range(4), range(4, 8)]
    assert len(damage.whole) < 5
    salvage(damage)
    computer = Computer()
    run_campaign(Study(CAMPAIGN, computer), out, 100)
    assert computer.ranges == [(4 * len(damage.whole), 20)]
    assert out.read_bytes() == whole.read_bytes()


def test_whatever_is_damaged(whole, tmp_path):
    """Bits, bytes and sectors anywhere: what is kept is right, and the end is the same file."""
    moments = random.Random(2)
    good = whole.read_bytes()
    expected = fake_campaign.compute(0, 20)
    kept = 0
    for number in range(12):
        out = tmp_path / f"{number}.h5"
        content = bytearray(good)
        for _ in range(moments.choice([1, 1, 3])):
            place = moments.randrange(len(content))
            kind = moments.choice(["bit", "byte", "zeros", "cut", "noise"])
            if kind == "bit":
                content[place] ^= 1 << moments.randrange(8)
            elif kind == "byte":
                content[place] = moments.randrange(256)
            elif kind == "zeros":
                content[place : place + 512] = bytes(len(content[place : place + 512]))
            elif kind == "noise":
                content[place : place + 64] = moments.randbytes(len(content[place : place + 64]))
            else:
                del content[max(place, 1000) :]
        if content == good:
            continue
        out.write_bytes(content)
        damage = damage_of(out)
        if not damage.whole:
            with pytest.raises(UserError, match="nothing of it can be kept"):
                salvage(damage)
            continue
        kept += 1
        salvage(damage)
        for path in shard_folder(out).glob("*.h5"):
            arrays = read_shard(path, ["life_years", "max_dvth_mv"])
            first, last = (int(part) for part in path.stem.split("-")[1:])
            assert np.array_equal(arrays["life_years"], expected["life_years"][:, first : last + 1])
        run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 7)
        assert out.read_bytes() == good
        assert not shard_folder(out).exists()
    assert kept > 2


def test_damaged_sums_keep_nothing(out):
    (_, place, size), *_ = chunks_of(out, "dvth_histogram")
    content = bytearray(out.read_bytes())
    content[place : place + size] = bytes(size)  # zeros have the checksum zero
    out.write_bytes(content)
    run = verify(out)
    assert "dvth_histogram, summed over all instances: damaged; nothing can be kept" in run.output
    assert "0 of 20 instances are whole" in run.output
    assert "--salvage" not in str(run.exception)
    assert "nothing of it can be kept" in str(verify(out, "--salvage").exception)
    assert list(out.parent.iterdir()) == [out]


def test_more_instances_than_the_damaged_file_had(out, tmp_path):
    """No shard crosses the border of the instances whose sums are known."""
    number, place, size = chunks_of(out, "spill_rate")[-1]
    assert number == 4
    spoil(out, place + size // 2)
    salvage(damage_of(out))
    computer = Computer()
    run_campaign(Study(MORE, computer), out, 100)
    assert computer.ranges == [(16, 20), (20, 30)]
    whole = run_campaign(Study(MORE, fake_campaign.compute), tmp_path / "whole.h5", 100)
    assert out.read_bytes() == whole.read_bytes()


def test_sums_are_not_divided(out, tmp_path):
    _, place, size = chunks_of(out, "spill_rate")[3]
    spoil(out, place + size // 2)
    salvage(damage_of(out))
    with pytest.raises(UserError, match="are in the sums of the salvaged shards, and are missing"):
        merge(out, partial=True)
    more = tmp_path / "s"
    more.mkdir()
    write_shard(more, MORE, range(18, 22), fake_campaign.compute(18, 22))
    with pytest.raises(UserError, match=r"overlap|within and outside of the sums"):
        merge(out, [more])


def test_a_file_that_a_stopping_rule_has_ended(tmp_path):
    study = fake_campaign.campaign(instances=900, stopping=StoppingRule(0.5, "spill_rate"))
    with chunks_of_length(100):
        out = run_campaign(Study(study, fake_campaign.compute), tmp_path / "r.h5", 1000)
        good = out.read_bytes()
        spoil(out, len(good) - 5000)
        damage = damage_of(out)
        assert damage.whole == [range(a, a + 100) for a in (0, 100, 200, 300)]
        salvage(damage)
        run_campaign(Study(study, fake_campaign.compute), out, 1000)
    assert out.read_bytes() == good


def test_a_study_of_a_user(tmp_path):
    study = darts.pi_by_darts(20)
    out = run_campaign(study, tmp_path / "pi.h5", 25)
    good = out.read_bytes()
    for number, place, size in chunks_of(out, "pi"):
        if number == 1:
            spoil(out, place + size - 1)
    run = verify(out, "--salvage")
    assert "instances 0-3, 8-19 are in" in run.output
    run_campaign(study, out, 25)
    assert out.read_bytes() == good


def test_another_file_of_that_name_stays(out):
    spoil(out, len(out.read_bytes()) - 3)
    aside = Path(f"{out}.damaged")
    aside.write_text("my notes")
    assert "is there already" in str(verify(out, "--salvage").exception)
    assert aside.read_text() == "my notes"
    assert out.exists()


def test_folders_and_shards(out, tmp_path):
    folder = tmp_path / "x.h5.shards"
    folder.mkdir()
    paths = [
        write_shard(folder, CAMPAIGN, range(a, b), fake_campaign.compute(a, b))
        for a, b in ((0, 3), (3, 8), (12, 20))
    ]
    run = verify(folder)
    assert run.exit_code == 0
    assert "16 of 20 instances are in 3 whole shards (0-7, 12-19)" in run.output
    assert "is whole: a shard of sweep" in verify(paths[0]).output
    spoil(paths[1], 3000)
    run = verify(folder)
    assert "11 of 20 instances are in 2 whole shards (0-2, 12-19)" in run.output
    assert "1 shards are damaged: the same command computes them again" in str(run.exception)
    assert "is damaged" in str(verify(paths[1]).exception)


@pytest.mark.parametrize("content", [b"", b"my notes", b"\x89HDF\r\n\x1a\n" + bytes(400)])
def test_what_is_no_results_file(content, tmp_path, in_a_process):
    path = tmp_path / "r.h5"
    path.write_bytes(content)
    run = verify(path, "--salvage")
    assert isinstance(run.exception, UserError)
    assert "header: damaged; nothing can be kept without it" in run.output
    assert path.read_bytes() == content
