"""When a GPU is exchanged: the vendor's rule on uncorrectable words of its register files."""
