"""The engine that users get on a CPU: compiled by Numba, cached on disk, releases the GIL.

`placement/` lays out what no fault map changes (`residencies`), finds a home for every residency as
RRCD does (`redirect`) or GR-Guard (`guard`), and sorts them by entry (`occupants`). `cell_times`
and `fixed_layout` work out what cells go through, a bit of 64 components at a time. A sweep asks
for less than all cells: `stress/` finds the most stressed cell by branch and bound, and sums up
tracked cells. results/performance.md says what each costs.
"""

from mcage.engines.numba_engine.engine import NumbaEngine

__all__ = ["NumbaEngine"]
