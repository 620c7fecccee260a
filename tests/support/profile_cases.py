"""Profiles of bundled traces, and a trace drawn from each: what several files of tests look at."""

from functools import cache

from mcage.traces import bundled_trace
from mcage.traces.profiles.characterize import characterize
from mcage.traces.profiles.synthesize import synthesize

SMALL_KERNELS = ("MatrixTranspose", "Reduction", "ScanLargeArrays")
SEED = 5


@cache
def profile_of(name):
    return characterize(bundled_trace(name))


@cache
def drawn_from(name):
    """The trace that `SEED` draws from a profile."""
    return synthesize(profile_of(name), SEED)
