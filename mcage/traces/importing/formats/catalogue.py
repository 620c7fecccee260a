"""The formats that can be imported: one module each, with one value ``FORMAT``."""

from mcage.traces.importing.formats import gem5, multi2sim, plain_csv
from mcage.traces.importing.formats.format import Format

FORMATS: tuple[Format, ...] = (plain_csv.FORMAT, gem5.FORMAT, multi2sim.FORMAT)
"""Every format, in the order in which a file is tried to be recognised."""
