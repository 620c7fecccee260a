"""The activation of a transformer's feed-forward layer, 32 tokens of 2,048 channels (as of an
expert of DeepSeek-V3): gates are normal(-0.5, 1), the rest is normal(0, 1).
"""

import numpy as np

TITLE = "SwiGLU, f16, 8 values a load"
TOKENS, HIDDEN = 32, 2048
GRID = (TOKENS, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 6e-4


def arguments(random: np.random.Generator) -> dict:
    both = random.standard_normal((TOKENS, 2, HIDDEN))
    both[:, 0] -= 0.5
    return {
        "input": both.astype(np.float16),
        "output": np.zeros((TOKENS, HIDDEN), np.float16),
        "octets": HIDDEN // 8,
    }


def expected(input, output, octets) -> dict[str, np.ndarray]:
    gate, up = input.astype(float).swapaxes(0, 1)
    return {"output": gate / (1 + np.exp(-gate)) * up}
