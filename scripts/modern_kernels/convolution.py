"""A layer of an image network, 3 x 3, 16 channels of 64 x 64 pixels to 16: the input is smooth
noise (normal, averaged over 5 x 5, of deviation 1) after a ReLU, so that about half is 0; weights
are normal(0, sqrt(2 / 144)), biases normal(0, 0.1).
"""

import numpy as np

TITLE = "convolution, f32, 3 x 3, 8 channels of output a work-item, ReLU"
SIDE, INPUTS, OUTPUTS = 64, 16, 16
GRID = (SIDE // 16, SIDE // 16, OUTPUTS // 8)
BLOCK = (16, 16, 1)
TOLERANCE = 2e-6


def arguments(random: np.random.Generator) -> dict:
    noise = random.standard_normal((INPUTS, SIDE, SIDE))
    for axis in (1, 2):
        noise = sum(np.roll(noise, shift, axis) for shift in range(-2, 3)) / np.sqrt(5)
    return {
        "input": np.maximum(noise, 0).astype(np.float32),
        "weight": random.normal(0, (2 / (9 * INPUTS)) ** 0.5, (OUTPUTS, INPUTS, 3, 3)).astype(
            np.float32
        ),
        "bias": random.normal(0, 0.1, OUTPUTS).astype(np.float32),
        "output": np.zeros((OUTPUTS, SIDE, SIDE), np.float32),
        "width": SIDE,
        "height": SIDE,
    }


def expected(input, weight, bias, output, width, height) -> dict[str, np.ndarray]:
    wide = np.pad(input.astype(float), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2))
    total = np.einsum("cyxij,ocij->oyx", windows, weight.astype(float))
    return {"output": np.maximum(total + bias[:, None, None], 0)}
