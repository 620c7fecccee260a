"""When a campaign may end before its last instance: once a quantity is known well enough.

A campaign is looked at only when it holds the first n instances, for n from a fixed list. What is
computed therefore depends on the instances alone: not on shards, threads or kills. A campaign that
ends with n instances holds what one of n instances without a rule holds.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.finished import Finished, Source, refuse_damaged
from mcage.files.inputs import DamagedFileError
from mcage.results.header import Header, StoppingRule
from mcage.stats.estimates import CONFIDENCE
from mcage.stats.survival import Precision

# How precisely a campaign knows the quantity of its stopping rule, as numbers and in words.

TIGHTER = (2, 10)
"""For intervals so many times narrower it is said how many instances they need."""


@dataclass(frozen=True)
class CampaignPrecision:
    """How precise a campaign is with its first instances.

    Parameters
    ----------
    header : Header
        The campaign as it began: with all of its instances.
    rule : StoppingRule
        Its rule.
    instances : int
        How many are looked at.
    cases : dict of str to Precision
        By label, as the quantity names its parts.
    """

    header: Header
    rule: StoppingRule
    instances: int
    cases: dict[str, Precision]

    @property
    def reached(self) -> bool:
        """Whether every case is as precise as the rule asks."""
        return self._width(self._worst[1]) <= self.rule.limit

    def on_the_way(self) -> str:
        """One line for those who watch."""
        return f"{self.instances} instances: {self._worst_in_words()}; {self._needed((1,))}"

    def at_the_end(self) -> str:
        """One line that says with what the campaign ends, and what more instances would bring."""
        asked = f"{self.rule.of} to {self._written(self.rule.limit)}"
        if any(self.cases):  # a quantity of a single part has no label
            asked += " in every case"
        if self.reached:
            begin = f"{asked} with {self.instances} of at most {self.header.instances} instances"
        else:
            short = sum(self._width(case) > self.rule.limit for case in self.cases.values())
            begin = (
                f"NOT {asked}: all {self.instances} instances are computed, and {short} of "
                f"{len(self.cases)} fall short"
            )
        known = sum(self._width(case) == 0.0 for case in self.cases.values())
        if known == len(self.cases):
            return f"{begin}; no case can become tighter"
        parts = [begin, f"worst: {self._worst_in_words()}"]
        if known:
            parts.append(f"{known} of {len(self.cases)} cannot become tighter")
        parts.append(self._needed(TIGHTER if self.reached else (1, *TIGHTER)))
        return "; ".join(parts)

    @property
    def _worst(self) -> tuple[str, Precision]:
        return max(self.cases.items(), key=lambda case: self._width(case[1]))

    def _worst_in_words(self) -> str:
        label, precision = self._worst
        value = self.header.quantities[self.rule.of].in_words(precision.estimate)
        return f"{label} {value} ({self._written(self._width(precision))})".lstrip()

    def _width(self, precision: Precision) -> float:
        return self.rule.width(precision)

    def _written(self, width: float) -> str:
        """Half-width in words: relative ones in percent, with its level where it is unusual."""
        if self.rule.margin is not None:
            words = "no interval" if math.isinf(width) else f"±{width:.2g}"
        else:
            words = "no relative precision" if math.isinf(width) else f"±{100 * width:.2g} %"
        return words if self.rule.level == CONFIDENCE else f"{words} at {self.rule.level:.10g}"

    def _needed(self, factors: tuple[int, ...]) -> str:
        """Instances for intervals narrower than asked for: they shrink with the root of these."""
        worst = self._width(self._worst[1])
        if math.isinf(worst):
            return "the number of instances that would do is unknown"

        def needed(wanted: float) -> str:
            if worst <= wanted:
                return f"{self._written(wanted)} is reached, too"
            number = _two_digits(self.instances * (worst / wanted) ** 2)
            return f"{self._written(wanted)} needs about {number}"

        return ", ".join(needed(self.rule.limit / factor) for factor in factors)


def _two_digits(number: float) -> int:
    """Number rounded up to two digits."""
    unit = 10.0 ** max(0, math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / unit) * unit)


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
        quantity = header.quantities[rule.of]
        self._add(sources, quantity.variables)
        precisions = quantity.precisions(self._sample, rule.level)
        state = CampaignPrecision(header, rule, self.checkpoint, precisions)
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
            if not new:
                continue
            try:
                arrays = source.read(new, names)
            except DamagedFileError as damage:
                refuse_damaged(source.path, damage)
            for name in names:
                parts[name].append(arrays[name])
        axes = {v.name: v.instance_axis for v in self._header.variables if v.per_instance}
        self._sample = {name: np.concatenate(parts[name], axis=axes[name]) for name in names}
        self._read = self.checkpoint


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
