"""Ways to make fault maps; this module imports nothing, since whole commands need no more."""

MODES = ("varius", "varius-selected", "table", "table-exact")
"""Ways to make a fault map; see `mcage.variation.fault_models.FaultModel`."""

GROWING_MODES = ("varius", "varius-selected")
"""Modes in which each cell has a Vmin, so that aging can add faults."""
