"""A layer of a language model at batch 1: 512 rows of 512 weights, normal(0, 0.02), by
activations, normal(0, 1) with one in a hundred ten times as large. Both are rounded to bfloat16,
in which such models are published, before they become f16.
"""

import numpy as np
import triton
import triton.language as tl

TITLE = "Triton GEMV, f16 with sums in f32, 16 rows a program"
ROWS, COLUMNS, BLOCK_ROWS = 512, 512, 16
GRID = (ROWS // BLOCK_ROWS, 1, 1)
OPTIONS = {"num_warps": 4}
TOLERANCE = 5e-6


@triton.jit
def triton_gemv(
    weight, x, output, columns, stride, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr
):
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    total = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), tl.float32)
    for start in range(0, columns, BLOCK_COLUMNS):
        column = start + tl.arange(0, BLOCK_COLUMNS)
        w = tl.load(weight + row[:, None] * stride + column[None, :]).to(tl.float32)
        total += w * tl.load(x + column).to(tl.float32)[None, :]
    tl.store(output + row, tl.sum(total, axis=1))


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    x = random.standard_normal(COLUMNS)
    x[random.random(COLUMNS) < 0.01] *= 10
    return {
        "weight": bfloat16(random.normal(0, 0.02, (ROWS, COLUMNS))).astype(np.float16),
        "x": bfloat16(x).astype(np.float16),
        "output": np.zeros(ROWS, np.float32),
        "columns": COLUMNS,
        "stride": COLUMNS,
        "BLOCK_ROWS": BLOCK_ROWS,
        "BLOCK_COLUMNS": 256,
    }


def expected(weight, x, output, **rest) -> dict[str, np.ndarray]:
    return {"output": weight.astype(float) @ x.astype(float)}
