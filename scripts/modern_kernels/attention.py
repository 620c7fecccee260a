"""Cross attention as in image diffusion: 256 positions of an image (16 x 16) look at the 8 tokens
of a short text, 4 heads of dimension 64. Queries and keys are normal(0, 1), values normal(0, 0.5),
all rounded to bfloat16, as such models store them.
"""

import numpy as np

TITLE = "flash attention forward, f32, one query row a work-item"
QUERIES, KEYS, HEADS, DIMENSION = 256, 8, 4, 64
GRID = (QUERIES // 128, HEADS, 1)
BLOCK = (128, 1, 1)
TOLERANCE = 5e-6


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    shape = (HEADS, KEYS, DIMENSION)
    query = bfloat16(random.standard_normal((HEADS, QUERIES, DIMENSION)))
    return {
        "query": query,
        "key": bfloat16(random.standard_normal(shape)),
        "value": bfloat16(random.normal(0, 0.5, shape)),
        "output": np.zeros_like(query),
        "scale": DIMENSION**-0.5,
        "queries": QUERIES,
        "keys": KEYS,
    }


def expected(query, key, value, output, scale, queries, keys) -> dict[str, np.ndarray]:
    score = query.astype(float) @ key.astype(float).swapaxes(1, 2) * scale
    weight = np.exp(score - score.max(axis=2, keepdims=True))
    return {"output": weight @ value / weight.sum(axis=2, keepdims=True)}
