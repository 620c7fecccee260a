"""The command line: collects the commands and turns errors into exit codes.

Exit codes: 0 done, 2 the user's mistake (one or two lines on stderr), 1 a defect of mcage, 128 and
the number of a signal that ended it (130 Ctrl-C, 143 SIGTERM, 141 nobody reads its output).
"""

import signal
import sys
import warnings
from typing import Annotated, Any, TextIO

import typer

from mcage.cli.commands import Group, UsageError, add_command
from mcage.cli.process import checked_output, ending_on_signals
from mcage.errors import UserError
from mcage.plain_text import one_line, said_by, visible

app = typer.Typer(
    name="mcage",
    help="Monte Carlo aging and fault analyzer for GPU register files.",
    no_args_is_help=True,
    cls=Group,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from mcage.cli.doctor import version_lines

        for line in version_lines():
            typer.echo(visible(line))
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks (anywhere on the line).")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the versions of mcage and of what it computes with.",
        ),
    ] = False,
) -> None:
    """Monte Carlo aging and fault analyzer for GPU register files."""


COMMANDS = {
    "sweep": "mcage.cli.studies:sweep",
    "show": "mcage.cli.show:show",
    "compare": "mcage.cli.show:compare",
    "pareto": "mcage.cli.pareto:pareto",
    "report": "mcage.cli.show:report",
    "replay": "mcage.cli.replay:replay",
    "avf": "mcage.cli.avf:avf",
    "inject": "mcage.cli.studies:inject",
    "vmin": "mcage.cli.studies:vmin",
    "rare": "mcage.cli.methods:rare",
    "sensitivity": "mcage.cli.methods:sensitivity",
    "reproduce": "mcage.cli.reference:reproduce",
    "faults": "mcage.cli.faults:faults",
    "techniques": "mcage.cli.reference:techniques",
    "nbti": "mcage.cli.reference:nbti",
    "merge": "mcage.cli.campaigns:merge",
    "status": "mcage.cli.campaigns:status",
    "verify": "mcage.cli.campaigns:verify",
    "doctor": "mcage.cli.doctor:doctor",
    "cache": "mcage.cli.doctor:cache",
    "docs": "mcage.cli.reference:docs",
    "cite": "mcage.cli.reference:cite",
    "trace import": "mcage.cli.trace:import_command",
    "trace emulate": "mcage.cli.trace:emulate_command",
    "trace list": "mcage.cli.trace:list_traces",
    "trace show": "mcage.cli.trace:show_trace",
    "trace validate": "mcage.cli.trace:validate_traces",
    "gpu both": "mcage.cli.gpu:both",
    "gpu gating": "mcage.cli.gpu:gating",
    "gpu heterogeneity": "mcage.cli.gpu:heterogeneity",
    "gpu exchange": "mcage.cli.gpu:exchange",
    "gpu optimum": "mcage.cli.gpu:optimum",
    "gpu temperature": "mcage.cli.gpu:temperature",
}
"""Each command and its function, whose module is imported when the command is called."""

GROUPS = {
    "trace": "Recorded register traces.",
    "gpu": "Whole GPUs: which SMs work, what they are made of, how hot they become.",
}
"""Commands under one name, and what they are about."""


def _add_commands() -> None:
    groups = {"": app}
    for name, place in COMMANDS.items():
        group, _, command = name.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(help=GROUPS[group], no_args_is_help=True, cls=Group)
            app.add_typer(groups[group], name=group)
        add_command(groups[group], place, command)


_add_commands()


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning about the input in one line, any other as Python does."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    if issubclass(category, UserWarning):
        text = f"warning: {one_line(str(message))}\n"
    print(text, end="", file=file or sys.stderr)


def run() -> None:
    """Run the command line and exit with a code as above."""
    with ending_on_signals():
        _run()


def _run() -> None:
    debug = "--debug" in sys.argv
    warnings.showwarning = _show_warning
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with checked_output():
            sys.exit(app(arguments, prog_name="mcage", standalone_mode=False))
    except typer.Abort:  # Ctrl-C: `ending_on_signals` has the last word
        sys.exit(128 + signal.SIGINT)
    except (UserError, UsageError) as error:
        if debug:
            raise
        _print_error(error)
        sys.exit(2)
    except Exception as error:
        if debug:
            raise
        print(
            f"internal error: {said_by(error)}\n"
            "This is a defect of mcage; run again with --debug for the traceback.",
            file=sys.stderr,
        )
        sys.exit(1)


def _print_error(error: Exception) -> None:
    """Print one line; of a command line that is not understood, also where to read about it."""
    if isinstance(error, UserError):
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        if error.command:
            print(visible(error.command), file=sys.stderr)
        return
    usage: Any = error
    if message := usage.format_message():  # else help was asked for, and is printed already
        command = usage.ctx.command_path if usage.ctx else "mcage"
        print(f"error: {one_line(message)}", file=sys.stderr)
        print(f"The options are listed by: {command} --help", file=sys.stderr)
