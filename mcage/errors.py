"""The error that the user can mend."""


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
