"""Commands whose options stand in groups."""

from typing import Any

from typer.core import TyperCommand

from mcage.cli.spec_options import RUN


class GroupedCommand(TyperCommand):
    """A command whose help has ``--help`` among the options of the run, if there are such."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option ``--help``."""
        option: Any = super().get_help_option(ctx)
        panels = {getattr(parameter, "rich_help_panel", None) for parameter in self.params}
        if option and RUN in panels:
            option.rich_help_panel = RUN
        return option
