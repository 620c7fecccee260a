"""Does a finished file get more instances without computing those that it holds?"""

import darts
import fake_campaign
import pytest
from campaign_cases import Computer, Listener, refused

from mcage.campaign import run
from mcage.campaign.merge import merge
from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import LOCK_NAME, shard_folder
from mcage.campaign.shards import write_shard
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.gpu.both.spec import BothSpec
from mcage.gpu.gating.spec import GatingSpec
from mcage.gpu.heterogeneity.spec import HeterogeneitySpec
from mcage.results import writer
from mcage.results.writer import write_results
from mcage.spec import SweepSpec

FEW = fake_campaign.campaign(instances=8, spec_toml="instances = 8\n")
MANY = fake_campaign.campaign(instances=20, spec_toml="instances = 20\n")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "r.h5"
    return run_campaign(Study(MANY, fake_campaign.compute), out, 20).read_bytes()


@pytest.fixture
def few(tmp_path):
    return run_campaign(Study(FEW, fake_campaign.compute), tmp_path / "r.h5", 20)


def folder_of(out):
    folder = shard_folder(out)
    folder.mkdir()
    (folder / LOCK_NAME).touch()
    return folder


def test_only_what_is_new_is_computed(few, whole):
    computer, listener = Computer(), Listener()
    assert run_campaign(Study(MANY, computer), few, 7, listener) == few
    assert computer.ranges == [(8, 15), (15, 20)]
    assert listener.begin == (20, 8)
    assert listener.said[0] == f"continuing: 8 of 20 instances are in {few}"
    assert few.read_bytes() == whole
    assert list(few.parent.iterdir()) == [few]


@pytest.mark.parametrize("chunk", [1, 3, 5])
def test_chunk_by_chunk(chunk, few, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "INSTANCES_PER_CHUNK", chunk)
    monkeypatch.setattr("mcage.campaign.sources.files.INSTANCES_PER_CHUNK", chunk)
    whole = run_campaign(Study(MANY, fake_campaign.compute), tmp_path / "whole.h5", 20)
    run_campaign(Study(MANY, fake_campaign.compute), few, 7)
    assert few.read_bytes() == whole.read_bytes()


def test_a_stopped_one_leaves_the_old_file_and_continues(few, whole):
    old = few.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        run_campaign(Study(MANY, Computer(stop_after=2)), few, 3)
    assert few.read_bytes() == old
    computer, listener = Computer(), Listener()
    run_campaign(Study(MANY, computer), few, 100, listener)
    assert computer.ranges == [(14, 20)]
    assert listener.said[0].endswith(f"are in {few} and {shard_folder(few)}")
    assert few.read_bytes() == whole


def test_killed_between_the_new_file_and_the_removal_of_its_shards(few, whole, monkeypatch):
    monkeypatch.setattr(run, "remove_shards", lambda *_: None)
    run_campaign(Study(MANY, fake_campaign.compute), few, 7)
    monkeypatch.undo()
    assert len(list(shard_folder(few).glob("*.h5"))) == 2
    computer, listener = Computer(), Listener()
    run_campaign(Study(MANY, computer), few, 7, listener)
    assert computer.ranges == []
    assert "nothing to compute" in listener.said[0]
    assert few.read_bytes() == whole
    assert list(few.parent.iterdir()) == [few]


def test_leftover_shards_that_say_something_else_are_refused(few):
    folder = folder_of(few)
    arrays = fake_campaign.compute(3, 6)
    arrays["spill_rate"] = arrays["spill_rate"] / 2
    write_shard(folder, MANY, range(3, 6), arrays)
    refused(few, r"r\.h5 and .* hold different spill_rate of the same instances .3-5.", MANY)


def test_shards_that_overlap_the_file_are_refused(few):
    folder = folder_of(few)
    write_shard(folder, MANY, range(6, 11), fake_campaign.compute(6, 11))
    refused(few, "overlap .instances 0-7 and 6-10", MANY)


def test_fewer_instances_than_the_file_holds_are_refused(few, whole):
    few.write_bytes(whole)
    refused(few, r"holds instances up to 19, and this campaign ends with 8 of them: .* --out", FEW)


def test_fewer_instances_than_the_shards_hold_are_refused(tmp_path):
    out = tmp_path / "r.h5"
    with pytest.raises(KeyboardInterrupt):
        run_campaign(Study(MANY, Computer(stop_after=1)), out, 12)
    refused(out, "holds instances up to 11, and this campaign ends with 8", FEW)


def test_a_stopped_campaign_may_be_asked_for_more(tmp_path, whole):
    out = tmp_path / "r.h5"
    with pytest.raises(KeyboardInterrupt):
        run_campaign(Study(FEW, Computer(stop_after=2)), out, 3)
    computer = Computer()
    run_campaign(Study(MANY, computer), out, 20)
    assert computer.ranges == [(6, 20)]
    assert out.read_bytes() == whole


def test_a_file_that_appears_meanwhile_is_not_replaced(few, monkeypatch):
    other = fake_campaign.campaign(instances=3, spec_digest="fedcba98" * 8)
    another = run_campaign(Study(other, fake_campaign.compute), few.with_name("other.h5"), 20)

    def appear():
        few.write_bytes(another.read_bytes())

    def computing(first, last):
        appear()
        return fake_campaign.compute(first, last)

    def writing(*arguments):
        appear()
        return write_results(*arguments)

    old = few.read_bytes()
    with pytest.raises(UserError, match="is not the file that was there before"):
        run_campaign(Study(MANY, computing), few, 20)
    assert few.read_bytes() == another.read_bytes()
    few.write_bytes(old)
    monkeypatch.setattr("mcage.campaign.merge.write_results", writing)
    with pytest.raises(UserError, match="is not the file that was there before, and is not repl"):
        run_campaign(Study(MANY, fake_campaign.compute), few, 20)
    assert few.read_bytes() == another.read_bytes()


def test_merging_adds_to_the_file_what_is_in_shards(few, whole):
    folder = folder_of(few)
    write_shard(folder, MANY, range(8, 20), fake_campaign.compute(8, 20))
    assert merge(few) == few
    assert few.read_bytes() == whole
    assert list(few.parent.iterdir()) == [few]


def test_a_study_of_a_user(tmp_path):
    out = run_campaign(darts.pi_by_darts(40), tmp_path / "pi.h5", 25)
    run_campaign(darts.pi_by_darts(60), out, 25)
    whole = run_campaign(darts.pi_by_darts(60), tmp_path / "whole.h5", 25)
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("kind", [SweepSpec, GatingSpec, HeterogeneitySpec, BothSpec])
def test_the_digest_says_what_decides_an_instance(kind):
    def digest(**fields):
        return kind.from_mapping(fields).digest("more")

    plain = digest()
    assert digest(instances=77) == plain
    assert digest(instances=77, stopping={"rel_ci": 0.05}) == plain
    assert digest(seed=77) != plain
    assert kind.from_mapping({}).digest("other") != plain


def test_the_digest_of_both_levels_forgets_what_both_repeat():
    given = {"gating": {"instances": 77}, "sweep": {"instances": 77}}
    assert BothSpec.from_mapping({"instances": 77} | given).digest() == BothSpec().digest()
