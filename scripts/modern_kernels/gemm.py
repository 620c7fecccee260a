"""C = alpha A B + beta C, 256 x 192 x 32: A are activations, normal(0, 1), B weights,
normal(0, 0.02), C normal(0, 1), all rounded to bfloat16, as models store them; alpha is 1, beta
0.5.
"""

import numpy as np

TITLE = "GEMM, f32, tiles of 64 x 64 in local memory, 4 x 4 a work-item in registers"
M, N, K = 256, 192, 32
GRID = (N // 64, M // 64, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    return {
        "a": bfloat16(random.standard_normal((M, K))),
        "b": bfloat16(random.normal(0, 0.02, (K, N))),
        "c": bfloat16(random.standard_normal((M, N))),
        "alpha": 1.0,
        "beta": 0.5,
        "n": N,
        "k": K,
    }


def expected(a, b, c, alpha, beta, n, k) -> dict[str, np.ndarray]:
    return {"c": alpha * (a.astype(float) @ b) + beta * c}
