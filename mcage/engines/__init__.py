"""Engines replay traces: numpy, numba and cuda, which must agree on every result."""
