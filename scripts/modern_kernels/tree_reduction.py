"""The sum of squares of 131,072 gradients, as for clipping their norm: normal(0, 0.001), rounded
to bfloat16, as training stores them.
"""

import numpy as np

TITLE = "reduction, f32: a sum of squares, the last work-group adds the parts"
COUNT = 131_072
GRID = (32, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    return {
        "gradient": bfloat16(random.normal(0, 1e-3, COUNT)),
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
