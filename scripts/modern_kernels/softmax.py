"""Softmax of 32 rows of 2,000 logits, which are normal(0, 2), rounded to bfloat16, as the layer
before stores them.
"""

import numpy as np

TITLE = "softmax, f32, a row a work-group"
ROWS, COLUMNS = 32, 2000
GRID = (ROWS, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    logits = bfloat16(random.normal(0, 2, (ROWS, COLUMNS)))
    return {"input": logits, "output": np.zeros_like(logits), "columns": COLUMNS}


def expected(input, output, columns) -> dict[str, np.ndarray]:
    weight = np.exp(input.astype(float) - input.max(axis=1, keepdims=True))
    return {"output": weight / weight.sum(axis=1, keepdims=True)}
