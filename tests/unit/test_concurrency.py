"""Memory that threads use again."""

from mcage.concurrency import Pool


def test_a_pool_gives_memory_again_that_is_large_enough():
    made = []

    def make(size):
        made.append(size)
        return [0] * size

    pool = Pool(make, len)
    small = pool.take(3)
    other = pool.take(3)
    assert small is not other, "both are in use"
    pool.give_back(small)
    assert pool.take(2) is small
    pool.give_back(small)
    assert len(pool.take(5)) == 5
    assert made == [3, 3, 5]
