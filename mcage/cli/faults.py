"""``mcage faults``."""


def faults() -> None:
    """Not written yet."""
    raise NotImplementedError
