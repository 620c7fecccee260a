"""Names of files in messages."""

from pathlib import Path

LONGEST_SHOWN = 200


def shown(path: Path) -> str:
    """Path for a message: bytes that are no UTF-8 escaped, the middle of a long one left out."""
    text = str(path).encode("utf-8", "backslashreplace").decode()
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[: LONGEST_SHOWN // 2]}…{text[-LONGEST_SHOWN // 2 :]}"
