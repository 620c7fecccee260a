"""Cross attention as in image diffusion: 256 positions of an image (16 x 16) look at the 8 tokens
of a short text, 8 heads of dimension 64. Queries and keys are normal(0, 1), values normal(0, 0.5).
"""

import numpy as np

TITLE = "flash attention forward, f32, one query row a work-item"
QUERIES, KEYS, HEADS, DIMENSION = 256, 8, 8, 64
GRID = (QUERIES // 128, HEADS, 1)
BLOCK = (128, 1, 1)
TOLERANCE = 5e-6


def arguments(random: np.random.Generator) -> dict:
    shape = (HEADS, KEYS, DIMENSION)
    query = random.standard_normal((HEADS, QUERIES, DIMENSION), dtype=np.float32)
    return {
        "query": query,
        "key": random.standard_normal(shape, dtype=np.float32),
        "value": random.normal(0, 0.5, shape).astype(np.float32),
        "output": np.zeros_like(query),
        "scale": DIMENSION**-0.5,
        "queries": QUERIES,
        "keys": KEYS,
    }


def expected(query, key, value, output, scale, queries, keys) -> dict[str, np.ndarray]:
    score = query.astype(float) @ key.astype(float).swapaxes(1, 2) * scale
    weight = np.exp(score - score.max(axis=2, keepdims=True))
    return {"output": weight @ value / weight.sum(axis=2, keepdims=True)}
