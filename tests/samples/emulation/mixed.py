"""Sums of functions of 192 halves by each work-group, and a histogram of some of them."""

import numpy as np

GRID = (2,)
BLOCK = (64,)
TOLERANCE = 0


def arguments(random):
    return {
        "values": random.standard_normal(384).astype(np.float16),
        "counts": np.zeros(32, np.int32),
        "part": 256,
        "n": 192,
    }


def expected(values, counts, part, n):
    value = values.astype(float).reshape(2, n)
    counts = np.zeros(32, int)
    counts[:16] = np.bincount((value[:, 128:] * 16).astype(int).reshape(-1) & 15, minlength=16)
    counts[16:18] = (2**value / (1 + value**2)).sum(axis=1)
    return {"counts": counts}
