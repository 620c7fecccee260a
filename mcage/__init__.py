"""mcage: Monte Carlo aging and fault analyzer for GPU register files."""

__version__ = "0.1.0"
