"""``mcage trace list|show|validate``."""

import typer

app = typer.Typer(help="Recorded register traces.", no_args_is_help=True)


@app.command("list")
def list_traces() -> None:
    """Not written yet."""
    raise NotImplementedError


@app.command("show")
def show_trace() -> None:
    """Not written yet."""
    raise NotImplementedError
