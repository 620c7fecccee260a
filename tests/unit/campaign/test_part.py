"""Do parts that are computed side by side make the file of one run, each instance once?"""

import darts
import pytest
from campaign_cases import Listener
from tables import each

from mcage.campaign.merge import merge
from mcage.campaign.part import Part, run_part
from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import locked, shard_folder
from mcage.campaign.shards import shard_name
from mcage.errors import UserError

INSTANCES = 60
STUDY = darts.pi_by_darts(INSTANCES)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "pi.h5"
    return run_campaign(STUDY, out, 25).read_bytes()


@pytest.mark.parametrize("count", [1, 3, 7, 60])
def test_parts_hold_each_instance_once(count):
    parts = [Part(number + 1, count).of(INSTANCES) for number in range(count)]
    assert [i for part in parts for i in part] == list(range(INSTANCES))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@each("text", ["", "3", "0/4", "5/4", "-1/4", "1/4/2", "a/b", "1 / 4", "²/4", "1/0", "1/4\n"])
def test_what_is_no_part(text):
    with pytest.raises(UserError, match=r"--part .*must be K/N"):
        Part.parse(text)


def test_parts_in_any_order_make_the_file_of_one_run(whole, tmp_path):
    out = tmp_path / "pi.h5"
    for number in (3, 1, 4, 2):
        listener = Listener()
        folder = run_part(STUDY, out, Part(number, 4), 4, listener)
        assert (listener.begin, listener.advanced) == ((15, 0), 15)
        assert "mcage merge" in listener.said[-1]
        assert not out.exists()
        if number != 2:
            with pytest.raises(UserError, match="instances are missing"):
                merge(out)
    assert folder == shard_folder(out)
    assert merge(out).read_bytes() == whole
    assert list(tmp_path.iterdir()) == [out]


def test_the_whole_campaign_takes_what_parts_have_left(whole, tmp_path):
    out, listener = tmp_path / "pi.h5", Listener()
    run_part(STUDY, out, Part(2, 3), 4)
    run_campaign(STUDY, out, 50, listener)
    assert listener.begin == (60, 20)
    assert out.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [out]


def test_a_part_takes_what_others_have_left(whole, tmp_path):
    out, listener = tmp_path / "pi.h5", Listener()
    run_part(STUDY, out, Part(1, 2), 7)  # its shards end at 28 and 30
    run_part(STUDY, out, Part(2, 3), 4, listener)  # 20 ... 39
    assert listener.begin == (20, 10)
    run_part(STUDY, out, Part(3, 3))
    assert merge(out).read_bytes() == whole


def test_a_finished_campaign_has_no_parts(whole, tmp_path):
    out, listener = tmp_path / "pi.h5", Listener()
    out.write_bytes(whole)
    assert run_part(STUDY, out, Part(1, 3), progress=listener) == out
    assert "nothing to compute" in listener.said[0]
    assert list(tmp_path.iterdir()) == [out]


def test_a_finished_file_gets_more_instances_in_parts(whole, tmp_path):
    out, more = tmp_path / "pi.h5", darts.pi_by_darts(100)
    out.write_bytes(whole)
    listener = Listener()
    run_part(more, out, Part(1, 2), None, listener)
    assert listener.begin == (50, 50)
    run_part(more, out, Part(2, 2), None, listener)
    assert listener.begin == (50, 10)
    merge(out)
    expected = run_campaign(more, tmp_path / "whole.h5")
    assert out.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Part(2, 4), "another mcage computes instances 15-29 in "),
        (Part(1, 2), "another mcage computes instances 15-29 in .*, some of 0-29"),
        (None, "another mcage is working on"),
    ],
)
def test_the_same_instances_are_not_computed_twice(part, words, tmp_path):
    out = tmp_path / "pi.h5"
    with locked(shard_folder(out), range(15, 30)):
        with pytest.raises(UserError, match=words):
            run_part(STUDY, out, part) if part else run_campaign(STUDY, out)
        run_part(STUDY, out, Part(1, 4))
        with pytest.raises(UserError, match="another mcage is working on"):
            merge(out)


def test_no_part_beside_a_whole_campaign(tmp_path):
    with (
        locked(shard_folder(tmp_path / "pi.h5")),
        pytest.raises(UserError, match="another mcage is working on"),
    ):
        run_part(STUDY, tmp_path / "pi.h5", Part(1, 4))


def test_a_part_does_not_know_when_a_rule_ends_its_campaign(tmp_path):
    with pytest.raises(UserError, match="--part 1/4: when a campaign may stop"):
        run_part(darts.pi_by_darts(5000, rel_ci=0.01), tmp_path / "pi.h5", Part(1, 4))
    assert not list(tmp_path.iterdir())


def test_more_parts_than_instances(tmp_path):
    with pytest.raises(UserError, match="--part 1/61: 60 instances make no 61 parts"):
        run_part(STUDY, tmp_path / "pi.h5", Part(1, 61))


def test_a_damaged_shard_of_another_part_is_no_business_of_this_one(whole, tmp_path):
    out = tmp_path / "pi.h5"
    folder = run_part(STUDY, out, Part(1, 2), 30)
    victim = folder / shard_name(STUDY.header.spec_digest, range(30))
    victim.write_bytes(victim.read_bytes()[:-100])
    listener = Listener()
    run_part(STUDY, out, Part(2, 2), None, listener)
    assert not any("warning" in line for line in listener.said)
    run_part(STUDY, out, Part(1, 2), None, listener)
    assert sum("warning" in line for line in listener.said) == 1
    assert merge(out).read_bytes() == whole
