"""The reference engine, written to be read."""
