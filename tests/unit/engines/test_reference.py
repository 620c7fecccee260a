"""Does the reference engine tell apart cells that are overwritten or powered by other writes?"""

import numpy as np
import pytest

from mcage.engines.numpy_engine.cell_times import kinds_of_columns


@pytest.mark.parametrize("rows", [1, 8, 64, 65, 200])
def test_columns_are_of_a_kind_where_all_rows_are_equal(rows):
    """Also where rows beyond the first 64 alone differ."""
    draw = np.random.default_rng(rows)
    columns = draw.random((rows, 12))[:, draw.integers(12, size=300)] < 0.5
    columns[-1] ^= draw.random(300) < 0.5
    first, kind = kinds_of_columns(columns)
    _, meant_first, meant = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    assert sorted(first) == sorted(meant_first)
    assert np.array_equal(columns[:, first[kind]], columns)
    assert len(set(zip(kind.tolist(), meant.ravel().tolist(), strict=True))) == len(first)
