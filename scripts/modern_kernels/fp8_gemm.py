"""C = A B', 256 x 320 x 64, weights of 8 bits: A are activations, f16, normal(0, 1), B weights,
normal(0, 0.02), rounded to fp8 (E4M3, without infinities) with a scale a row, whose largest weight
becomes 448. Weights become f16 before matrix cores multiply them, as on GPUs without fp8.
"""

import numpy as np
import triton
import triton.language as tl

TITLE = "GEMM with fp8 weights and a scale a row, Triton, tiles of 64 x 64"
M, N, K = 256, 320, 64
BLOCK_M, BLOCK_N = 64, 64
GRID = (N // BLOCK_N, M // BLOCK_M, 1)
OPTIONS = {"num_warps": 4, "num_stages": 2, "matrix_instr_nonkdim": 16}
TYPES = {"b": "fp8e4nv"}  # an array of uint8
TOLERANCE = 6e-4


@triton.jit
def fp8_gemm(
    a,
    b,
    scale,
    c,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    from_a = a + row[:, None] * k + depth[None, :]
    from_b = b + column[None, :] * k + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k, BLOCK_K):
        total = tl.dot(tl.load(from_a), tl.load(from_b).to(tl.float16), total)
        from_a += BLOCK_K
        from_b += BLOCK_K
    total *= tl.load(scale + column)[None, :]
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16))


def values() -> np.ndarray:
    """Return what the 128 bytes from 0 on mean; those from 128 on are their negatives."""
    byte = np.arange(128)
    exponent, fraction = byte >> 3, byte & 7
    result = np.where(exponent > 0, 2.0 ** (exponent - 7) * (1 + fraction / 8), fraction * 2.0**-9)
    result[127] = np.nan
    return result


def arguments(random: np.random.Generator) -> dict:
    exact = random.normal(0, 0.02, (N, K))
    scale = (np.abs(exact).max(axis=1) / 448).astype(np.float32)
    size = np.abs(exact) / scale[:, None]
    known = values()[:127]
    byte = np.searchsorted((known[1:] + known[:-1]) / 2, size)  # the nearest
    return {
        "a": random.standard_normal((M, K)).astype(np.float16),
        "b": (byte + 128 * (exact < 0)).astype(np.uint8),
        "scale": scale,
        "c": np.zeros((M, N), np.float16),
        "n": N,
        "k": K,
        "BLOCK_M": BLOCK_M,
        "BLOCK_N": BLOCK_N,
        "BLOCK_K": 64,
    }


def expected(a, b, scale, c, **rest) -> dict[str, np.ndarray]:
    exact = np.concatenate([values(), -values()])[b]
    return {"c": a.astype(float) @ (exact * scale[:, None].astype(float)).T}
