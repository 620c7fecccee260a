"""The backward pass of a layer norm, 256 tokens of 2,048 channels, f32: the input is normal(0, 1)
with one channel in a hundred ten times as large, gradients are normal(0, 0.001), weights
normal(1, 0.1). Each program takes 8 tokens and leaves its part of the gradients of weights and
biases, which another kernel would add.
"""

import numpy as np
import triton
import triton.language as tl

TITLE = "layer norm backward, Triton, f32, 8 rows a program"
TOKENS, HIDDEN, ROWS = 256, 2048, 8
GRID = (TOKENS // ROWS, 1, 1)
OPTIONS = {"num_warps": 4}
TOLERANCE = 5e-6


@triton.jit
def layernorm_backward(
    x,
    weight,
    mean,
    inverse,
    gradient,
    to_x,
    to_weight,
    to_bias,
    rows,
    columns,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    w = tl.load(weight + column, mask=inside, other=0.0)
    of_weight = tl.zeros((BLOCK,), tl.float32)
    of_bias = tl.zeros((BLOCK,), tl.float32)
    for row in range(program * ROWS, min((program + 1) * ROWS, rows)):
        at = row * columns + column
        g = tl.load(gradient + at, mask=inside, other=0.0)
        r = tl.load(inverse + row)
        normal = (tl.load(x + at, mask=inside, other=0.0) - tl.load(mean + row)) * r
        normal = tl.where(inside, normal, 0.0)
        scaled = g * w
        along = tl.sum(normal * scaled, axis=0) / columns
        flat = tl.sum(scaled, axis=0) / columns
        tl.store(to_x + at, (scaled - normal * along - flat) * r, mask=inside)
        of_weight += g * normal
        of_bias += g
    tl.store(to_weight + program * columns + column, of_weight, mask=inside)
    tl.store(to_bias + program * columns + column, of_bias, mask=inside)


def arguments(random: np.random.Generator) -> dict:
    size = np.where(random.random(HIDDEN) < 0.01, 10, 1)
    x = (random.standard_normal((TOKENS, HIDDEN)) * size).astype(np.float32)
    parts = np.zeros((GRID[0], HIDDEN), np.float32)
    return {
        "x": x,
        "weight": random.normal(1, 0.1, HIDDEN).astype(np.float32),
        "mean": x.mean(axis=1, dtype=float).astype(np.float32),
        "inverse": (1 / np.sqrt(x.var(axis=1, dtype=float) + 1e-5)).astype(np.float32),
        "gradient": random.normal(0, 1e-3, (TOKENS, HIDDEN)).astype(np.float32),
        "to_x": np.zeros_like(x),
        "to_weight": parts,
        "to_bias": parts.copy(),
        "rows": TOKENS,
        "columns": HIDDEN,
        "ROWS": ROWS,
        "BLOCK": triton.next_power_of_2(HIDDEN),
    }


def expected(x, weight, mean, inverse, gradient, **rest) -> dict[str, np.ndarray]:
    r = inverse.astype(float)[:, None]
    normal = (x.astype(float) - mean[:, None]) * r
    g = gradient.astype(float)
    scaled = g * weight
    along = (normal * scaled).mean(axis=1, keepdims=True)
    flat = scaled.mean(axis=1, keepdims=True)
    return {
        "to_x": (scaled - normal * along - flat) * r,
        "to_weight": (g * normal).reshape(-1, ROWS, HIDDEN).sum(axis=1),
        "to_bias": g.reshape(-1, ROWS, HIDDEN).sum(axis=1),
    }
