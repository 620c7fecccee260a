"""Engines that number the writes of all traces through, in codes with room for so many."""

from mcage.errors import UserError


def check_writes(writes: int, most: int, engine: str) -> None:
    """Refuse traces with more register writes together than an engine can number.

    Parameters
    ----------
    writes, most : int
        Register writes of the traces, and of how many the codes of the engine can tell the number.
    engine : str
        Its name.

    Raises
    ------
    UserError
        There are more.
    """
    if writes > most:
        raise UserError(
            f"the traces have {writes:,} register writes together; the {engine} engine takes "
            f"{most:,} at most: give it fewer traces, or shorter ones"
        )
