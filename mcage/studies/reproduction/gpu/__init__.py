"""Figures of the papers on whole GPUs; nothing is replayed for them."""
