"""How often each byte occurs in an image of 512 x 512: a smooth gradient from 30 to 210, a
bright disc, and noise of normal(0, 4).
"""

import numpy as np

TITLE = "histogram, 256 bins, atomics in local memory"
SIDE = 512
GRID = (32, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 0


def arguments(random: np.random.Generator) -> dict:
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    image = 30 + 90 * (x + y) + 60 * (np.hypot(x - 0.6, y - 0.4) < 0.15)
    image = np.clip(np.rint(image + random.normal(0, 4, image.shape)), 0, 255)
    return {
        "image": image.astype(np.uint8).view(np.uint32),  # four bytes a word, as the kernel reads
        "bins": np.zeros(256, np.uint32),
        "quads": image.size // 16,
        "groups": GRID[0],
    }


def expected(image, bins, quads, groups) -> dict[str, np.ndarray]:
    counts = np.bincount(image.view(np.uint8).ravel(), minlength=256)
    return {"bins": bins + counts.astype(np.uint32)}
