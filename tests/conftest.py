"""What tests of whole commands have in common."""

import sys

import pytest

from mcage.cli import main


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """`mcage` in an empty folder: exit code, text on stdout, text on stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mcage", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main.main()
        captured = capsys.readouterr()
        return leaving.value.code or 0, captured.out, captured.err

    return run
