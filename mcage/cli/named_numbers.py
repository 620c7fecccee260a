"""Options of the form NAME=NUMBER."""

from collections.abc import Sequence

from mcage.errors import UserError
from mcage.plain_text import one_line


def named_numbers(option: str, given: Sequence[str]) -> dict[str, float | str]:
    """Read numbers by name; a word stays a word, for the spec to judge.

    Raises
    ------
    UserError
        If a text is not NAME=VALUE, or a name comes twice.
    """
    numbers: dict[str, float | str] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UserError(f"{option} {one_line(text)}: NAME=VALUE is needed, such as eta=0.3")
        if name in numbers:
            raise UserError(f"{option} {one_line(text)}: {one_line(name)} is given twice")
        try:
            numbers[name] = float(value)
        except ValueError:
            numbers[name] = value
    return numbers
