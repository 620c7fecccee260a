"""Workers and clients killed at random: a sample of what a script does two hundred times."""

import os
import random
import sys

import check_worker_kills
import darts
import pytest

from mcage.campaign.run import run_campaign

COMMAND = """
import sys
from pathlib import Path
import darts
from mcage.campaign.processes import Processes
from mcage.campaign.run import run_campaign
from mcage.errors import UserError
study = darts.pi_by_darts(400, seconds_per_shard=0.05)
try:
    with Processes(2) as executor:
        run_campaign(study, Path(sys.argv[1]), 10, executor=executor)
except UserError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.slow
def test_kills_of_workers_and_clients(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    study = darts.pi_by_darts(400, seconds_per_shard=0.05)
    whole = run_campaign(study, tmp_path / "whole.h5", 400).read_bytes()
    out = tmp_path / "killed" / "pi.h5"
    out.parent.mkdir()
    command = [sys.executable, "-c", COMMAND, os.fspath(out)]
    campaign = check_worker_kills.Campaign(command, out, whole, random.Random(3), longest=1.0)
    campaign.survive(4)
    assert campaign.kills.total() == 4
    assert campaign.files
