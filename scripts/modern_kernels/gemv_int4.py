"""A step of decoding with a large language model: 256 rows of 2,048 weights of 4 bits by one
vector of activations. The weights are normal(0, 0.02), then quantised symmetrically in shares of
128, whose largest takes the digit 7 above or below 8; activations are normal(0, 1) with one in a
hundred ten times as large, as in such models, and rounded to bfloat16 before they become f16.
"""

import numpy as np

TITLE = "GEMV of LLM decoding, int4 weights with f16 scales of 128, a row a wave"
ROWS, COLUMNS, SHARE = 256, 2048, 128
GRID = (ROWS // 8, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 5e-6


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    exact = random.normal(0, 0.02, (ROWS, COLUMNS // SHARE, SHARE))
    scale = (np.abs(exact).max(axis=2) / 7).astype(np.float16)
    digits = np.clip(np.rint(exact / scale[..., None].astype(float)), -8, 7) + 8
    digits = digits.astype(np.uint32).reshape(ROWS, COLUMNS // 8, 8)
    x = random.standard_normal(COLUMNS)
    x[random.random(COLUMNS) < 0.01] *= 10
    return {
        "weight": (digits << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=2, dtype=np.uint32),
        "scale": scale,
        "x": bfloat16(x).astype(np.float16),
        "output": np.zeros(ROWS, np.float32),
    }


def expected(weight, scale, x, output) -> dict[str, np.ndarray]:
    digits = (weight[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 15
    exact = (digits.reshape(ROWS, COLUMNS) - 8.0) * np.repeat(scale.astype(float), SHARE, axis=1)
    return {"output": exact @ x.astype(float)}
