"""The study of a sweep, made where it is computed; its engine is compiled meanwhile."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from mcage.campaign.executors import Executor, Threads
from mcage.campaign.progress import Progress, progress_in_notebooks
from mcage.campaign.study import Study
from mcage.spec import SweepSpec
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.study import Sweep


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
    spec : SweepSpec
        What to compute.
    engine, devices
        As `mcage.engines.select.select_engine` takes them.
    progress : Progress, optional
        Is told what is computed.
    executor : Executor, optional
        Where instances are computed; by default in threads of this process.

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
    study = executor.study(partial(Sweep.study_of_spec, spec, engine, devices, say))
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
