"""Sorts 32 blocks of 512 particles by cell: keys are Morton codes of 30 bits of points in
clusters (normal(0, 0.05) around 8 centres in a unit cube), no two of a block the same; values are
indexes.
"""

import numpy as np

TITLE = "bitonic sort of 512 keys and values in local memory, uint32"
BLOCKS, KEYS = 32, 512
GRID = (BLOCKS, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 0


def arguments(random: np.random.Generator) -> dict:
    centres = random.random((8, 3))
    points = centres[random.integers(0, 8, BLOCKS * KEYS)]
    points = np.clip(points + random.normal(0, 0.05, points.shape), 0, 1 - 1e-9)
    cell = (points * 1024).astype(np.uint32)
    code = np.zeros(len(cell), np.uint32)
    for bit in range(10):
        for axis in range(3):
            code |= ((cell[:, axis] >> bit) & 1) << (3 * bit + axis)
    code = code.reshape(BLOCKS, KEYS)
    for block in code:  # the next free code for each that occurs twice
        order = np.argsort(block, kind="stable")
        rank = np.arange(KEYS)
        block[order] = np.maximum.accumulate(block[order].astype(np.int64) - rank) + rank
    return {"key": code, "value": np.arange(BLOCKS * KEYS, dtype=np.uint32).reshape(code.shape)}


def expected(key, value) -> dict[str, np.ndarray]:
    order = np.argsort(key, axis=1, kind="stable")
    return {name: np.take_along_axis(of, order, 1) for name, of in (("key", key), ("value", value))}
