"""C = alpha A B + beta C, 256 x 192 x 32: A are activations, normal(0, 1), B weights,
normal(0, 0.02), C normal(0, 1); alpha is 1, beta 0.5.
"""

import numpy as np

TITLE = "GEMM, f32, tiles of 64 x 64 in local memory, 4 x 4 a work-item in registers"
M, N, K = 256, 192, 32
GRID = (N // 64, M // 64, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def arguments(random: np.random.Generator) -> dict:
    return {
        "a": random.standard_normal((M, K), dtype=np.float32),
        "b": random.normal(0, 0.02, (K, N)).astype(np.float32),
        "c": random.standard_normal((M, N), dtype=np.float32),
        "alpha": 1.0,
        "beta": 0.5,
        "n": N,
        "k": K,
    }


def expected(a, b, c, alpha, beta, n, k) -> dict[str, np.ndarray]:
    return {"c": alpha * (a.astype(float) @ b) + beta * c}
