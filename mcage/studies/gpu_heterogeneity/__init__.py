"""Aging-critical structures: their transistors, and what wakes them (Zhang et al., 2015)."""
