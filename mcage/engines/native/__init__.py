"""The engine that users get on a CPU: compiled by Numba, cached on disk, releases the GIL.

Per instance: `place` finds a home for every write (the selectors' event machine), `walk` sums up
cell times entry by entry, so that the 2,048 sums of an entry stay in the first-level cache.
"""

from mcage.engines.native.engine import NativeEngine

__all__ = ["NativeEngine"]
