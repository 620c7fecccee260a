"""Is every instance planned exactly once, whatever was finished before?"""

from hypothesis import given
from hypothesis import strategies as st

from mcage.campaign.shards import in_words, shards, unfinished


@given(instances=st.integers(1, 200), size=st.integers(1, 250), cuts=st.data())
def test_finished_and_planned_shards_cover_every_instance_once(instances, size, cuts):
    borders = sorted(cuts.draw(st.sets(st.integers(0, instances), max_size=12)))
    finished = [range(a, b) for a, b in zip(borders[::2], borders[1::2], strict=False)]
    planned = [part for gap in unfinished(instances, finished) for part in shards(gap, size)]
    covered = sorted(i for part in [*finished, *planned] for i in part)
    assert covered == list(range(instances))
    assert all(0 < len(part) <= size for part in planned)


def test_words_name_both_ends():
    assert in_words(range(3, 8)) == "3-7"
    assert in_words(range(3, 4)) == "3"


def test_shards_behind_the_last_instance_do_not_count():
    assert unfinished(5, [range(2), range(7, 9)]) == [range(2, 5)]
    assert unfinished(5, [range(2), range(2, 5), range(8, 9)]) == []
