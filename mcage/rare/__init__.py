"""Rare events: probabilities of early failure far below what a plain sample of dies can see."""

from mcage.rare.estimate import RareEstimate
from mcage.rare.failure import failure_probability

__all__ = ["RareEstimate", "failure_probability"]
