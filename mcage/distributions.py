"""Distributions of numbers that differ from instance to instance, in a grammar of four forms.

    353.15  or  constant(353.15)
    uniform(340, 360)
    normal(353, 5)  or  normal(353, 5, 340, 370)
    discrete(340: 0.3, 360: 0.7)

Every distribution is bounded, so that its range can be checked before anything is drawn, and
nothing is ever clipped. A normal distribution is truncated: at the bounds given, or at four
standard deviations.
"""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.plain_text import one_line, shortened

TRUNCATED_AT = 4.0
"""Standard deviations at which a normal distribution without bounds is truncated; one draw in
16,000 of the untruncated one lies beyond."""

FORMS = "a number, constant(x), uniform(a, b), normal(mean, sigma), discrete(x: share, ...)"


@dataclass(frozen=True)
class Distribution:
    """How a number varies from instance to instance.

    Parameters
    ----------
    form : str
        ``constant``, ``uniform``, ``normal`` or ``discrete``.
    numbers : tuple of float
        Of ``constant`` the value; of ``uniform`` the two ends; of ``normal`` mean, standard
        deviation and two bounds; of ``discrete`` the values, in rising order.
    shares : tuple of float
        Of ``discrete``, the probability of each value; otherwise empty.
    """

    form: str
    numbers: tuple[float, ...]
    shares: tuple[float, ...] = ()

    @classmethod
    def of(cls, text: float | str) -> Self:
        """Read a distribution from a number or a text.

        Raises
        ------
        ValueError
            If the text is no distribution; the message says what is wrong.
        """
        if not isinstance(text, str):
            return cls("constant", (_finite(text),))
        match = re.fullmatch(r"\s*([a-z]+)\s*\((.*)\)\s*", text)
        if not match:
            raise ValueError(f"must be {FORMS}")
        form, inner = match[1], [part.strip() for part in match[2].split(",")]
        match form:
            case "constant":
                return cls(form, _numbers(inner, "constant(x)", 1))
            case "uniform":
                low, high = _numbers(inner, "uniform(a, b)", 2)
                if not low < high:
                    raise ValueError("uniform(a, b) needs a < b")
                return cls(form, (low, high))
            case "normal":
                return cls(form, _normal(inner))
            case "discrete":
                return cls(form, *_discrete(inner))
            case _:
                raise ValueError(f"{shortened(form)} is no distribution; must be {FORMS}")

    @property
    def is_constant(self) -> bool:
        """Whether all instances have the same number."""
        return self.form == "constant"

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest number that may be drawn."""
        return (self.numbers[2], self.numbers[3]) if self.form == "normal" else self._ends

    @property
    def _ends(self) -> tuple[float, float]:
        return self.numbers[0], self.numbers[-1]

    def at(self, uniform: ArrayLike) -> NDArray[np.float64]:
        """Quantiles at numbers; a draw is the quantile at a uniformly distributed number.

        Parameters
        ----------
        uniform : float64, any shape
            Cumulative probabilities, 0 <= ``uniform`` < 1.

        Returns
        -------
        float64
            An array of the same shape.
        """
        ranks = np.asarray(uniform, dtype=np.float64)
        match self.form:
            case "constant":
                values = np.full(ranks.shape, self.numbers[0])
            case "uniform":
                low, high = self.numbers
                values = low + (high - low) * ranks
            case "normal":
                from scipy.special import ndtri

                below, within = self._probabilities
                mean, sigma, low, high = self.numbers
                # Bounds again, for what rounding puts beyond them.
                values = np.clip(mean + sigma * ndtri(below + within * ranks), low, high)
            case _:
                # Rounding may leave the last sum below a number.
                reached = np.cumsum(self.shares)[:-1]
                values = np.array(self.numbers)[np.searchsorted(reached, ranks, side="right")]
        return np.asarray(values)

    @cached_property
    def _probabilities(self) -> tuple[float, float]:
        """Probability that the untruncated normal lies below the bounds, and between them."""
        mean, sigma, low, high = self.numbers
        below, above = (0.5 * math.erfc((mean - x) / (sigma * math.sqrt(2))) for x in (low, high))
        return below, above - below

    def __str__(self) -> str:
        """Text from which `of` reads the same distribution."""
        if self.form == "discrete":
            pairs = zip(self.numbers, self.shares, strict=True)
            return f"discrete({', '.join(f'{value!r}: {share!r}' for value, share in pairs)})"
        return f"{self.form}({', '.join(map(repr, self.numbers))})"


def _finite(number: float | str) -> float:
    try:
        value = float(number)
    except (ValueError, OverflowError):
        raise ValueError(f"{shortened(number)} is no number; must be {FORMS}") from None
    if not math.isfinite(value):
        raise ValueError(f"{one_line(str(number))} is no finite number")
    return value


def _numbers(parts: list[str], form: str, count: int) -> tuple[float, ...]:
    if len(parts) != count:
        raise ValueError(f"{form} takes {count} number{'s' * (count > 1)}, not {len(parts)}")
    return tuple(_finite(part) for part in parts)


def _normal(parts: list[str]) -> tuple[float, ...]:
    form = "normal(mean, sigma) or normal(mean, sigma, lowest, highest)"
    if len(parts) not in (2, 4):
        raise ValueError(f"{form} takes 2 or 4 numbers, not {len(parts)}")
    mean, sigma, *bounds = (_finite(part) for part in parts)
    if not sigma > 0:
        raise ValueError(f"{form} needs sigma > 0; without a spread, write the number")
    if not bounds:
        bounds = [mean - TRUNCATED_AT * sigma, mean + TRUNCATED_AT * sigma]
    low, high = bounds
    if not low < high or not low <= mean <= high:
        raise ValueError(f"{form} needs lowest < highest, and the mean between them")
    return mean, sigma, low, high


def _discrete(parts: list[str]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    form = "discrete(x: share, ...)"
    pairs = [part.split(":") for part in parts]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{form} needs a share for every value, such as 340: 0.3")
    sorted_pairs = sorted(
        (_finite(value.strip()), _finite(share.strip())) for value, share in pairs
    )
    values, shares = (tuple(column) for column in zip(*sorted_pairs, strict=True))
    if len(set(values)) < len(values):
        raise ValueError(f"{form} names one value twice")
    total = math.fsum(shares)
    if min(shares) <= 0 or abs(total - 1) > 1e-9:
        raise ValueError(f"{form} needs shares above 0 that sum to 1, not to {total:.10g}")
    return values, shares
