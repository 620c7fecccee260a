"""Placement programs in the Numba engine: compiled together with the machine that asks them."""
