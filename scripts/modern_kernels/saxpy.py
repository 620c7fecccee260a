"""y = a x + y on 57,344 floats: x and y are normal(0, 1), a is 2.5."""

import numpy as np

TITLE = "saxpy, f32, a grid-stride loop"
GRID = (32, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-7
COUNT = 57_344


def arguments(random: np.random.Generator) -> dict:
    return {
        "x": random.standard_normal(COUNT, dtype=np.float32),
        "y": random.standard_normal(COUNT, dtype=np.float32),
        "a": 2.5,
        "n": COUNT,
        "stride": GRID[0] * BLOCK[0],
    }


def expected(x, y, a, n, stride) -> dict[str, np.ndarray]:
    return {"y": a * x.astype(float) + y}
