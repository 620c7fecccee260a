"""C = A B', f16 with sums in f32, 512 x 384 x 64: A are activations, normal(0, 1), B weights as a
layer stores them (a row an output), normal(0, 0.02). On matrix cores of CDNA (MFMA) and RDNA 3
(WMMA); other targets do not compile.
"""

import numpy as np

TITLE = "GEMM on matrix cores, f16, tiles of 128 x 128"
M, N, K = 512, 384, 64
GRID = (N // 128, M // 128, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 6e-4


def arguments(random: np.random.Generator) -> dict:
    return {
        "a": random.standard_normal((M, K)).astype(np.float16),
        "b": random.normal(0, 0.02, (N, K)).astype(np.float16),
        "c": np.zeros((M, N), np.float16),
        "n": N,
        "k": K,
    }


def expected(a, b, c, n, k) -> dict[str, np.ndarray]:
    return {"c": a.astype(float) @ b.astype(float).T}
