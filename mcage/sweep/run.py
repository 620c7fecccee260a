"""`mcage.run_sweep`: a sweep into one results file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mcage.campaign.executors.threads import overlapping
from mcage.campaign.progress import Progress
from mcage.campaign.progress.choice import progress_in_notebooks
from mcage.campaign.run import run_campaign
from mcage.campaign.shard_folder import BESIDE
from mcage.concurrency import usable_cores
from mcage.engines.interface import Engine
from mcage.engines.select import select_engine
from mcage.files.destination import place_of
from mcage.spec import SweepSpec
from mcage.sweep.study import Sweep
from mcage.sweep.unused_keys import refuse_unused


def run_sweep(
    spec: SweepSpec,
    out_path: Path,
    engine: str = "auto",
    shard_size: int | None = None,
    progress: Progress | None = None,
    devices: Sequence[int] | None = None,
    accept_other_code: bool = False,
) -> Path:
    """Compute a sweep into one results file; continue where an earlier run was stopped.

    Parameters
    ----------
    spec : SweepSpec
        What to compute.
    out_path : Path
        Results file.
    engine : str
        ``auto``, or an engine's name.
    shard_size : int, optional
        Instances of a file that stays after a kill; does not change results. By default 256, or
        a batch of an engine whose batches are larger.
    progress : Progress, optional
        Where to report; by default a bar in a notebook, elsewhere nothing.
    devices : sequence of int, optional
        Devices of the ``cuda`` engine; by default all.
    accept_other_code : bool
        Whether results that other code has left at ``out_path`` may be continued, or stand; the
        file then says so.

    Returns
    -------
    Path
        ``out_path``.

    Raises
    ------
    UserError
        The spec makes no sense, or ``out_path`` cannot be written, holds something else, or was
        begun by other code.
    """
    refuse_unused(spec)
    place_of(out_path, BESIDE)
    chosen, reason = select_engine(engine, devices, usable_cores())
    progress = progress or progress_in_notebooks()
    with _compiling(chosen, progress):
        sweep = Sweep(spec, chosen, reason, say=progress.say)
        progress.say(f"engine {chosen.name} ({reason}); {len(sweep.header.cases)} cases")
        for name in sorted(set(spec.operating_points or {}) - set(spec.environments)):
            progress.say(f"note: operating_points.{name} is given, but this sweep does not name it")
        return run_prepared(sweep, out_path, shard_size, progress, accept_other_code)


def run_prepared(
    sweep: Sweep,
    out_path: Path,
    shard_size: int | None = None,
    progress: Progress | None = None,
    accept_other_code: bool = False,
) -> Path:
    """Compute a sweep into one results file, with as many shards at once as keep all threads busy.

    Parameters
    ----------
    sweep : Sweep
        What to compute.
    out_path, shard_size, progress, accept_other_code
        As for `run_sweep`.
    """
    shard_size = shard_size or sweep.shard_size
    return run_campaign(
        sweep.study,
        out_path,
        shard_size,
        progress,
        executor=partial(overlapping, at_once=sweep.shards_at_once(shard_size)),
        accept_other_code=accept_other_code,
    )


@contextmanager
def _compiling(engine: Engine, progress: Progress) -> Iterator[None]:
    """Say when the engine is compiled, and do half of it in another process."""
    if engine.name != "numba":
        yield
        return
    from mcage.engines.numba_engine.compile_beside import compiling_beside
    from mcage.engines.numba_engine.jit import telling_of_compilation

    def tell() -> None:
        progress.say("the engine is compiled first, for half a minute; later runs need not")

    with compiling_beside(), telling_of_compilation(tell):
        yield
