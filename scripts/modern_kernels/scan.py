"""Inclusive sums along 32 rows of 4,096 counts (of particles in cells, tokens of experts), which
follow a Poisson distribution of mean 3.
"""

import numpy as np

TITLE = "inclusive scan of rows, int32"
ROWS, COLUMNS = 32, 4096
GRID = (ROWS, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 0


def arguments(random: np.random.Generator) -> dict:
    counts = random.poisson(3, (ROWS, COLUMNS)).astype(np.int32)
    return {"input": counts, "output": np.zeros_like(counts), "quads": COLUMNS // 4}


def expected(input, output, quads) -> dict[str, np.ndarray]:
    return {"output": np.cumsum(input, axis=1, dtype=np.int32)}
