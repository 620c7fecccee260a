"""Rare events: probabilities of early failure far below what a plain sample of dies can see."""

from mcage.methods.rare_events.case import RareEstimate
from mcage.methods.rare_events.estimator import RareVdd, failure_probability, vdd_for_probability

__all__ = ["RareEstimate", "RareVdd", "failure_probability", "vdd_for_probability"]
