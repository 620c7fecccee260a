"""Placement programs above all engines: passes until duties settle, and what instances learn."""
