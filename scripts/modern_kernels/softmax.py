"""Softmax of 128 rows of 2,000 logits, which are normal(0, 2)."""

import numpy as np

TITLE = "softmax, f32, a row a work-group"
ROWS, COLUMNS = 128, 2000
GRID = (ROWS, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def arguments(random: np.random.Generator) -> dict:
    logits = random.normal(0, 2, (ROWS, COLUMNS)).astype(np.float32)
    return {"input": logits, "output": np.zeros_like(logits), "columns": COLUMNS}


def expected(input, output, columns) -> dict[str, np.ndarray]:
    weight = np.exp(input.astype(float) - input.max(axis=1, keepdims=True))
    return {"output": weight / weight.sum(axis=1, keepdims=True)}
