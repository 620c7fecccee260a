"""The backward pass of a layer norm, 64 tokens of 1,024 channels, f32: the input is normal(0, 1)
with one channel in a hundred ten times as large, gradients are normal(0, 0.001), weights
normal(1, 0.1), all rounded to bfloat16, as training stores them. Each program takes 2 tokens and
leaves its part of the gradients of weights and biases, which another kernel would add.
"""

import numpy as np
import triton
import triton.language as tl

TITLE = "layer norm backward, Triton, f32, 2 rows a program"
TOKENS, HIDDEN, ROWS = 64, 1024, 2
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


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    size = np.where(random.random(HIDDEN) < 0.01, 10, 1)
    x = bfloat16(random.standard_normal((TOKENS, HIDDEN)) * size)
    parts = np.zeros((GRID[0], HIDDEN), np.float32)
    return {
        "x": x,
        "weight": bfloat16(random.normal(1, 0.1, HIDDEN)),
        "mean": x.mean(axis=1, dtype=float).astype(np.float32),
        "inverse": (1 / np.sqrt(x.var(axis=1, dtype=float) + 1e-5)).astype(np.float32),
        "gradient": bfloat16(random.normal(0, 1e-3, (TOKENS, HIDDEN))),
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
