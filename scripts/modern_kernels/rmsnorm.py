"""RMS norm with the residual added before it, 32 tokens of 2,048 channels: the residual stream is
normal(0, 1) with one channel in a hundred ten times as large, as in large language models, what is
added to it normal(0, 0.3), and weights are normal(1, 0.1).
"""

import numpy as np

TITLE = "RMS norm with residual, f16, a token a work-group"
TOKENS, HIDDEN = 32, 2048
GRID = (TOKENS, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 6e-4


def arguments(random: np.random.Generator) -> dict:
    size = np.where(random.random(HIDDEN) < 0.01, 10, 1)
    return {
        "x": random.normal(0, 0.3, (TOKENS, HIDDEN)).astype(np.float16),
        "residual": (random.standard_normal((TOKENS, HIDDEN)) * size).astype(np.float16),
        "weight": random.normal(1, 0.1, HIDDEN).astype(np.float16),
        "output": np.zeros((TOKENS, HIDDEN), np.float16),
        "epsilon": 1e-5,
    }


def expected(x, residual, weight, output, epsilon) -> dict[str, np.ndarray]:
    added = x + residual
    exact = added.astype(float)
    rms = np.sqrt((exact**2).mean(axis=1, keepdims=True) + epsilon)
    return {"residual": added, "output": exact / rms * weight.astype(float)}
