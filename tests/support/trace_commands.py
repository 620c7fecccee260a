"""``mcage trace`` as a user runs it: what it prints if it succeeds, and if it fails."""

import pytest
from typer.testing import CliRunner

from mcage.cli.app import app
from mcage.cli.main import main


def run(*arguments):
    """Output of a command that must succeed."""
    result = CliRunner().invoke(app, ["trace", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def run_badly(monkeypatch, capsys, *arguments):
    """What a command prints that must fail as the user's mistake."""
    monkeypatch.setattr("sys.argv", ["mcage", "trace", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    return capsys.readouterr()
