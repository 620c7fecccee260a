"""Searches for the slices and lives that die early."""
