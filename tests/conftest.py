"""What tests of whole commands have in common."""

import sys

import fake_campaign
import pytest
from campaign_cases import CAMPAIGN

from mcage.campaign.run import run_campaign
from mcage.campaign.study import Study
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


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted") / "r.h5"
    run_campaign(Study(CAMPAIGN, fake_campaign.compute), out, 20)
    return out.read_bytes()
