"""The sum of squares of 524,288 gradients, as for clipping their norm: normal(0, 0.001)."""

import numpy as np

TITLE = "reduction, f32: a sum of squares, the last work-group adds the parts"
COUNT = 524_288
GRID = (64, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def arguments(random: np.random.Generator) -> dict:
    return {
        "gradient": random.normal(0, 1e-3, COUNT).astype(np.float32),
        "parts": np.zeros(GRID[0], np.float32),
        "done": np.zeros(1, np.uint32),
        "output": np.zeros(1, np.float32),
        "quads": COUNT // 4,
        "groups": GRID[0],
    }


def expected(gradient, parts, done, output, quads, groups) -> dict[str, np.ndarray]:
    square = gradient.astype(float) ** 2
    by_group = square.reshape(-1, groups, 4 * BLOCK[0]).sum(axis=(0, 2))
    return {
        "parts": by_group,
        "done": done + np.uint32(groups),
        "output": by_group.sum(keepdims=True),
    }
