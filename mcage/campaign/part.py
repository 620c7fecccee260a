"""A part of a campaign: some of its instances, beside processes that compute the others.

Parts are what an array of jobs computes on machines that share a file system. Each leaves its
shards in the folder of the campaign; `mcage.campaign.merge.merge` makes the file of them.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mcage.campaign.executors.executor import Executor
from mcage.campaign.executors.threads import Threads
from mcage.campaign.progress import Progress, Silent
from mcage.campaign.shard_folder import BESIDE
from mcage.campaign.shard_run import ShardRun
from mcage.campaign.shards import in_words
from mcage.campaign.sources.files import results_at
from mcage.campaign.status.record import COMPUTED
from mcage.campaign.study import Study
from mcage.errors import UserError
from mcage.files.destination import place_of
from mcage.plain_text import shortened


@dataclass(frozen=True)
class Part:
    """Which part of how many equal ones.

    Parameters
    ----------
    number : int
        Its number, 1 ... ``count``.
    count : int
        How many there are.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Part out of words such as ``3/8``.

        Raises
        ------
        UserError
            They name no part.
        """
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise UserError(
                f"--part {shortened(text)}: must be K/N with K from 1 to N, such as 3/8"
            )
        return cls(int(match[1]), int(match[2]))

    def of(self, instances: int) -> range:
        """Ids of the instances of this part of a campaign.

        Raises
        ------
        UserError
            There are more parts than instances.
        """
        if instances < self.count:
            raise UserError(f"--part {self}: {instances} instances make no {self.count} parts")
        first, last = ((n * instances) // self.count for n in (self.number - 1, self.number))
        return range(first, last)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def run_part(
    study: Study,
    out_path: Path,
    part: Part,
    shard_size: int | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    accept_other_code: bool = False,
) -> Path:
    """Compute the instances of a part into the shard folder; continue where a killed run stopped.

    No results file is written: `mcage.campaign.merge.merge` does that, once all parts are there.

    Parameters
    ----------
    study, shard_size, progress, executor, accept_other_code
        As for `mcage.campaign.run.run_campaign`.
    out_path : Path
        Results file to be.
    part : Part
        Which part.

    Returns
    -------
    Path
        The shard folder; ``out_path`` if the whole campaign is there already.

    Raises
    ------
    UserError
        As for `run_campaign`; or another process computes instances of this part, or the whole
        campaign; or the campaign has a stopping rule, which a part cannot follow.
    """
    if study.header.stopping:
        raise UserError(
            f"--part {part}: when a campaign may stop can only be told where all of its instances "
            "are; leave out the stopping rule"
        )
    instances = part.of(study.header.instances)
    progress = progress or Silent()
    place = place_of(out_path, BESIDE)
    run = ShardRun(
        study, place, shard_size, progress, executor or Threads(), accept_other_code, instances
    )
    if run.is_complete(run.finished(results_at(place), None)):
        return out_path
    with run.at_work() as working:
        working.compute(working.finished(results_at(place), run.folder))
        if working.status:
            working.status.enter(COMPUTED)
    progress.say(
        f"part {part} is finished: instances {in_words(instances)} are in {run.folder}; once all "
        f"parts are, mcage merge {out_path} makes the file"
    )
    return run.folder
