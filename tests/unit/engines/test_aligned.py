"""Tables of the Numba engine begin where a cache line does."""

import numpy as np
from tables import each

from mcage.engines.numba_engine.simd import LINE, aligned_join, aligned_zeros


@each("rows", [1, 3, 100_000])
@each("kind", [np.uint32, np.int64])
def test_arrays_are_zeros_that_begin_with_a_line(rows, kind):
    array = aligned_zeros((rows, 16), kind)
    assert array.ctypes.data % LINE == 0
    assert array.flags.c_contiguous
    assert (array.shape, array.dtype) == ((rows, 16), np.dtype(kind))
    assert not array.any()


def test_joined_arrays_are_aligned_too():
    parts = [np.arange(6, dtype=np.uint64).reshape(3, 2), np.ones((1, 2), dtype=np.uint64)]
    joined = aligned_join(parts)
    assert np.array_equal(joined, np.concatenate(parts))
    assert joined.dtype == np.uint64
    assert joined.ctypes.data % LINE == 0
