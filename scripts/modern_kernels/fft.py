"""Fourier transforms of 32 signals of 1,024 complex samples, as of a radar: two tones of random
frequency and phase, of amplitudes 1 and 0.1, in noise of normal(0, 0.05).
"""

import numpy as np

TITLE = "FFT of 1,024 complex numbers, f32, radix 4, Stockham, a transform a work-group"
BATCH, POINTS = 32, 1024
GRID = (BATCH, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def arguments(random: np.random.Generator) -> dict:
    time = np.arange(POINTS)
    signal = np.zeros((BATCH, POINTS), complex)
    for amplitude in (1, 0.1):
        frequency, phase = random.random((2, BATCH, 1))
        signal += amplitude * np.exp(2j * np.pi * (frequency * time + phase))
    parts = np.stack([signal.real, signal.imag], axis=2)
    parts += random.normal(0, 0.05, parts.shape)
    return {"input": parts.astype(np.float32), "output": np.zeros(parts.shape, np.float32)}


def expected(input, output) -> dict[str, np.ndarray]:
    result = np.fft.fft(input[..., 0].astype(float) + 1j * input[..., 1], axis=1)
    return {"output": np.stack([result.real, result.imag], axis=2)}
