"""Options that say how a campaign of any study is computed, and what runs it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from mcage.cli.commands import RUN
from mcage.errors import UserError
from mcage.plain_text import one_line, shortened, visible, visible_lines

if TYPE_CHECKING:
    from mcage.campaign.executors import Executor
    from mcage.campaign.progress import Progress
    from mcage.campaign.study import Study
    from mcage.spec.study_spec import StudySpec


# Options that several commands share and that set no key of a spec, or are outside of one.

Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Engine: auto, numpy, numba or cuda. Default: auto.",
        show_default=False,
        rich_help_panel=RUN,
    ),
]

Devices = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS",
        help="Devices of the engine cuda, such as 0,1. Default: all.",
        hidden=True,
        rich_help_panel=RUN,
    ),
]

ProgressKind = Annotated[
    str | None,
    typer.Option(
        "--progress",
        metavar="KIND",
        help="Progress on stderr: rich (a bar), plain, json (an object to a line) or none. "
        "Default: rich on a terminal, otherwise plain.",
        hidden=True,
        rich_help_panel=RUN,
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=RUN)]

ShowSpec = Annotated[
    bool,
    typer.Option(
        "--show-spec",
        help="Check the spec, print it as TOML, and stop. No code of a user and no compiler runs.",
        rich_help_panel=RUN,
    ),
]

AcceptOtherCode = Annotated[
    bool,
    typer.Option(
        "--accept-other-code",
        help="Continue, or keep, what another version of the code has computed.",
        rich_help_panel=RUN,
    ),
]

Release = Annotated[
    str,
    typer.Option(
        metavar="WHEN",
        help="When a register window is freed: at the end of its wavefront or of its work-group.",
    ),
]

Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="TECHNIQUE=NAME",
        help="What people read for a technique or a policy, such as 'rrcd=RRCD (ours)'; files, CSV "
        "and JSON keep its name. May be given several times.",
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """Where and how a campaign is computed: none of it changes the results."""

    panel: ClassVar = RUN

    out: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """Results file; needed."""
    shard_size: Annotated[int | None, typer.Option(min=1, metavar="N", hidden=True)] = None
    """Number of instances in a shard. Default: what takes some seconds."""
    processes: Annotated[int | None, typer.Option(min=1, metavar="N")] = None
    """Compute in N processes of this machine, which take turns with its GPUs. Default: in threads
    of this process."""
    local_cluster: Annotated[int | None, typer.Option(min=1, metavar="N", hidden=True)] = None
    """Compute in N Dask workers of this machine."""
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", hidden=True)] = None
    """Compute with the workers of a Dask scheduler: its address, such as tcp://node1:8786, or its
    scheduler file."""
    part: Annotated[str | None, typer.Option(metavar="K/N", hidden=True)] = None
    """Compute the K-th of N equal parts into OUT.shards, and write no results file; mcage merge OUT
    makes it of all parts."""
    accept_other_code: AcceptOtherCode = False
    progress: ProgressKind = None


def check_run(run: RunOptions) -> None:
    """Refuse options that contradict each other.

    Raises
    ------
    UserError
        They do.
    """
    places = {
        "--processes": run.processes,
        "--local-cluster": run.local_cluster,
        "--scheduler": run.scheduler,
    }
    given = [name for name, chosen in places.items() if chosen is not None]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)}: instances are computed in one place; give one")
    if run.part is not None:
        from mcage.campaign.run import Part

        Part.parse(run.part)


@contextmanager
def chosen_executor(
    run: RunOptions, progress: "Progress", uses_devices: bool, devices: Sequence[int] | None = None
) -> Iterator["Executor"]:
    """What computes, as the options say, for as long as the block lasts.

    Parameters
    ----------
    run : RunOptions
        The options.
    progress : Progress
        Is told of workers that die.
    uses_devices : bool
        Whether the study may compute on CUDA devices.
    devices : sequence of int, optional
        Numbers of these devices; by default all.

    Raises
    ------
    UserError
        The options contradict each other, or Dask is missing or does not answer.
    """
    check_run(run)
    if run.processes is not None:
        from mcage.campaign.processes import Processes

        chosen = devices or (visible_devices() if uses_devices else ())
        with Processes(run.processes, chosen, progress.say) as processes:
            yield processes
    elif run.local_cluster is not None or run.scheduler is not None:
        with _cluster(run, progress) as cluster:
            yield cluster
    else:
        from mcage.campaign.executors import Threads

        yield Threads()


def _cluster(run: RunOptions, progress: "Progress") -> "AbstractContextManager[Executor]":
    from mcage.campaign.dask import connected, local_cluster

    if run.scheduler is not None:
        return connected(run.scheduler, progress.say)
    return local_cluster(run.local_cluster or 1, progress.say)


def computed(
    study: "Study", run: RunOptions, progress: "Progress", executor: "Executor"
) -> Path | None:
    """Compute a campaign and return its results file; None where only a part is asked for.

    Raises
    ------
    UserError
        No file is named; or as `mcage.campaign.run.run_campaign`.
    """
    from mcage.campaign.run import Part, run_campaign, run_part

    if run.out is None:
        raise UserError("--out FILE is needed: where the results go")
    size, accept = run.shard_size, run.accept_other_code
    if run.part is None:
        return run_campaign(study, run.out, size, progress, executor, accept)
    run_part(study, run.out, Part.parse(run.part), size, progress, executor, accept)
    return None


def run_study(
    make: "Callable[[], Study]", run: RunOptions, json: bool, uses_devices: bool = False
) -> None:
    """Run a campaign and show its results.

    Parameters
    ----------
    make : callable
        Makes the study; a value that travels.
    run : RunOptions
        Where and how.
    json : bool
        Whether the table is printed as JSON.
    uses_devices : bool
        Whether the study may compute on CUDA devices.

    Raises
    ------
    UserError
        No file is named; or as `mcage.campaign.run.run_campaign`.
    """
    from mcage.campaign.progress import progress_on_stderr
    from mcage.report.notes import note_on_caveats
    from mcage.report.presentation import presentation_of
    from mcage.report.tables import console, print_table
    from mcage.results.reader import read_header
    from mcage.stats.estimates import plain

    progress = progress_on_stderr(run.progress)
    with chosen_executor(run, progress, uses_devices) as executor:
        path = computed(executor.study(make), run, progress, executor)
    if path is None:
        return
    header = read_header(path)
    shown = presentation_of(header)
    summaries = shown.summarize_file(path)
    if json:
        typer.echo(dumps(plain(summaries), indent=2, allow_nan=False))
    else:
        print_table(shown.table_of(summaries), console())
        if caveats := note_on_caveats(header):
            typer.echo(visible(caveats))
        typer.echo(visible(str(path)))
    if header.stopped:
        typer.echo(visible(header.stopped), err=json)


def show_or_run(
    spec: "StudySpec",
    make: "Callable[[], Study]",
    run: RunOptions,
    json: bool,
    show_spec: bool,
    uses_devices: bool = False,
) -> None:
    """Print the spec of a study, or run the study and print its table."""
    if show_spec:
        print_spec(spec, make)
    else:
        run_study(make, run, json, uses_devices)


def print_spec(spec: "StudySpec", check: "Callable[[], object]") -> None:
    """Print a spec as TOML, checked as its study would, as far as that runs no code of a user.

    Parameters
    ----------
    spec : StudySpec
        The spec, whose keys, types and bounds are checked already.
    check : callable
        Makes the study, and is left out if that would run or compile code that the spec names.

    Raises
    ------
    UserError
        As ``check``.
    """
    from mcage.spec.keys import code_in

    code = [f"{key} = {shortened(value)}" for key, value, _ in code_in(spec, or_compiled=True)]
    if not code:
        check()
    typer.echo(visible_lines(spec.to_toml()), nl=False)
    if code:
        words = f"note: not run, so that only keys, types and bounds are checked: {', '.join(code)}"
        typer.echo(visible(one_line(words)), err=True)


def visible_devices() -> tuple[int, ...]:
    """Numbers of the CUDA devices that can be used, asked in a process of its own."""
    from mcage.campaign.processes import Processes
    from mcage.engines.select import usable_devices

    if find_spec("cupy") is None:
        return ()
    with Processes(1) as probe:
        return probe.ask(usable_devices)
