"""``mcage merge``."""


def merge() -> None:
    """Not written yet."""
    raise NotImplementedError
