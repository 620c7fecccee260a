"""A layer of a mixture of 8 experts, 2 a token, for 176 tokens: 64 channels to 128, f16.
Activations are normal(0, 1), weights normal(0, 0.02); experts are drawn with popularities 1, 1/2,
... 1/8 (shuffled), as routers are uneven, and their scores are of a softmax. Rows are sorted by
expert and padded to blocks of 32; the last programs find no rows.
"""

import numpy as np
import triton
import triton.language as tl

TITLE = "mixture of experts, grouped GEMM, Triton, f16"
TOKENS, EXPERTS, CHOSEN, M, N, K = 176, 8, 2, 32, 128, 64
BLOCK_N = 64
BLOCKS = (TOKENS * CHOSEN + EXPERTS * (M - 1)) // M  # at most
GRID = (BLOCKS * (N // BLOCK_N), 1, 1)
OPTIONS = {"num_warps": 4, "num_stages": 2, "matrix_instr_nonkdim": 16}
TOLERANCE = 6e-4


@triton.jit
def moe_gemm(
    x,
    weight,
    output,
    score,
    rows,
    experts,
    padded,
    n,
    k,
    pairs,
    CHOSEN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tiles = tl.cdiv(n, BLOCK_N)
    block = tl.program_id(0) // tiles
    if block * BLOCK_M >= tl.load(padded):
        return
    row = tl.load(rows + block * BLOCK_M + tl.arange(0, BLOCK_M))  # token * CHOSEN + choice
    real = row < pairs
    expert = tl.load(experts + block)
    column = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    from_x = x + (row // CHOSEN)[:, None] * k + depth[None, :]
    from_weight = weight + expert * n * k + column[None, :] * k + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k, BLOCK_K):
        part_x = tl.load(from_x, mask=real[:, None], other=0.0)
        total = tl.dot(part_x, tl.load(from_weight), total)
        from_x += BLOCK_K
        from_weight += BLOCK_K
    total *= tl.load(score + row, mask=real, other=0.0)[:, None]
    at = row[:, None] * n + column[None, :]
    tl.store(output + at, total.to(tl.float16), mask=real[:, None])


def arguments(random: np.random.Generator) -> dict:
    popularity = random.permutation(1 / np.arange(1, EXPERTS + 1))
    logits = np.log(popularity) + random.gumbel(0, 1, (TOKENS, EXPERTS))
    choice = np.argsort(-logits, axis=1)[:, :CHOSEN]
    score = np.exp(np.take_along_axis(logits, choice, 1))
    score /= score.sum(axis=1, keepdims=True)
    pairs = TOKENS * CHOSEN
    rows, experts = [], []
    for expert in range(EXPERTS):
        own = np.flatnonzero(choice.ravel() == expert)
        blocks = -(-len(own) // M)
        rows += [*own, *[pairs] * (blocks * M - len(own))]
        experts += [expert] * blocks
    padded = len(rows)
    rows += [pairs] * (BLOCKS * M - padded)
    experts += [0] * (BLOCKS - len(experts))
    return {
        "x": random.standard_normal((TOKENS, K)).astype(np.float16),
        "weight": random.normal(0, 0.02, (EXPERTS, N, K)).astype(np.float16),
        "output": np.zeros((pairs, N), np.float16),
        "score": score.ravel().astype(np.float32),
        "rows": np.array(rows, np.int32),
        "experts": np.array(experts, np.int32),
        "padded": np.array([padded], np.int32),
        "n": N,
        "k": K,
        "pairs": pairs,
        "CHOSEN": CHOSEN,
        "BLOCK_M": M,
        "BLOCK_N": BLOCK_N,
        "BLOCK_K": 32,
    }


def expected(x, weight, output, score, rows, experts, pairs, **rest) -> dict[str, np.ndarray]:
    result = np.zeros(output.shape)
    for expert, own in zip(experts, rows.reshape(-1, M), strict=True):
        own = own[own < pairs]
        product = x[own // CHOSEN].astype(float) @ weight[expert].astype(float).T
        result[own] = product * score[own, None]
    return {"output": result}
