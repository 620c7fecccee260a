"""A layer of an image network, 3 x 3, 4 channels of 64 x 32 pixels to 16: the input is smooth
noise (normal, averaged over 5 x 5, of deviation 1) after a ReLU, so that about half is 0; weights
are normal(0, sqrt(2 / 36)), biases normal(0, 0.1). All are rounded to bfloat16, as such networks
store them.
"""

import numpy as np

TITLE = "convolution, f32, 3 x 3, 4 channels of output a work-item, ReLU"
WIDTH, HEIGHT, INPUTS, OUTPUTS = 64, 32, 4, 16
GRID = (WIDTH // 16, HEIGHT // 16, OUTPUTS // 4)
BLOCK = (16, 16, 1)
TOLERANCE = 2e-6


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to the precision of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).view(np.float32)


def arguments(random: np.random.Generator) -> dict:
    noise = random.standard_normal((INPUTS, HEIGHT, WIDTH))
    for axis in (1, 2):
        noise = sum(np.roll(noise, shift, axis) for shift in range(-2, 3)) / np.sqrt(5)
    return {
        "input": bfloat16(np.maximum(noise, 0)),
        "weight": bfloat16(random.normal(0, (2 / (9 * INPUTS)) ** 0.5, (OUTPUTS, INPUTS, 3, 3))),
        "bias": bfloat16(random.normal(0, 0.1, OUTPUTS)),
        "output": np.zeros((OUTPUTS, HEIGHT, WIDTH), np.float32),
        "width": WIDTH,
        "height": HEIGHT,
    }


def expected(input, weight, bias, output, width, height) -> dict[str, np.ndarray]:
    wide = np.pad(input.astype(float), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2))
    total = np.einsum("cyxij,ocij->oyx", windows, weight.astype(float))
    return {"output": np.maximum(total + bias[:, None, None], 0)}
