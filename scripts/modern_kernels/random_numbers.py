"""Normal numbers from Philox 4x32-10 and Box-Muller, 32,768 of them, as for dropout or Monte Carlo
integration: the only inputs are a seed and an offset.
"""

import numpy as np

TITLE = "random numbers, Philox 4x32-10 and Box-Muller, f32"
QUADS = 8_192
GRID = (32, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def arguments(random: np.random.Generator) -> dict:
    low, high = (int(word) for word in random.integers(0, 2**32, 2, dtype=np.uint32))
    return {
        "output": np.zeros((QUADS, 4), np.float32),
        "seed_low": low,
        "seed_high": high,
        "offset": 7,
        "quads": QUADS,
        "groups": GRID[0],
    }


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Return the 4 words of each counter of 4 words (on the last axis)."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = np.moveaxis(counter.astype(np.uint64), -1, 0)
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        shift = np.uint64(32)
        c0, c2 = (p1 >> shift) ^ c1 ^ np.uint64(k0), (p0 >> shift) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & low, p0 & low
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def expected(output, seed_low, seed_high, offset, quads, groups) -> dict[str, np.ndarray]:
    counter = np.zeros((quads, 4), np.uint32)
    counter[:, 0] = np.arange(quads)
    counter[:, 1] = offset
    words = philox(counter, (seed_low, seed_high)) >> np.uint32(8)
    radius = np.sqrt(-2 * np.log((words[:, ::2] + 1) * 2.0**-24))
    angle = 2 * np.pi * words[:, 1::2] * 2.0**-24
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return {"output": pairs.reshape(quads, 4)}
