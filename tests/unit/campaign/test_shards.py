"""Are ranges of instances named and counted as they should?"""

import math
from dataclasses import replace

import darts
import pytest
from campaign_cases import Listener
from command_line import from_json, invoke
from hypothesis import given
from hypothesis import strategies as st
from tables import each

from mcage.campaign import executors as cutting_module
from mcage.campaign.executors import GROWTH, SECONDS, Cutting, MadeShard, bytes_of_instance
from mcage.campaign.merge import merge
from mcage.campaign.run import Part, run_campaign
from mcage.campaign.shards import locked, shard_folder, shard_name, unfinished, write_shard
from mcage.campaign.study import ShardTask
from mcage.errors import UserError
from mcage.results.reader import open_results, read_header


def test_shards_behind_the_last_instance_do_not_count():
    assert unfinished(5, [range(2), range(7, 9)]) == [range(2, 5)]
    assert unfinished(5, [range(2), range(2, 5), range(8, 9)]) == []


# Are shards cut so that they take some seconds, and is every instance in exactly one?

MANY = 10**6


def study(instances=MANY, batch=1):
    return replace(darts.pi_by_darts(instances), batch=batch)


def played(cutting, missing, seconds):
    """Shards of a campaign, each finished before the next is cut, after some seconds by size."""
    shards = []
    for shard in cutting.cut(missing):
        shards.append(shard)
        task = ShardTask(None, "", None, shard)
        cutting.learn(MadeShard(task, seconds(len(shard))))
    return shards


@given(
    instances=st.integers(1, 200),
    size=st.one_of(st.none(), st.integers(1, 250)),
    batch=st.integers(1, 40),
    workers=st.integers(1, 5),
    cuts=st.data(),
)
def test_every_instance_is_in_one_shard(instances, size, batch, workers, cuts):
    borders = sorted(cuts.draw(st.sets(st.integers(0, instances), max_size=12)))
    finished = [range(a, b) for a, b in zip(borders[::2], borders[1::2], strict=False)]
    cutting = Cutting(study(instances, batch), workers, size)
    planned = played(cutting, unfinished(instances, finished), lambda n: 1e-3 * n)
    covered = sorted(i for part in [*finished, *planned] for i in part)
    assert covered == list(range(instances))
    assert all(0 < len(part) <= (size or instances) for part in planned)


def test_the_first_is_a_batch_and_the_rest_take_some_seconds():
    cutting = Cutting(study(batch=16), 1)
    sizes = [len(shard) for shard in played(cutting, [range(MANY)], lambda n: 1e-3 * n)]
    assert sizes[:3] == [16, 16 * GROWTH, 16 * GROWTH**2]
    usual = round(SECONDS / 1e-3)
    assert all(usual - 16 <= size <= usual for size in sizes[4:-1])
    assert all(size % 16 == 0 for size in sizes[:-1])


def test_time_to_compile_is_forgotten():
    """The first shard takes a minute longer than its instances."""
    cutting = Cutting(study(), 1)
    begun = []
    sizes = [
        len(shard)
        for shard in played(
            cutting, [range(MANY)], lambda n: 1e-3 * n + (0 if begun else begun.append(n) or 60)
        )
    ]
    assert sizes[:4] == [1, 1, GROWTH, GROWTH**2]


def test_all_workers_have_something_to_do_at_the_end():
    cutting = Cutting(study(40_000), 8)
    sizes = [len(shard) for shard in played(cutting, [range(40_000)], lambda n: 1e-3 * n)]
    assert max(sizes) <= 4000
    assert sorted(sizes[-8:], reverse=True) == sizes[-8:]
    assert sizes[-1] == 1
    assert len(sizes) < 100


def test_a_shard_fits_into_memory(monkeypatch):
    monkeypatch.setattr(cutting_module, "MOST_BYTES", 8 * 100)
    assert bytes_of_instance(study().header) == 8
    cutting = Cutting(study(), 1)
    assert max(map(len, played(cutting, [range(5000)], lambda n: 1e-9 * n))) == 100


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_clocks_that_stand_still_or_run_away(seconds):
    shards = played(Cutting(study(), 3), [range(5000)], lambda _: seconds)
    assert sum(map(len, shards)) == 5000


# Do parts that are computed side by side make the file of one run, each instance once?

INSTANCES = 60
STUDY = darts.pi_by_darts(INSTANCES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run_campaign(STUDY, tmp_path_factory.mktemp("whole") / "pi.h5", 25)


@pytest.fixture(scope="module")
def whole(finished):
    return finished.read_bytes()


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
        folder = run_campaign(STUDY, out, 4, listener, part=Part(number, 4))
        assert (listener.begin, listener.advanced) == ((15, 0), 15)
        assert "mcage merge" in listener.said[-1]
        assert not out.exists()
        if number != 2:
            with pytest.raises(UserError, match="instances are missing"):
                merge(out)
    assert folder == shard_folder(out)
    assert merge(out).read_bytes() == whole
    assert list(tmp_path.iterdir()) == [out]


def test_a_part_takes_what_others_have_left(whole, tmp_path):
    out, listener = tmp_path / "pi.h5", Listener()
    run_campaign(STUDY, out, 7, part=Part(1, 2))  # its shards end at 28 and 30
    run_campaign(STUDY, out, 4, listener, part=Part(2, 3))  # 20 ... 39
    assert listener.begin == (20, 10)
    run_campaign(STUDY, out, part=Part(3, 3))
    assert merge(out).read_bytes() == whole


def test_a_finished_campaign_has_no_parts(whole, tmp_path):
    out, listener = tmp_path / "pi.h5", Listener()
    out.write_bytes(whole)
    assert run_campaign(STUDY, out, progress=listener, part=Part(1, 3)) == out
    assert "nothing to compute" in listener.said[0]
    assert list(tmp_path.iterdir()) == [out]


def test_a_finished_file_gets_more_instances_in_parts(whole, tmp_path):
    out, more = tmp_path / "pi.h5", darts.pi_by_darts(100)
    out.write_bytes(whole)
    listener = Listener()
    run_campaign(more, out, None, listener, part=Part(1, 2))
    assert listener.begin == (50, 50)
    run_campaign(more, out, None, listener, part=Part(2, 2))
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
            run_campaign(STUDY, out, part=part)
        run_campaign(STUDY, out, part=Part(1, 4))
        with pytest.raises(UserError, match="another mcage is working on"):
            merge(out)


def test_no_part_beside_a_whole_campaign(tmp_path):
    with (
        locked(shard_folder(tmp_path / "pi.h5")),
        pytest.raises(UserError, match="another mcage is working on"),
    ):
        run_campaign(STUDY, tmp_path / "pi.h5", part=Part(1, 4))


def test_a_part_does_not_know_when_a_rule_ends_its_campaign(tmp_path):
    with pytest.raises(UserError, match="--part 1/4: only a campaign with all of its instances"):
        run_campaign(darts.pi_by_darts(5000, rel_ci=0.01), tmp_path / "pi.h5", part=Part(1, 4))
    assert not list(tmp_path.iterdir())


def test_more_parts_than_instances(tmp_path):
    with pytest.raises(UserError, match="--part 1/61: 60 instances make no 61 parts"):
        run_campaign(STUDY, tmp_path / "pi.h5", part=Part(1, 61))


def test_a_damaged_shard_of_another_part_is_no_business_of_this_one(whole, tmp_path):
    out = tmp_path / "pi.h5"
    folder = run_campaign(STUDY, out, 30, part=Part(1, 2))
    victim = folder / shard_name(STUDY.header.spec_digest, range(30))
    victim.write_bytes(victim.read_bytes()[:-100])
    listener = Listener()
    run_campaign(STUDY, out, None, listener, part=Part(2, 2))
    assert not any("warning" in line for line in listener.said)
    run_campaign(STUDY, out, None, listener, part=Part(1, 2))
    assert sum("warning" in line for line in listener.said) == 1
    assert merge(out).read_bytes() == whole


def test_what_a_killed_part_has_left_is_taken_by_that_part_alone(whole, tmp_path):
    out, listener = tmp_path / "pi.h5", Listener()
    bench = shard_folder(out) / "bench-000000015-000000029-0123abcd"
    bench.mkdir(parents=True)
    write_shard(bench, STUDY.header, range(15, 20), STUDY.compute(15, 20))
    run_campaign(STUDY, out, part=Part(1, 4))
    assert bench.exists()
    run_campaign(STUDY, out, None, listener, part=Part(2, 4))
    assert listener.begin == (15, 5)
    assert not bench.exists()
    run_campaign(STUDY, out)
    assert out.read_bytes() == whole


# Does a study that knows no register run as a campaign, by what sweeps run by?


def test_it_estimates_pi(finished):
    with open_results(finished) as results:
        assert results["pi"].dims == ("instance",)
        assert results["pi"].mean().item() == pytest.approx(math.pi, abs=0.03)
        hits = results["hits"]
        assert list(hits["quadrant"].values) == ["I", "II", "III", "IV"]
        assert hits.sum() == (results["pi"] * 250).sum()
        assert results.attrs["study"] == "pi by darts"
    assert read_header(finished) == darts.pi_by_darts(INSTANCES).header


def test_it_stops_when_pi_is_known(tmp_path):
    study = darts.pi_by_darts(5000, darts=100, rel_ci=0.0037)
    listener = Listener()
    out = run_campaign(study, tmp_path / "pi.h5", 400, listener)
    values = study.compute(0, 5000)["pi"]
    expected = next(
        n
        for n in (500, 630, 800, 1000, 1250, 1600, 2000)
        if 1.9623 * values[:n].std(ddof=1) / math.sqrt(n) / values[:n].mean() <= 0.0037
    )
    assert 500 < expected < 2000
    assert read_header(out).instances == expected
    stopped = read_header(out).stopped
    assert stopped.startswith(
        f"pi to ±0.37 % with {expected} of at most 5000 instances; worst: 3.1"
    )
    assert listener.said[-1] == stopped
    assert stopped in invoke("show", out).output


def test_mcage_shows_its_file(finished):
    table = invoke("show", finished)
    assert table.exit_code == 0
    assert "pi by darts" in table.output
    with open_results(finished) as results:
        values = results["pi"].values
    (summary,) = from_json("show", finished)
    assert summary["variable"] == "pi"
    assert summary["instances"] == INSTANCES
    assert summary["mean"]["value"] == pytest.approx(values.mean())
    half = 2.001 * values.std(ddof=1) / math.sqrt(INSTANCES)
    assert summary["mean"]["upper"] == pytest.approx(values.mean() + half, rel=1e-4)


@pytest.mark.parametrize("option", [["--causes"], ["--compare", "a", "b"], ["--fit"]])
def test_tables_of_sweeps_are_refused(finished, option):
    with pytest.raises(UserError, match=rf"{option[0]} is for sweeps; .* holds .*pi by darts"):
        invoke("show", finished, *option, catch_exceptions=False)


def test_a_task_that_would_compute_something_else_is_refused(tmp_path):
    study = darts.pi_by_darts(INSTANCES)
    stranger = ShardTask(study.header, f"{__name__}:something_else", tmp_path, range(5))
    with pytest.raises(UserError, match="is another one in this process"):
        stranger.run()


def something_else(_):
    return darts.pi_by_darts(INSTANCES, darts=3)


@each(
    ("fields", "message"),
    [
        ({"name": "sweep"}, "is not the name of this study"),
        ({"computes": ()}, "needs variables"),
        ({"computes": darts.VARIABLES * 2}, "a name of its own"),
        ({"labels": ()}, "hits: no coordinate for quadrant"),
        ({"computes": darts.VARIABLES[1:]}, "needs a variable with the dimension instance"),
        ({"instances": 0}, "needs an instance"),
    ],
)
def test_a_study_that_no_file_can_hold_is_refused(fields, message):
    header = darts.pi_by_darts(INSTANCES).header
    with pytest.raises(ValueError, match=message):
        replace(header, **fields)
