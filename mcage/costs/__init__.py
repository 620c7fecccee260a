"""Costs of a technique: energy, slowdown and area of a slice and of the units that it adds.

Constants come from `data/costs.toml`, or from a user's file (:func:`load_costs`); what a slice did
in a steady pass is an :class:`~mcage.costs.activity.Activity`, counted from a replay;
:func:`energy` and :func:`slowdown` weigh it.
"""

from mcage.costs.activity import CONVENTIONAL, activity_of, conventional
from mcage.costs.energy import energy, slowdown
from mcage.spec.cost_constants import load_costs

__all__ = ["CONVENTIONAL", "activity_of", "conventional", "energy", "load_costs", "slowdown"]
