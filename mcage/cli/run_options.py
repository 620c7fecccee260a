"""Options that say how a campaign of any study is computed, and what runs it."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import mcage
from mcage.cli.commands import RUN, AcceptOtherCode, ProgressKind
from mcage.cli.show import FormOptions, TableOptions, show
from mcage.engines.select import parse_devices
from mcage.errors import UserError
from mcage.functions import check_run, study_of
from mcage.plain_text import one_line, shortened, visible, visible_lines
from mcage.spec.keys import code_in
from mcage.spec.study_spec import StudySpec


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
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", hidden=True)] = None
    """Compute with the workers of a Dask scheduler: its address, such as tcp://node1:8786, or its
    scheduler file."""
    part: Annotated[str | None, typer.Option(metavar="K/N", hidden=True)] = None
    """Compute the K-th of N equal parts into OUT.shards, and write no results file; mcage merge OUT
    makes it of all parts."""
    accept_other_code: AcceptOtherCode = False
    progress: ProgressKind = None


def run_study(
    spec: StudySpec,
    run: RunOptions,
    json: bool,
    show_spec: bool,
    engine: str = "auto",
    **further: Any,
) -> None:
    """Compute a study and show its results as ``mcage show`` does; or print its spec alone.

    Parameters
    ----------
    spec : StudySpec
        What to compute.
    run : RunOptions
        Where and how.
    json : bool
        Whether the table is printed as JSON.
    show_spec : bool
        Whether the spec is printed, and nothing runs.
    engine : str
        Name of the engine, for a study that has one.
    **further
        Options that `mcage.run` or the function of the study takes besides.

    Raises
    ------
    UserError
        No file is named; or as `mcage.run`.
    """
    of_run = {field.name: getattr(run, field.name) for field in fields(run)}
    options: Any = {"engine": engine} | of_run | further | {"progress": run.progress or "auto"}
    out: Path | None = options.pop("out")
    if show_spec:
        check_run(options)
        print_spec(
            spec, lambda: study_of(spec, options["engine"], parse_devices(options.get("devices")))
        )
        return
    if out is None:
        raise UserError("--out FILE is needed: where the results go")
    call: Any = mcage.inject if "picture" in further else mcage.run
    path = call(spec, out, **options)
    if run.part is None:
        show([path], TableOptions(), FormOptions(json=json))
        for file in (path, further.get("picture")):
            if file and not json:
                typer.echo(visible(str(file)))


def print_spec(spec: StudySpec, check: Callable[[], object]) -> None:
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
    code = [f"{key} = {shortened(value)}" for key, value, _ in code_in(spec, or_compiled=True)]
    if not code:
        check()
    typer.echo(visible_lines(spec.to_toml()), nl=False)
    if code:
        words = f"note: not run, so that only keys, types and bounds are checked: {', '.join(code)}"
        typer.echo(visible(one_line(words)), err=True)
