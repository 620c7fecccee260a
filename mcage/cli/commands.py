"""From functions to commands: options in groups, records of options, no option twice."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from typing import Annotated, Any, Protocol, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from mcage.errors import UserError
from mcage.plain_text import field_docstring, shown, unit_in_words
from mcage.version import PACKAGE

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Error of a command line that no command understands; Typer has no public name for it."""


RUN = "Run"
"""Panel of the options that say where and how something is computed."""


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
        help="Progress on stderr: rich (a bar), plain or none. "
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


class _FlagHelp:
    """Help in which a flag is said to take no value: Typer calls each a ``<bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, ``--help`` among them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in params:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return params


class Group(_FlagHelp, TyperGroup):
    """Commands under one name."""


class GroupedCommand(_FlagHelp, TyperCommand):
    """A command whose function is imported when its options, its help or a run need it.

    The list of commands takes the first line of each docstring from the source. The help has
    ``--help`` among the options of the run, if there are such.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._place: str = vars(self.callback)["place"]
        del self.params, self.help, self.short_help  # of a function without parameters

    def __getattr__(self, name: str) -> Any:
        if name == "short_help":
            self.short_help = summary_of(self._place)
        elif name in ("params", "help"):
            alone = typer.Typer(add_completion=False)
            alone.command()(with_options(named(self._place)))
            made = typer.main.get_command(alone)
            self.params, self.help, self.callback = made.params, made.help, made.callback
        else:
            raise AttributeError(f"a command has no attribute {name!r}")
        return getattr(self, name)

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
            option, message = getattr(error, "param", None), getattr(error, "message", "")
            for name in (getattr(option, "metavar", None), getattr(option, "name", None)):
                message += unit_in_words(name or "", message)
            vars(error).update(ctx=getattr(error, "ctx", None) or ctx, message=message)
            raise

    def _refuse_repeated(self, ctx: Any, args: list[str]) -> None:
        parser: Any = self.make_parser(ctx)
        options = [
            parameter
            for parameter in self.get_params(ctx)
            if parameter.param_type_name == "option" and not parameter.multiple
        ]
        for option in options:
            option.add_to_parser(_Appending(parser), ctx)
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


# Commands whose parameters are records: a record stands for the options that are its fields.
#
# Typer makes an option of every parameter of a function. Here a function takes what belongs
# together as one value, and `with_options` gives Typer a function with the single options.

Command = Callable[..., None]


class Options(Protocol):
    """Several options that a command takes as one value; the meta data of an `Annotated` type."""

    def parameters(self) -> list[inspect.Parameter]:
        """Return the single options, as Typer takes them."""

    def gathered(self, values: Mapping[str, Any]) -> Any:
        """Make the one value of the values of all parameters, by name."""


class _Fields:
    """Fields of a dataclass as options, whose help are the docstrings of the fields."""

    def __init__(self, record: type[Any]) -> None:
        self._record = record
        hints = get_type_hints(record, include_extras=True)
        self._parameters = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=_explained(record, field.name, hints[field.name]),
            )
            for field in fields(record)
        ]

    def parameters(self) -> list[inspect.Parameter]:
        return self._parameters

    def gathered(self, values: Mapping[str, Any]) -> Any:
        return self._record(**values)


def _explained(record: type[Any], name: str, hint: Any) -> Any:
    """Option of a field with its help, and in the panel of the record."""
    kind, *data = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    option = copy(data[0]) if data else typer.Option(f"--{name.replace('_', '-')}")
    option.help = option.help or field_docstring(record, name)
    option.rich_help_panel = option.rich_help_panel or getattr(record, "panel", None)
    option.show_default = option.show_default and "Default: " not in option.help
    return Annotated[kind, option]


def add_command(app: typer.Typer, place: str, name: str) -> None:
    """Add the function ``module:NAME``, of the form that `with_options` takes, to a group."""

    def run() -> None: ...

    vars(run)["place"] = place
    app.command(name, cls=GroupedCommand)(run)


def named(place: str) -> Any:
    """Object that ``module:NAME`` names; imports the module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def summary_of(place: str) -> str:
    """First line of the docstring of the function ``module:NAME``, without an import of it."""
    module, _, name = place.partition(":")
    source = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
    text = source.read_text(encoding="utf-8")
    (summary,) = re.findall(rf'^def {name}\(.*?"""(.*?)(?:"""|\n)', text, re.DOTALL | re.MULTILINE)
    return str(summary)


def with_options(command: Command) -> Command:
    """Make the function that Typer sees of a function that takes records.

    Parameters
    ----------
    command : callable
        Each of its parameters is an option or argument as Typer takes it; or a dataclass, whose
        fields are such; or ``Annotated[T, options]``, where ``options`` are `Options` of a T.
    """
    hints = get_type_hints(command, include_extras=True)
    bundles: dict[str, Options] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if bundle := _options_of(hints[name]):
            bundles[name] = bundle
            parameters += bundle.parameters()
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=hints[name]))

    def run(**values: Any) -> None:
        for name, bundle in bundles.items():
            parts = {
                parameter.name: values.pop(parameter.name) for parameter in bundle.parameters()
            }
            values[name] = bundle.gathered(parts)
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _options_of(hint: Any) -> Options | None:
    """Options that a type stands for; None for a single option."""
    if is_dataclass(hint) and isinstance(hint, type):
        return _Fields(hint)
    if get_origin(hint) is Annotated:
        for data in get_args(hint)[1:]:
            if hasattr(data, "gathered"):
                options: Options = data
                return options
    return None
