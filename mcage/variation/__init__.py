"""Process variation of slices: die part, systematic field, Vmin of weak cells, fault maps."""
