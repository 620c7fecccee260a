"""Run a campaign: compute what is missing, merge, leave one file."""

from pathlib import Path

from mcage.campaign.executors.executor import Executor
from mcage.campaign.executors.threads import Threads
from mcage.campaign.merge import over, write_merged
from mcage.campaign.progress import Progress, Silent
from mcage.campaign.shard_folder import BESIDE, remove_shards
from mcage.campaign.shard_run import ShardRun
from mcage.campaign.sources.files import results_at
from mcage.campaign.status.record import MERGING
from mcage.campaign.study import Study
from mcage.files.atomic import make_ready
from mcage.files.destination import place_of


def run_campaign(
    study: Study,
    out_path: Path,
    shard_size: int | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
    accept_other_code: bool = False,
) -> Path:
    """Compute all instances and write the results file; continue where a killed run stopped.

    Finished shards are files beside ``out_path``: a kill costs at most the shards in flight. The
    file is the same to the last bit however often the campaign was interrupted and however it
    was cut into shards. For a finished campaign nothing is computed; to a finished file of fewer
    instances the others are added, and it stays as it is until the new one replaces it. With a
    stopping rule, the campaign ends with the first checkpoint at which it is precise enough.

    Parameters
    ----------
    study : Study
        What is computed.
    out_path : Path
        Results file.
    shard_size : int, optional
        Instances of a shard, at least 1; by default so many that it takes some seconds. Earlier
        shards are kept as they are.
    progress : Progress, optional
        Where to report; silent by default.
    executor : Executor, optional
        Where shards are computed; by default in threads of this process.
    accept_other_code : bool
        Whether finished shards, or a finished file, may have been computed by other code; the file
        then says so.

    Returns
    -------
    Path
        ``out_path``.

    Raises
    ------
    UserError
        ``out_path`` cannot be written, or holds something else or more instances; its shard folder
        holds something else, or is in use; other code computed what is there. All of this is found
        before anything is computed, but for more instances than a stopping rule needs.
    """
    place = place_of(out_path, BESIDE)
    run = ShardRun(
        study, place, shard_size, progress or Silent(), executor or Threads(), accept_other_code
    )
    if not run.folder.exists() and run.is_complete(run.finished(results_at(place), None)):
        return out_path
    with run.at_work() as working:
        _complete(working)
    return out_path


def _complete(run: ShardRun) -> None:
    """Leave the finished file, and no shards."""
    results = results_at(run.place)
    finished = run.finished(results, run.folder)
    if not run.is_complete(finished):
        make_ready(run.place, over(finished))
        run.compute(finished)
        if run.status:
            run.status.enter(MERGING)
        finished = run.finished(results, run.folder)
        write_merged(run.place, finished)
    remove_shards(run.folder, finished.shards)
