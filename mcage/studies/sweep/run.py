"""`mcage.run_sweep`: a sweep into one results file."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mcage.campaign.executors import Executor, Threads
from mcage.campaign.progress import Progress, progress_in_notebooks
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import BESIDE
from mcage.campaign.study import Study
from mcage.files.atomic import place_of
from mcage.files.inputs import named_file
from mcage.spec import SweepSpec
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.study import study_of_spec


def run_sweep(
    spec: SweepSpec,
    out_path: str | os.PathLike[str],
    engine: str = "auto",
    shard_size: int | None = None,
    progress: Progress | None = None,
    devices: Sequence[int] | None = None,
    accept_other_code: bool = False,
    executor: Executor | None = None,
) -> Path:
    """Compute a sweep into one results file; continue where an earlier run was stopped.

    Parameters
    ----------
    spec : SweepSpec
        What to compute.
    out_path : str or path
        Results file.
    engine : str
        ``auto``, or an engine's name.
    shard_size : int, optional
        Instances of a file that stays after a kill; does not change results. By default so many
        that a shard takes some seconds.
    progress : Progress, optional
        Where to report; by default a bar in a notebook, elsewhere nothing.
    devices : sequence of int, optional
        Devices of the ``cuda`` engine; by default all.
    accept_other_code : bool
        Whether results that other code has left at ``out_path`` may be continued, or stand; the
        file then says so.
    executor : Executor, optional
        Where instances are computed; by default in threads of this process.

    Returns
    -------
    Path
        ``out_path``: `mcage.open_results` opens it. The results are not opened here, since that
        reads the whole file once, and a script that only computes need not wait for it.

    Raises
    ------
    UserError
        The spec makes no sense, or ``out_path`` cannot be written, holds something else, or was
        begun by other code.
    """
    path = named_file(out_path)
    spec.refuse_unused()
    place_of(path, BESIDE)
    progress = progress or progress_in_notebooks()
    with sweep_study(spec, engine, devices, progress, executor) as study:
        return run_campaign(study, path, shard_size, progress, executor, accept_other_code)


@contextmanager
def sweep_study(
    spec: SweepSpec,
    engine: str = "auto",
    devices: Sequence[int] | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Iterator[Study]:
    """Make the study of a sweep where it will be computed, and say what it is.

    Parameters
    ----------
    spec, engine, devices, progress, executor
        As for `run_sweep`.

    Yields
    ------
    Study
        The study; an engine that must be compiled is compiled within the block.

    Raises
    ------
    UserError
        The spec makes no sense.
    """
    progress = progress or progress_in_notebooks()
    executor = executor or Threads()
    here = isinstance(executor, Threads)
    say = progress.say if here else None
    study = executor.study(partial(study_of_spec, spec, engine, devices, say))
    header = study.header
    assert isinstance(header, SweepHeader)
    progress.say(f"engine {header.engine} ({header.engine_reason}); {len(header.cases)} cases")
    if not spec.workload.kernels:
        progress.say(f"kernels of suite {spec.workload.suite}: {len(header.kernels)}")
    for name in sorted(set(spec.operating_points or {}) - set(spec.environments)):
        progress.say(f"note: operating_points.{name} is given, but this sweep does not name it")
    with _compiling(header.engine if here else "", progress):
        yield study


@contextmanager
def _compiling(engine: str, progress: Progress) -> Iterator[None]:
    """Say when the engine is compiled, and do half of it in another process."""
    if engine != "numba":
        yield
        return
    from mcage.engines.numba_engine.jit import cache_folder, telling_of_compilation
    from mcage.studies.sweep.compile_beside import compiling_beside

    def tell(kept: bool) -> None:
        if kept:
            progress.say("the engine is compiled first, for half a minute; later runs need not")
        elif cache_folder():
            progress.say("the placement program is compiled first, as in each run")
        else:
            progress.say("the engine is compiled first, for half a minute, as in each run here")

    with compiling_beside(), telling_of_compilation(tell):
        yield
