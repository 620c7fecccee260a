"""y = a x + y on 600 of 640 floats, by work-groups of 16 x 4."""

import numpy as np

GRID = (2, 5)
BLOCK = (16, 4)
TOLERANCE = 2e-7


def arguments(random):
    return {
        "x": random.standard_normal(640, dtype=np.float32),
        "y": random.standard_normal(640, dtype=np.float32),
        "a": 2.5,
        "n": 600,
        "width": 32,
    }


def expected(x, y, a, n, width):
    return {"y": np.where(np.arange(len(y)) < n, a * x.astype(float) + y, y)}
