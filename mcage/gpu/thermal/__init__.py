"""Temperatures of the blocks of a chip from the powers of these blocks."""
