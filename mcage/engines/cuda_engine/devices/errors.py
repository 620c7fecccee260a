"""What goes wrong with devices, in words that a user can act on."""

from mcage.errors import UserError


class NoDeviceError(UserError):
    """No device can be used.

    Parameters
    ----------
    why : str
        In a few words.
    remedy : str
        What would help, if anything is known to.
    """

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(f"engine 'cuda': {why}" + (f"; {remedy}" if remedy else ""))
        self.why = why
        self.remedy = remedy


class DeviceError(UserError):
    """A device failed at work."""


class OutOfDeviceMemoryError(DeviceError, MemoryError):
    """A device has no room for what is asked of it: smaller batches may help."""


def first_line(error: BaseException) -> str:
    """First line of an error's message, or its kind if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def causes(error: BaseException) -> list[BaseException]:
    """An error, and those that led to it: the first of them last."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    return chain
