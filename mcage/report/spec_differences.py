"""In what the specs of two results files differ, key by key."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcage.errors import UserError
from mcage.plain_text import shortened, shown

CASES = {
    *("techniques", "environments", "scenarios", "vdd_volts", "policies", "readings"),
    *("sweep.techniques", "gating.policies"),
}
"""Keys that say which cases there are."""

SAMPLE = {"seed", "instances"}
"""Keys that say which instances there are."""

REPORTED = {"life.report_years", "stopping"}
"""Keys that change no value that is compared."""

NEVER_ALLOWED = {"life.horizon_years", "gating.life.horizon_years"}
"""Keys without which quantities have no common meaning: means of lives up to other horizons."""

ABSENT = "not given"


@dataclass(frozen=True)
class Difference:
    """A key of which two specs have different values.

    Parameters
    ----------
    key : str
        Its name with dots, such as ``aging.model``.
    first, second : str
        Values as text, shortened; ``not given`` where a spec lacks the key.
    """

    key: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{shown(self.key)} ({self.first}, {self.second})"


def spec_differences(first_toml: str, second_toml: str) -> list[Difference]:
    """Keys of which two specs have different values, but for those that name cases or instances.

    Parameters
    ----------
    first_toml, second_toml : str
        Specs as results files hold them.

    Raises
    ------
    UserError
        A spec is not TOML.
    """
    first, second = (dict(_values(text)) for text in (first_toml, second_toml))
    return [
        Difference(key, *(shortened(of[key]) if key in of else ABSENT for of in (first, second)))
        for key in dict.fromkeys((*first, *second))
        if first.get(key, ABSENT) != second.get(key, ABSENT) and not _is_of_sample(key)
    ]


def options(keys: Sequence[str]) -> str:
    """Options of `mcage compare` that allow keys to differ."""
    return " ".join(f"--allow {shown(key)}" for key in keys)


def refuse_unmeant(
    differences: Sequence[Difference],
    allowed: Sequence[str],
    keys: Sequence[str],
    asking: Callable[[Sequence[str]], str] = options,
) -> None:
    """Refuse differences that nobody has said to be meant.

    Parameters
    ----------
    differences : sequence of Difference
        In what the specs differ.
    allowed : sequence of str
        Keys that may differ; a section such as ``aging`` stands for all keys in it.
    keys : sequence of str
        Keys of both specs.
    asking : callable
        Says how the user allows keys.

    Raises
    ------
    UserError
        A key differs that is not allowed, or that cannot be allowed; or no spec has an allowed key.
    """
    for key in allowed:
        if not any(_is_within(other, key) for other in keys):
            raise UserError(f"{asking([key])}: neither spec has such a key")
    hopeless = [of for of in differences if of.key in NEVER_ALLOWED]
    if hopeless:
        raise UserError(
            f"the specs differ in {hopeless[0]}: means up to different horizons have no common "
            "meaning"
        )
    unmeant = [of for of in differences if not any(_is_within(of.key, key) for key in allowed)]
    if unmeant:
        raise UserError(
            f"the specs differ in {', '.join(map(str, unmeant))}; if this is what you compare: "
            f"{asking([of.key for of in unmeant])}"
        )


def keys_of(*specs_toml: str) -> list[str]:
    """All keys of some specs, with dots."""
    return [key for text in specs_toml for key, _ in _values(text)]


def _values(spec_toml: str) -> Iterator[tuple[str, Any]]:
    try:
        return _flat(tomllib.loads(spec_toml))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError("attribute spec: is not TOML") from error


def _flat(section: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, content in section.items():
        if isinstance(content, Mapping):
            yield from _flat(content, f"{above}{name}.")
        else:
            yield f"{above}{name}", content


def _is_of_sample(key: str) -> bool:
    return key in CASES | SAMPLE or any(_is_within(key, other) for other in REPORTED)


def _is_within(key: str, section: str) -> bool:
    return f"{key}.".startswith(f"{section}.")
