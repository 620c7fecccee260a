"""In what two campaigns differ: keys of their specs, and the programs that these mean."""

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from mcage.errors import UserError
from mcage.plain_text import shortened, shown

PROGRAMS = "programs"
"""Table of a spec: digests of the programs that it means, by the keys that name them."""

CASES = {
    *(
        "techniques",
        "protections",
        "environments",
        "scenarios",
        "vdd_volts",
        "policies",
        "readings",
    ),
    *("sweep.techniques", "gating.policies"),
}
"""Keys that say which cases there are."""

SAMPLE = {"seed", "instances"}
"""Keys that say which instances there are."""

REPORTED = {"life.report_years", "stopping"}
"""Keys that change no value that is compared."""

NEVER_ALLOWED = {"life.horizon_years", "gating.life.horizon_years"}
"""Keys without which quantities have no common meaning: means of lives up to other horizons."""

EXTENT = {"instances", "stopping"}
"""Keys that decide no instance, also in the specs that a spec is made of."""

ABSENT = "not given"


@dataclass(frozen=True)
class Difference:
    """A key of which two specs have different values.

    Parameters
    ----------
    key : str
        Its name with dots, such as ``aging.model``.
    first, second : str
        Values as text, shortened; ``not given`` where a spec lacks the key. Of digests as many
        digits as tell them apart, 12 at least.
    """

    key: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{shown(self.key)} ({self.first}, {self.second})"


class Digest(str):
    """Fact about a program in a spec: its digest, or another one."""


def digests_apart(first: str, second: str) -> list[str]:
    """The first digits of two digests, as many as tell them apart; any other text as it is."""
    digits = next(n for n in count(_DIGITS) if first[:n] != second[:n])
    return [text[:digits] if _DIGEST.fullmatch(text) else shown(text) for text in (first, second)]


_DIGEST = re.compile("[0-9a-f]{32,}")
_DIGITS = 12


def spec_differences(
    first_toml: str,
    second_toml: str,
    decided_by: Mapping[str, Sequence[str]] | None = None,
    of_a_campaign: bool = False,
) -> list[Difference]:
    """Keys of which two specs have different values, and programs of which they differ.

    Parameters
    ----------
    first_toml, second_toml : str
        Specs as results files hold them.
    decided_by : mapping, optional
        As of `mcage.results.header.Header`: where the specs differ in such a key, the program is
        another one, and not named. None: the study runs none.
    of_a_campaign : bool
        Whether keys that name cases and instances count as well, as long as they decide an
        instance.

    Raises
    ------
    UserError
        A spec is not TOML.
    """
    first, second = (dict(_values(text)) for text in (first_toml, second_toml))
    passed_over = _is_of_extent if of_a_campaign else _is_of_sample
    differing = [
        key
        for key in dict.fromkeys((*first, *second))
        if first.get(key, ABSENT) != second.get(key, ABSENT) and not passed_over(key)
    ]
    programs = [{k for k, v in of.items() if isinstance(v, Digest)} for of in (first, second)]
    keys = [key for key in differing if key not in programs[0] | programs[1]]
    of_keys = [Difference(key, *(_text(of, key) for of in (first, second))) for key in keys]
    if not all(programs):  # what is not known is no difference: `mcage.report.notes` says it
        return of_keys
    of_both = programs[0] & programs[1]
    of_programs = (key for key in differing if key not in keys)
    return of_keys + [
        Difference(key, *digests_apart(first.get(key, ABSENT), second.get(key, ABSENT)))
        for key in of_programs
        if not _is_decided(key, key in of_both, keys, decided_by or {})
    ]


def _text(values: Mapping[str, Any], key: str) -> str:
    return shortened(values[key]) if key in values else ABSENT


def _is_decided(
    program: str, of_both: bool, keys: Sequence[str], decided_by: Mapping[str, Sequence[str]]
) -> bool:
    """Whether one of these keys says by itself that a program is another one, or not there."""
    causes = decided_by.get(program) or ()
    if not of_both:
        causes = causes or decided_by.get(program.partition(": ")[0], ())
    return any(_is_within(key, cause) for cause in causes for key in keys)


def programs_in(spec_toml: str) -> dict[str, str]:
    """Digests of the programs that a spec means, by the keys that name them.

    Raises
    ------
    UserError
        The spec is not TOML.
    """
    return {key: value for key, value in _values(spec_toml) if isinstance(value, Digest)}


def without_changed(
    programs: Mapping[str, str], keys: Sequence[str], decided_by: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Programs of a spec but for those that a change of some of its keys makes other ones."""
    return {
        program: digest
        for program, digest in programs.items()
        if not _is_decided(program, True, keys, decided_by)
    }


def refuse_other_programs(wanted: Mapping[str, str] | None, programs: Mapping[str, str]) -> None:
    """Refuse programs that are not those of a spec.

    Parameters
    ----------
    wanted : mapping of str to str or None
        Digests in the spec, by the keys that name the programs. Those of other programs than
        there are say nothing.
    programs : mapping of str to str
        Digests of the programs that there are.

    Raises
    ------
    UserError
        Two differ; the message names the keys and both digests.
    """
    others = [
        Difference(key, *digests_apart(digest, programs[key]))
        for key, digest in (wanted or {}).items()
        if programs.get(key, digest) != digest
    ]
    if others:
        raise UserError(
            f"{', '.join(map(str, others))}: the spec is of the first, and the second is what is "
            "here now; put the first back, or take the second: --set programs={}"
        )


def options(keys: Sequence[str]) -> str:
    """Options of `mcage compare` that allow keys to differ."""
    return " ".join(f"--allow {shlex.quote(shown(key))}" for key in keys)


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
        if name == PROGRAMS and isinstance(content, Mapping):
            yield from ((f"{above}{key}", Digest(text)) for key, text in content.items())
        elif isinstance(content, Mapping):
            yield from _flat(content, f"{above}{name}.")
        else:
            yield f"{above}{name}", content


def _is_of_sample(key: str) -> bool:
    return key in CASES | SAMPLE or any(_is_within(key, other) for other in REPORTED)


def _is_of_extent(key: str) -> bool:
    return not EXTENT.isdisjoint(key.split("."))


def _is_within(key: str, section: str) -> bool:
    return f"{key}.".startswith(f"{section}.")
