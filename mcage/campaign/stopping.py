"""When a campaign may end before its last instance: once a quantity is known well enough.

A campaign is looked at only when it holds the first n instances, for n from a fixed list. What is
computed therefore depends on the instances alone: not on shards, threads or kills. A campaign that
ends with n instances holds what one of n instances without a rule holds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.finished import Finished
from mcage.campaign.precision import campaign_precision
from mcage.campaign.shard_folder import refuse
from mcage.campaign.sources.files import Source
from mcage.files.checksum import DamagedFileError
from mcage.results.header import Header

FIRST_LOOK = 500
PREFERRED_NUMBERS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0)
"""Renard's series R10 (ISO 3): ten steps of nearly equal ratio to a decade."""


def checkpoints(most: int, group_size: int = 1) -> list[int]:
    """Numbers of instances at which a campaign of ``most`` may end, rising; the last is all."""
    whole_groups = (-(-number // group_size) * group_size for number in _preferred_numbers())
    earlier = takewhile(lambda number: number < most, whole_groups)
    return [*dict.fromkeys(earlier), most]


def _preferred_numbers() -> Iterator[int]:
    decade = 1
    while True:
        for number in PREFERRED_NUMBERS:
            if number * decade >= FIRST_LOOK:
                yield round(number * decade)
        decade *= 10


class Watch:
    """Looks at a campaign from checkpoint to checkpoint until it ends.

    Parameters
    ----------
    header : Header
        The campaign as it began: with all of its instances.

    Attributes
    ----------
    checkpoint : int
        Instances that must be finished before the next look.
    """

    def __init__(self, header: Header) -> None:
        self._header = header
        rule, most = header.stopping, header.instances
        self._to_come = iter(checkpoints(most, rule.group_size) if rule else [most])
        self._sample: dict[str, NDArray[Any]] = {}
        self._read = 0
        self.checkpoint = next(self._to_come)

    def look(self, sources: Mapping[range, Source]) -> tuple[Header | None, str]:
        """Look at the instances up to the checkpoint; if they are not enough, go on to the next.

        Parameters
        ----------
        sources : mapping of range to Source
            Files by instances, in rising order, that hold all instances up to the checkpoint.

        Returns
        -------
        header, words
            The campaign as it has ended, or None; and how precise it is in words, empty without
            a rule.

        Raises
        ------
        UserError
            A file is damaged.
        """
        header, rule = self._header, self._header.stopping
        if rule is None:
            return header, ""
        self._add(sources, header.quantities[rule.of].variables)
        state = campaign_precision(header, rule, self._sample)
        if state.reached or self.checkpoint == header.instances:
            words = state.at_the_end()
            return replace(header, instances=self.checkpoint, stopped=words), words
        self.checkpoint = next(self._to_come)
        return None, state.on_the_way()

    def _add(self, sources: Mapping[range, Source], names: tuple[str, ...]) -> None:
        """Read on up to the checkpoint; only what the rule is about is kept."""
        parts = {name: [self._sample[name]] if self._sample else [] for name in names}
        for part, source in sources.items():
            new = range(max(part.start, self._read), min(part.stop, self.checkpoint))
            if new:
                for name, array in _arrays(source, new, names).items():
                    parts[name].append(array)
        axes = {v.name: v.instance_axis for v in self._header.variables if v.per_instance}
        self._sample = {name: np.concatenate(parts[name], axis=axes[name]) for name in names}
        self._read = self.checkpoint


def _arrays(source: Source, instances: range, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    try:
        return source.read(instances, names)
    except DamagedFileError as damage:
        refuse(damage)


def ended(finished: Finished) -> Header | None:
    """The campaign as it has ended with what is finished, or None if instances are missing.

    Parameters
    ----------
    finished : Finished
        The finished instances, and the campaign: as it began, or as it has ended by its rule.

    Raises
    ------
    UserError
        A file is damaged.
    """
    header = finished.header
    if header.stopped:
        return None if finished.missing(header.instances) else header
    watch = Watch(header)
    while not finished.missing(watch.checkpoint):
        whole, _ = watch.look(finished.sources)
        if whole:
            return whole
    return None
