"""``mcage replay``."""


def replay() -> None:
    """Not written yet."""
    raise NotImplementedError
