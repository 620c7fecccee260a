"""What a technique costs: energy, slowdown and area of a slice and of the units that it adds.

Constants come from `data/costs.toml`, or from a user's file (:func:`load_costs`); what a slice did
in a steady pass is an :class:`Activity`, counted from a replay; :func:`energy` and :func:`slowdown`
weigh it.
"""

from mcage.costs.activity import (
    CONVENTIONAL,
    Accesses,
    Activity,
    activity_of,
    conventional,
    entries_that_hold,
)
from mcage.costs.energy import Area, Energy, Slowdown, Units, area, energy, slowdown, suav, units_of
from mcage.spec.cost_constants import Component, Costs, Penalty, Technology, load_costs

__all__ = [
    "CONVENTIONAL",
    "Accesses",
    "Activity",
    "Area",
    "Component",
    "Costs",
    "Energy",
    "Penalty",
    "Slowdown",
    "Technology",
    "Units",
    "activity_of",
    "area",
    "conventional",
    "energy",
    "entries_that_hold",
    "load_costs",
    "slowdown",
    "suav",
    "units_of",
]
