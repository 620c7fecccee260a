"""Runs of the ten kernels that all tests of the papers share: each is computed once for them."""

from functools import cache

from mcage.engines.numba_engine import NumbaEngine
from mcage.papers.kernel_replays import KernelReplays
from mcage.traces.transforms import WAVEFRONT


@cache
def replays(release=WAVEFRONT):
    """Replays whose windows are released in one of the two ways; the second takes over."""
    like = None if release == WAVEFRONT else replays()
    return KernelReplays(NumbaEngine(), release=release, like=like)
