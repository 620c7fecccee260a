"""``mcage docs``: the pages of documentation, wherever mcage is installed."""

from typing import Annotated

import typer


def docs(
    page: Annotated[
        str | None, typer.Argument(help="Page, such as aging. Default: list the pages.")
    ] = None,
) -> None:
    """List the pages of documentation, or show a page."""
    from mcage.report.console import console
    from mcage.report.pages import page_text, page_titles

    if page is None:
        titles = page_titles()
        width = max(map(len, titles))
        for name, title in titles.items():
            typer.echo(f"{name:<{width}}  {title}")
        return
    text = page_text(page)
    screen = console()
    if screen.is_terminal:
        from rich.markdown import Markdown

        screen.print(Markdown(text))
    else:
        typer.echo(text, nl=False)
