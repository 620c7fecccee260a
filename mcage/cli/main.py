"""Entry point ``mcage``: collects the commands and turns errors into exit codes.

Exit codes: 0 done, 2 the user's mistake (one or two lines on stderr), 1 a defect of mcage, 128 and
the number of a signal that ended it (130 Ctrl-C, 143 SIGTERM, 141 nobody reads its output).
"""

import os
import sys
import warnings
from typing import Annotated, TextIO

import typer

from mcage.cli import (
    doctor,
    faults,
    merge,
    nbti,
    rare,
    replay,
    reproduce,
    sensitivity,
    show,
    sweep,
    techniques,
    trace,
)
from mcage.cli.output import checked_output
from mcage.cli.signals import ending_on_signals
from mcage.errors import UserError

app = typer.Typer(
    name="mcage",
    help="Monte Carlo aging and fault analyzer for GPU register files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks (anywhere on the line).")
    ] = False,
) -> None:
    """Monte Carlo aging and fault analyzer for GPU register files."""


app.command("sweep")(sweep.sweep)
app.command("show")(show.show)
app.command("replay")(replay.replay)
app.command("rare")(rare.rare)
app.command("sensitivity")(sensitivity.sensitivity)
app.command("reproduce")(reproduce.reproduce)
app.command("faults")(faults.faults)
app.command("techniques")(techniques.techniques)
app.command("nbti")(nbti.nbti)
app.command("merge")(merge.merge)
app.command("doctor")(doctor.doctor)
app.add_typer(trace.app, name="trace")


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
        text = f"warning: {message}\n"
    print(text, end="", file=file or sys.stderr)


def main() -> None:
    """Run the command line and exit with a code as above."""
    with ending_on_signals():
        _run()


def _run() -> None:
    debug = "--debug" in sys.argv
    warnings.showwarning = _show_warning
    # So that a technique given as module:NAME may lie in the current folder; last, so that no
    # file there stands in for a module of Python or mcage.
    sys.path.append(os.getcwd())
    try:
        with checked_output():
            app([argument for argument in sys.argv[1:] if argument != "--debug"])
    except UserError as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if debug:
            raise
        print(
            f"internal error: {type(error).__name__}: {error}\n"
            "This is a defect of mcage; run again with --debug for the traceback.",
            file=sys.stderr,
        )
        sys.exit(1)
