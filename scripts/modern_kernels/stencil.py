"""A step of heat flow in a box of 128 x 64 x 5 cells: from 280 to 320 along a diagonal, a hot ball
of 360 with soft edges, and noise of normal(0, 0.05).
"""

import numpy as np

TITLE = "stencil, f32, 7 points, tiles of 32 x 8 that walk along z"
NX, NY, NZ = 128, 64, 5
GRID = (NX // 32, NY // 8, 1)
BLOCK = (32, 8, 1)
TOLERANCE = 1e-6


def arguments(random: np.random.Generator) -> dict:
    z, y, x = np.meshgrid(*(np.linspace(0, 1, n) for n in (NZ, NY, NX)), indexing="ij")
    distance = np.sqrt((x - 0.4) ** 2 + (y - 0.6) ** 2 + (z - 0.5) ** 2)
    ball = 1 / (1 + np.exp((distance - 0.2) * 40))
    heat = 280 + 40 * (x + y + z) / 3
    heat += (360 - heat) * ball + random.normal(0, 0.05, heat.shape)
    heat = heat.astype(np.float32)
    return {
        "input": heat,
        "output": np.zeros_like(heat),
        "centre": 0.4,
        "side": 0.1,
        "nx": NX,
        "ny": NY,
        "nz": NZ,
    }


def expected(input, output, centre, side, nx, ny, nz) -> dict[str, np.ndarray]:
    wide = np.pad(input.astype(float), 1, mode="edge")
    inner = slice(1, -1)
    around = wide[:-2, inner, inner] + wide[2:, inner, inner]
    around += wide[inner, :-2, inner] + wide[inner, 2:, inner]
    around += wide[inner, inner, :-2] + wide[inner, inner, 2:]
    return {"output": centre * input.astype(float) + side * around}
