"""Campaigns that are interrupted and continued."""

import fake_campaign
import pytest

from mcage.campaign.run import run_campaign
from mcage.campaign.shards import shard_folder
from mcage.campaign.study import Study
from mcage.errors import UserError

STUDY = fake_campaign.study(instances=20)
CAMPAIGN = STUDY.header


class Listener:
    """Progress that remembers."""

    def __init__(self):
        self.said, self.advanced, self.begin = [], 0, None

    def start(self, total, done):
        self.begin = (total, done)

    def advance(self, instances):
        self.advanced += instances

    def say(self, message):
        self.said.append(message)

    def finish(self):
        self.finished = True


class Computer:
    """Fake compute that remembers its ranges and stops after some of them."""

    def __init__(self, stop_after=None, error=KeyboardInterrupt):
        self.ranges, self.stop_after, self.error = [], stop_after, error

    def __call__(self, first, last):
        if len(self.ranges) == self.stop_after:
            raise self.error
        self.ranges.append((first, last))
        return fake_campaign.compute(first, last)


class ExecutorOf:
    """An executor that is a function of a study and tasks."""

    workers = 1

    def __init__(self, run):
        self.run = run


def interrupt(out, shard_size=3, finished=2, campaign=CAMPAIGN):
    """Leave the folder of a campaign that was stopped."""
    with pytest.raises(KeyboardInterrupt):
        run_campaign(Study(campaign, Computer(finished)), out, shard_size)
    return shard_folder(out)


def contents(folder):
    """Content of every file of a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(out, match, campaign=CAMPAIGN):
    """Check that nothing is computed, lost, or left behind."""
    before, computer = contents(out.parent), Computer()
    with pytest.raises(UserError, match=match):
        run_campaign(Study(campaign, computer), out, 5)
    assert computer.ranges == []
    assert contents(out.parent) == before
