"""What a format is made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcage.traces.importing.limits import Options
from mcage.traces.importing.recording import Recording
from mcage.traces.importing.sources import Source


@dataclass(frozen=True)
class Format:
    """A format of another tool.

    Attributes
    ----------
    name : str
        As ``--format`` takes it.
    title : str
        The tool and what of it is read.
    recognises : callable
        ``recognises(source)``: whether a file is of this format, by `Source.head` and its name.
    read : callable
        ``read(sources, recording, options)``: read the files of one run into the recording.
    """

    name: str
    title: str
    recognises: Callable[[Source], bool]
    read: Callable[[Sequence[Source], Recording, Options], None]
