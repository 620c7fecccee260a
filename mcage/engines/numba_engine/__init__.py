"""The engine that users get on a CPU: compiled by Numba, cached on disk, releases the GIL.

`runs` lays out what no instance changes. `selectors` find a home for every run of writes, as RRCD
does (`place`) or GR-Guard (`borrow`); `visits` sorts them by entry, `walk` and `laid_out` work out
what cells go through, a bit of 64 components at a time. A sweep asks for less than all cells:
`bounds` and `longest` find the most stressed one, `follow` the watched ones. docs/performance.md
says what each costs.
"""

from mcage.engines.numba_engine.engine import NumbaEngine

__all__ = ["NumbaEngine"]
