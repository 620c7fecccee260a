"""Distributions from which slices and lives are drawn, and the weights that make up for them."""
