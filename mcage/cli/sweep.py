"""``mcage sweep``."""


def sweep() -> None:
    """Not written yet."""
    raise NotImplementedError
