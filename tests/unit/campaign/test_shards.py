"""Are ranges of instances named and counted as they should?"""

from mcage.campaign.shards import in_words, unfinished


def test_words_name_both_ends():
    assert in_words(range(3, 8)) == "3-7"
    assert in_words(range(3, 4)) == "3"


def test_shards_behind_the_last_instance_do_not_count():
    assert unfinished(5, [range(2), range(7, 9)]) == [range(2, 5)]
    assert unfinished(5, [range(2), range(2, 5), range(8, 9)]) == []
