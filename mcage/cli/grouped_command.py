"""Commands whose options stand in groups, and which take no option with one value twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand

from mcage.cli.spec_options import RUN
from mcage.errors import UserError
from mcage.plain_text import shown

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Of a command line that no command understands; Typer has no public name for it."""


class GroupedCommand(TyperCommand):
    """A command whose help has ``--help`` among the options of the run, if there are such."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option ``--help``."""
        option: Any = super().get_help_option(ctx)
        panels = {getattr(parameter, "rich_help_panel", None) for parameter in self.params}
        if option and RUN in panels:
            option.rich_help_panel = RUN
        return option

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete all options, also those that the help leaves out."""
        with all_shown(self):
            return super().shell_complete(ctx, incomplete)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line.

        Raises
        ------
        UserError
            An option that takes one value has several, of which Click would take the last.
        """
        try:
            if not ctx.resilient_parsing:
                self._refuse_repeated(ctx, list(args))
            return super().parse_args(ctx, args)
        except UsageError as error:
            vars(error).update(ctx=getattr(error, "ctx", None) or ctx)
            raise

    def _refuse_repeated(self, ctx: Any, args: list[str]) -> None:
        parser: Any = self.make_parser(ctx)
        options = [
            parameter
            for parameter in self.get_params(ctx)
            if parameter.param_type_name == "option" and not parameter.multiple
        ]
        for option in options:
            option.add_to_parser(_Appending(parser), ctx)  # type: ignore[arg-type]
        values, _, _ = parser.parse_args(args)
        for option in options:
            given = values.get(option.name) or []
            if getattr(option, "is_flag", False):
                if len(set(given)) > 1:
                    both = f"{option.opts[0]} and {option.secondary_opts[0]}"
                    raise UserError(f"{both} contradict each other: give one of them")
            elif len(given) > 1:
                texts = " and ".join(map(shown, given))
                raise UserError(f"{option.opts[0]} takes one value, but {texts} are given")


@contextmanager
def all_shown(command: Any) -> Iterator[None]:
    """Have a command that hides none of its options, for as long as the block lasts."""
    hidden = [each for each in command.params if getattr(each, "hidden", False)]
    for parameter in hidden:
        parameter.hidden = False
    try:
        yield
    finally:
        for parameter in hidden:
            parameter.hidden = True


class _Appending:
    """Takes the place of a parser to which options are added, and makes it keep all values."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def add_option(self, *, action: str, **settings: Any) -> None:
        self._parser.add_option(action=action.replace("store", "append"), **settings)
