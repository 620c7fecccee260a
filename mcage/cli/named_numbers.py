"""Options of the form NAME=NUMBER."""

from mcage.errors import UserError
from mcage.plain_text import one_line


def named_numbers(option: str, given: list[str] | None) -> dict[str, float | str] | None:
    """Numbers by name; a word stays a word, for the spec to judge.

    Raises
    ------
    UserError
        If a text is not NAME=VALUE, or a name comes twice.
    """
    if not given:
        return None
    found: dict[str, float | str] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UserError(f"{option} {one_line(text)}: NAME=VALUE is needed, such as eta=0.3")
        if name in found:
            raise UserError(f"{option} {one_line(text)}: {one_line(name)} is given twice")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = value
    return found
