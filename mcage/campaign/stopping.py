"""When a sweep may end before its last instance: once a quantity is known well enough.

A campaign is looked at only when it holds the first n instances, for n from a fixed list. What is
computed therefore depends on the lives alone: not on shards, threads or kills. A campaign that
ends with n instances holds what one of n instances without a rule holds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcage.campaign.precision import campaign_precision
from mcage.campaign.ranges import unfinished
from mcage.campaign.shard import read_shard
from mcage.campaign.shard_folder import refuse
from mcage.errors import UserError
from mcage.files.checksum import DamagedFileError
from mcage.results.header import StoppingRule, SweepHeader
from mcage.spec import SweepSpec
from mcage.sweep.stopping_quantities import QUANTITIES
from mcage.variation import scenario

FIRST_LOOK = 500
PREFERRED_NUMBERS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0)
"""Renard's series R10 (ISO 3): ten steps of nearly equal ratio to a decade."""


def stopping_rule(spec: SweepSpec) -> StoppingRule | None:
    """Rule that a spec asks for, or None.

    Raises
    ------
    UserError
        Slices are not independent, so that intervals over slices must not be relied on.
    """
    if spec.stopping is None:
        return None
    slices, sigma_volts = spec.faults.slices_per_chip, spec.faults.sigma_die_volts
    dies_differ = any(
        (scenario(name).sigma_die_volts if sigma_volts is None else sigma_volts) > 0
        for name in spec.scenarios
    )
    if slices > 1 and dies_differ:
        raise UserError(
            f"stopping.rel_ci = {spec.stopping.rel_ci:g}: {slices} slices share each die, and dies "
            "differ: slices are not independent, and their intervals too narrow to stop by; leave "
            "it out, or set faults.slices_per_chip = 1"
        )
    return StoppingRule(spec.stopping.rel_ci, spec.stopping.of, slices)


def checkpoints(most: int, slices_per_chip: int = 1) -> list[int]:
    """Numbers of instances at which a campaign of ``most`` may end, rising; the last is all."""
    chip = slices_per_chip
    of_whole_chips = (-(-number // chip) * chip for number in _preferred_numbers())
    earlier = takewhile(lambda number: number < most, of_whole_chips)
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
    campaign : Campaign
        As it began: with all of its instances.

    Attributes
    ----------
    checkpoint : int
        Instances that must be finished before the next look.
    """

    def __init__(self, campaign: SweepHeader) -> None:
        self._campaign = campaign
        rule, most = campaign.stopping, campaign.instances
        self._to_come = iter(checkpoints(most, rule.slices_per_chip) if rule else [most])
        self._sample: dict[str, NDArray[Any]] = {}
        self._read = 0
        self.checkpoint = next(self._to_come)

    def look(self, shards: Mapping[range, Path]) -> tuple[SweepHeader | None, str]:
        """Look at the instances up to the checkpoint; if they are not enough, go on to the next.

        Parameters
        ----------
        shards : mapping of range to Path
            Files by instances, in rising order, that hold all instances up to the checkpoint.

        Returns
        -------
        campaign, words
            The campaign as it has ended, or None; and how precise it is in words, empty without
            a rule.

        Raises
        ------
        UserError
            A shard is damaged.
        """
        campaign, rule = self._campaign, self._campaign.stopping
        if rule is None:
            return campaign, ""
        self._add(shards, QUANTITIES[rule.of].variables)
        state = campaign_precision(campaign, rule, self._sample)
        if state.reached or self.checkpoint == campaign.instances:
            words = state.at_the_end()
            return replace(campaign, instances=self.checkpoint, stopped=words), words
        self.checkpoint = next(self._to_come)
        return None, state.on_the_way()

    def _add(self, shards: Mapping[range, Path], names: tuple[str, ...]) -> None:
        """Read on up to the checkpoint; of a shard only what the rule is about is kept."""
        parts = {name: [self._sample[name]] if self._sample else [] for name in names}
        for instances, path in shards.items():
            if self._read <= instances.start and instances.stop <= self.checkpoint:
                for name, array in _arrays(path, names).items():
                    parts[name].append(array)
        self._sample = {name: np.concatenate(arrays, axis=1) for name, arrays in parts.items()}
        self._read = self.checkpoint


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    try:
        return read_shard(path, names)
    except DamagedFileError as damage:
        refuse(path, damage)


def ended(campaign: SweepHeader, shards: Mapping[range, Path]) -> SweepHeader | None:
    """The campaign as it has ended with these shards, or None if instances are missing.

    Parameters
    ----------
    campaign : Campaign
        As it began.
    shards : mapping of range to Path
        Files by instances, in rising order.

    Raises
    ------
    UserError
        A shard is damaged.
    """
    watch = Watch(campaign)
    while not unfinished(watch.checkpoint, shards):
        whole, _ = watch.look(shards)
        if whole:
            return whole
    return None
