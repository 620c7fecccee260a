"""The formats that can be imported: one module each, with one value ``FORMAT``."""

from mcage.traces.importing.formats import (
    accelsim,
    cutracer,
    gem5,
    mgpusim,
    multi2sim,
    nvbit,
    plain_csv,
    recorder,
)
from mcage.traces.importing.formats.format import Format

FORMATS: tuple[Format, ...] = (
    plain_csv.FORMAT,
    recorder.FORMAT,
    gem5.FORMAT,
    multi2sim.FORMAT,
    cutracer.FORMAT,
    nvbit.FORMAT,
    mgpusim.FORMAT,
    accelsim.FORMAT,
)
"""Every format, in the order in which a file is tried to be recognised."""
