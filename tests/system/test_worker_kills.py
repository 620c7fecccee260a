"""Workers and clients killed at random: a sample of what a script does two hundred times."""

import os
import random
import sys

import check_worker_kills
import darts
import pytest

from mcage.campaign.run import run_campaign

pytestmark = pytest.mark.slow

COMMAND = """
import sys
from pathlib import Path
import darts
from mcage.campaign.processes import Processes
from mcage.campaign.run import run_campaign
from mcage.errors import UserError
place, out = sys.argv[1:]
study = darts.pi_by_darts(400, seconds_per_shard=0.05)
try:
    with Processes(2) if place == "processes" else darts.dask_workers(2) as executor:
        run_campaign(study, Path(out), 10, executor=executor)
except (UserError, RuntimeError) as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.parametrize(("place", "kills", "longest"), [("processes", 4, 1.0), ("Dask", 2, 4.0)])
def test_kills_of_workers_and_clients(place, kills, longest, tmp_path, monkeypatch):
    if place == "Dask":
        pytest.importorskip("distributed")
        ends = (*check_worker_kills.ENDS_OF_KILLS, "failed to start")
        monkeypatch.setattr(check_worker_kills, "ENDS_OF_KILLS", ends)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    study = darts.pi_by_darts(400, seconds_per_shard=0.05)
    whole = run_campaign(study, tmp_path / "whole.h5", 400)
    out = tmp_path / "killed" / "pi.h5"
    out.parent.mkdir()
    campaign = check_worker_kills.Campaign(
        [sys.executable, "-c", COMMAND, place, os.fspath(out)],
        out,
        whole.read_bytes(),
        random.Random(3),
        longest,
    )
    campaign.survive(kills)
    assert campaign.kills.total() == kills
    assert campaign.files
