"""Operating points of an environment of one's own: what of them makes sense together."""

import math
import re
from collections.abc import Sequence

from mcage.distributions import Distribution
from mcage.plain_text import one_line, shortened

PRESETS = ("nominal", "undervolted", "dvfs")
"""Environments that need no definition."""

PRESETS_AT_SCENARIO_VDD = ("undervolted", "dvfs")
"""Those with an operating point at the low Vdd of the scenario."""

NAME = re.compile(r"[A-Za-z0-9_.+-]+")


def check_name(name: str) -> None:
    """Refuse a name that stands for something else, or would make a label hard to read.

    Raises
    ------
    ValueError
        The message says what is wrong.
    """
    if name in PRESETS:
        raise ValueError(f"environment.{name}: this is the name of a preset; choose another")
    if not NAME.fullmatch(name):
        raise ValueError(
            f"environment.{one_line(name)}: a name is of letters, digits, and any of _ . + -, "
            "without spaces"
        )


def check_shares(name: str, shares: Sequence[Distribution | None]) -> None:
    """Refuse shares of the time that cannot sum to 1.

    Parameters
    ----------
    name : str
        Name of the environment.
    shares : sequence of Law or None
        One for each point; None takes what the others leave.

    Raises
    ------
    ValueError
        The message says what is wrong.
    """
    laws = [law for law in shares if law is not None]
    for number, law in enumerate(shares):
        if law is not None and law.bounds[0] <= 0:
            given = law.numbers[0] if law.is_constant else shortened(str(law))
            raise ValueError(
                f"environment.{name}.{number}.share = {given}: must be above 0 in every instance"
            )
    rests = len(shares) - len(laws)
    most = math.fsum(law.bounds[1] for law in laws)
    if rests > 1:
        raise ValueError(f"environment.{name}: {rests} points leave out their share; one may")
    if rests and most >= 1:
        raise ValueError(
            f"environment.{name}: the shares given may sum to {most:.10g}, and leave nothing to "
            "the point without one; they must stay below 1"
        )
    if rests:
        return
    if not all(law.is_constant for law in laws):
        raise ValueError(
            f"environment.{name}: where a share is a law, one point must leave its share out, and "
            "gets the rest"
        )
    if abs(most - 1) > 1e-9:
        raise ValueError(
            f"environment.{name}: shares sum to {most:.10g}, not to 1; one point may leave its "
            "share out, and gets the rest"
        )


def check_offset(
    name: str, number: int, offset_kelvin: float, temperature: Distribution, swing: Distribution
) -> None:
    """Refuse a point that may be colder than 200 K or hotter than 450 K.

    Parameters
    ----------
    name, number : str, int
        Environment and number of the point.
    offset_kelvin : float
        What the point is hotter than the slice is otherwise.
    temperature, swing : Law
        Temperature of the slice otherwise, and what it is hotter than that in an epoch.

    Raises
    ------
    ValueError
        The message says what is wrong.
    """
    low, high = (
        kelvin + hotter + offset_kelvin
        for kelvin, hotter in zip(temperature.bounds, swing.bounds, strict=True)
    )
    if not 200 <= low <= high <= 450:
        raise ValueError(
            f"environment.{name}.{number}.temperature_offset_kelvin = {offset_kelvin:g}: with "
            f"life.temperature_kelvin and its swing, the point is at {low:g} ... {high:g} K; it "
            "must stay within 200 ... 450 K"
        )
