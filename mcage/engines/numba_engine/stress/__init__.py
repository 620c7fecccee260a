"""Stress times of cells over a life, without a sum for every cell."""
