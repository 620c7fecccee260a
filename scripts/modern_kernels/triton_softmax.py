"""Softmax of 32 rows of 1,000 logits (as of the classes of images), which are normal(0, 2),
rounded to bfloat16, as the layer before stores them.
"""

import numpy as np
import triton
import triton.language as tl

TITLE = "Triton softmax, f32, a row a program"
ROWS, COLUMNS = 32, 1000
GRID = (ROWS, 1, 1)
OPTIONS = {"num_warps": 4}
TOLERANCE = 2e-6


@triton.jit
def triton_softmax(source, output, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(source + row * stride + column, mask=inside, other=-float("inf"))
    weight = tl.exp(x - tl.max(x, axis=0))
    tl.store(output + row * stride + column, weight / tl.sum(weight, axis=0), mask=inside)


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    logits = bfloat16(random.normal(0, 2, (ROWS, COLUMNS)))
    return {
        "source": logits,
        "output": np.zeros_like(logits),
        "stride": COLUMNS,
        "columns": COLUMNS,
        "BLOCK": triton.next_power_of_2(COLUMNS),
    }


def expected(source, output, stride, columns, BLOCK) -> dict[str, np.ndarray]:
    weight = np.exp(source.astype(float) - source.max(axis=1, keepdims=True))
    return {"output": weight / weight.sum(axis=1, keepdims=True)}
