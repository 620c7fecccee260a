"""Vmin over life: the lowest Vdd at which each slice works, when new and at ages."""
