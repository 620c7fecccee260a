"""Values that threads share: made once, side by side, and gone with their keys."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcage.concurrency import Memo, in_background


class Key:
    pass


def test_values_of_several_keys_are_made_side_by_side():
    together = threading.Barrier(2, timeout=10)
    memo = Memo(lambda key: (together.wait(), object())[1])
    keys = Key(), Key()
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(memo.of, (*keys, *keys)))
    assert made[0] is made[2] is memo.of(keys[0])
    assert made[1] is made[3] is not made[0]


def test_a_value_goes_with_its_key():
    class Value:
        pass

    memo, key = Memo(lambda key: Value()), Key()
    value, gone = weakref.ref(memo.of(key)), weakref.ref(key)
    assert value() is memo.of(key)
    del key
    gc.collect()
    assert gone() is None
    assert value() is None


def test_an_error_meets_whoever_asks():
    """What makes it is asked again: the error may have passed."""
    failures, done = [ValueError("first"), ValueError("second")], threading.Event()

    def make(key):
        try:
            if failures:
                raise failures.pop(0)
            return 7
        finally:
            done.set()

    memo, key = Memo(make), Key()
    in_background([lambda: memo.of(key)])
    assert done.wait(10)
    with pytest.raises(ValueError, match="second"):
        memo.of(key)
    assert memo.of(key) == 7
