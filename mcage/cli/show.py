"""``mcage show``."""


def show() -> None:
    """Not written yet."""
    raise NotImplementedError
