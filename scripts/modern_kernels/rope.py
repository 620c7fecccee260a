"""Rotary position embedding, 32 tokens of 12 query heads and 4 key heads of dimension 128, at
positions of a batch of requests (each up to 2,048): queries and keys are normal(0, 1).
"""

import numpy as np

TITLE = "rotary position embedding, f16, in place"
TOKENS, QUERY_HEADS, KEY_HEADS, DIMENSION, POSITIONS = 32, 12, 4, 128, 2048
GRID = (TOKENS, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 6e-4


def arguments(random: np.random.Generator) -> dict:
    frequency = 10_000.0 ** (-np.arange(0, DIMENSION, 2) / DIMENSION)
    angle = np.arange(POSITIONS)[:, None] * frequency
    table = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)

    def rows(heads: int) -> np.ndarray:
        return random.standard_normal((TOKENS, heads, DIMENSION)).astype(np.float16)

    return {
        "query": rows(QUERY_HEADS),
        "key": rows(KEY_HEADS),
        "table": table.astype(np.float32),
        "position": random.integers(0, POSITIONS, TOKENS, dtype=np.int32),
        "query_heads": QUERY_HEADS,
        "key_heads": KEY_HEADS,
    }


def expected(query, key, table, position, query_heads, key_heads) -> dict[str, np.ndarray]:
    cosine, sine = np.split(table[position].astype(float)[:, None], 2, axis=2)

    def turned(rows: np.ndarray) -> np.ndarray:
        low, high = np.split(rows.astype(float), 2, axis=2)
        return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=2)

    return {"query": turned(query), "key": turned(key)}
