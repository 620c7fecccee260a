"""``mcage trace`` as a user runs it: what it prints if it succeeds, and if it fails."""

import pytest
from command_line import run_mcage

from mcage.cli.main import main


def run(*arguments):
    """Output of a command that must succeed."""
    return run_mcage("trace", *arguments)


def run_badly(monkeypatch, capsys, *arguments):
    """What a command prints that must fail as the user's mistake."""
    monkeypatch.setattr("sys.argv", ["mcage", "trace", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    return capsys.readouterr()
