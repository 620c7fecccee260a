"""The engine that users get on a CPU: compiled by Numba, cached on disk, releases the GIL.

`residencies` lays out what no fault map changes, `homes` finds a home for every residency as RRCD
does or GR-Guard, and sorts them by entry. `cell_times` works out what cells go through, a bit of 64
components at a time. A sweep asks for less than all cells: `bounds` finds the most stressed
cell by branch and bound, `tracked_cells` sums up some cells, and `stress` does both for a batch.
results/performance.md says what each costs.
"""

from mcage.engines.numba_engine.engine import NumbaEngine

__all__ = ["NumbaEngine"]
