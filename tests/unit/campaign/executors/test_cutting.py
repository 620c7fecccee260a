"""Are shards cut so that they take some seconds, and is every instance in exactly one?"""

from dataclasses import replace

import darts
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcage.campaign.executors import cutting as cutting_module
from mcage.campaign.executors.cutting import GROWTH, SECONDS, Cutting, bytes_of_instance
from mcage.campaign.executors.executor import MadeShard
from mcage.campaign.shards import unfinished
from mcage.campaign.study import ShardTask

MANY = 10**6


def study(instances=MANY, batch=1):
    return replace(darts.pi_by_darts(instances), batch=batch)


def played(cutting, missing, seconds):
    """Shards of a campaign, each finished before the next is cut, after some seconds by size."""
    shards = []
    for shard in cutting.cut(missing):
        shards.append(shard)
        task = ShardTask(None, "", None, shard.start, shard.stop)
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
