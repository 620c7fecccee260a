"""The life of slices: epoch by epoch until the end of life or the horizon."""
