"""Figures of studies of whole GPUs, and of studies that a user has made."""
