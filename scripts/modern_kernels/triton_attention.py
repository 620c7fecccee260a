"""Causal self-attention of short prompts: 64 tokens, 20 heads of queries on 4 of keys, of
dimension 64, f16; queries and keys are normal(0, 1), values normal(0, 0.5).
"""

import numpy as np
import triton
import triton.language as tl

TITLE = "Triton flash attention forward, f16, causal, 64 queries by 32 keys"
TOKENS, HEADS, TOGETHER, DIMENSION, BLOCK_M = 64, 20, 5, 64, 64
GRID = (TOKENS // BLOCK_M, HEADS, 1)
OPTIONS = {"num_warps": 4, "num_stages": 2, "matrix_instr_nonkdim": 16}
TOLERANCE = 2e-3  # weights are rounded to f16 before they meet the values


@triton.jit
def triton_attention(
    query,
    key,
    value,
    output,
    scale,
    tokens,
    TOGETHER: tl.constexpr,
    DIMENSION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    base = head // TOGETHER * tokens * DIMENSION
    row = first + tl.arange(0, BLOCK_M)
    step = tl.arange(0, BLOCK_N)
    depth = tl.arange(0, DIMENSION)
    mine = (head * tokens + row[:, None]) * DIMENSION + depth[None, :]
    q = tl.load(query + mine)
    largest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, DIMENSION), tl.float32)
    for start in range(0, first + BLOCK_M, BLOCK_N):
        column = start + step
        k = tl.load(key + base + column[None, :] * DIMENSION + depth[:, None])
        score = tl.dot(q, k) * (scale * 1.44269504)
        score = tl.where(row[:, None] >= column[None, :], score, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(score, axis=1))
        p = tl.exp2(score - new_largest[:, None])
        rescale = tl.exp2(largest - new_largest)
        weight = weight * rescale + tl.sum(p, axis=1)
        v = tl.load(value + base + column[:, None] * DIMENSION + depth[None, :])
        total = tl.dot(p.to(tl.float16), v, total * rescale[:, None])
        largest = new_largest
    tl.store(output + mine, (total / weight[:, None]).to(tl.float16))


def arguments(random: np.random.Generator) -> dict:
    shape = (HEADS // TOGETHER, TOKENS, DIMENSION)
    query = random.standard_normal((HEADS, TOKENS, DIMENSION)).astype(np.float16)
    return {
        "query": query,
        "key": random.standard_normal(shape).astype(np.float16),
        "value": random.normal(0, 0.5, shape).astype(np.float16),
        "output": np.zeros_like(query),
        "scale": DIMENSION**-0.5,
        "tokens": TOKENS,
        "TOGETHER": TOGETHER,
        "DIMENSION": DIMENSION,
        "BLOCK_M": BLOCK_M,
        "BLOCK_N": 32,
    }


def expected(query, key, value, output, scale, **rest) -> dict[str, np.ndarray]:
    key, value = (np.repeat(rows.astype(float), TOGETHER, axis=0) for rows in (key, value))
    score = query.astype(float) @ key.swapaxes(1, 2) * scale
    score[:, ~np.tri(TOKENS, dtype=bool)] = -np.inf
    weight = np.exp(score - score.max(axis=2, keepdims=True))
    return {"output": weight @ value / weight.sum(axis=2, keepdims=True)}
