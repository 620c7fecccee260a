"""``mcage techniques``."""


def techniques() -> None:
    """Not written yet."""
    raise NotImplementedError
