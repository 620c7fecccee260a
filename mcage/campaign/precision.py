"""How precisely a campaign knows the quantity of its stopping rule, as numbers and in words."""

import math
from dataclasses import dataclass

from mcage.results.header import Header, StoppingRule
from mcage.results.quantity import Sample
from mcage.stats.precision import Precision

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
        return self._worst[1].relative <= self.rule.rel_ci

    def on_the_way(self) -> str:
        """One line for those who watch."""
        return f"{self.instances} instances: {self._worst_in_words()}; {self._needed((1,))}"

    def at_the_end(self) -> str:
        """One line that says with what the campaign ends, and what more instances would bring."""
        asked = f"{self.rule.of} to {_percent(self.rule.rel_ci)}"
        if any(self.cases):  # a quantity of a single part has no label
            asked += " in every case"
        if self.reached:
            begin = f"{asked} with {self.instances} of at most {self.header.instances} instances"
        else:
            short = sum(case.relative > self.rule.rel_ci for case in self.cases.values())
            begin = (
                f"NOT {asked}: all {self.instances} instances are computed, and {short} of "
                f"{len(self.cases)} fall short"
            )
        known = sum(case.relative == 0.0 for case in self.cases.values())
        if known == len(self.cases):
            return f"{begin}; no case can become tighter"
        parts = [begin, f"worst: {self._worst_in_words()}"]
        if known:
            parts.append(f"{known} of {len(self.cases)} cannot become tighter")
        parts.append(self._needed(TIGHTER if self.reached else (1, *TIGHTER)))
        return "; ".join(parts)

    @property
    def _worst(self) -> tuple[str, Precision]:
        return max(self.cases.items(), key=lambda case: case[1].relative)

    def _worst_in_words(self) -> str:
        label, precision = self._worst
        value = self.header.quantities[self.rule.of].in_words(precision.estimate)
        return f"{label} {value} ({_percent(precision.relative)})".lstrip()

    def _needed(self, factors: tuple[int, ...]) -> str:
        """Instances for intervals narrower than asked for: they shrink with the root of these."""
        worst = self._worst[1].relative
        if math.isinf(worst):
            return "how many instances would do cannot be told"

        def needed(wanted: float) -> str:
            if worst <= wanted:
                return f"{_percent(wanted)} is reached, too"
            number = _two_digits(self.instances * (worst / wanted) ** 2)
            return f"{_percent(wanted)} needs about {number}"

        return ", ".join(needed(self.rule.rel_ci / factor) for factor in factors)


def campaign_precision(header: Header, rule: StoppingRule, sample: Sample) -> CampaignPrecision:
    """Precision of the first instances of a campaign.

    Parameters
    ----------
    header, rule
        As of `CampaignPrecision`.
    sample : mapping of str to ndarray
        What the quantity is computed from, with the dimensions that the study declares.
    """
    quantity = header.quantities[rule.of]
    name = quantity.variables[0]
    axis = next(v.instance_axis for v in header.variables if v.name == name)
    return CampaignPrecision(header, rule, sample[name].shape[axis], quantity.precisions(sample))


def _percent(relative: float) -> str:
    return "no relative precision" if math.isinf(relative) else f"±{100 * relative:.2g} %"


def _two_digits(number: float) -> int:
    """Number rounded up to two digits."""
    unit = 10.0 ** max(0, math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / unit) * unit)
