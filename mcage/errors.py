"""The error that the user can mend, and the remedy that several messages name."""


class UserError(Exception):
    """A mistake in the input: says what is wrong, where (file, key, value), what would be right.

    The command line prints it in one or two lines and exits with code 2; nothing is left
    half-written. Everything else that is raised is a defect of mcage itself (exit code 1).

    Parameters
    ----------
    message : str
        What is wrong.
    command : str
        Command line that mends it, if there is one; printed whole in a line for itself.
    """

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


def pip_install(*extras: str) -> str:
    """Command that installs any of these extras, of a clone: no index of packages has mcage.

    Parameters
    ----------
    *extras : str
        Names as in ``pyproject.toml``.
    """
    names = " or ".join(f"'.[{extra}]'" for extra in extras)
    return f"pip install {names} in a clone of mcage"
