"""From the command line to a spec: a TOML file, the options of the table, and ``--set``."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.cli.commands import all_shown
from mcage.cli.set_option import check_distinct, parse_set, put
from mcage.cli.spec_option import SpecOption
from mcage.cli.spec_options import CASE, COMPARED, RUN, SPEC_OPTIONS

if TYPE_CHECKING:
    from mcage.spec import SweepSpec
    from mcage.spec.study_spec import StudySpec


def sweep_spec() -> "type[SweepSpec]":
    """Return the class of the specs of sweeps."""
    from mcage.spec import SweepSpec

    return SweepSpec


@dataclass(frozen=True)
class SpecArguments:
    """What a command line says of the spec.

    Parameters
    ----------
    command : str
        Name of the command, for error messages.
    defaults : mapping
        Top-level keys in which the command differs from a sweep.
    file : Path or None
        TOML file; options override it.
    values : mapping
        Values of the options that were given, by the rows of the table.
    settings : tuple of str
        Each KEY=VALUE.
    kind : callable
        Returns the class of the spec; it is called when the spec is made.
    """

    command: str
    defaults: Mapping[str, Any]
    file: Path | None
    values: Mapping[SpecOption, Any]
    settings: tuple[str, ...]
    kind: "Callable[[], type[StudySpec]]"

    def spec(self) -> Any:
        """Spec of the defaults of the command, over them the file, over both the options.

        Raises
        ------
        UserError
            As `StudySpec.from_toml`; or two options set the same key.
        """
        source = str(self.file) if self.file else self.command
        fields = deepcopy(dict(self.defaults)) | (_read(self.file) if self.file else {})
        given = [(tuple(row.key.split(".")), value, row.flag) for row, value in self.values.items()]
        given += [(*parse_set(text), f"--set {text}") for text in self.settings]
        check_distinct([(path, option) for path, _, option in given])
        for path, value, _ in given:
            put(fields, path, value, source)
        if self.file and self.settings:
            source = f"{source} and --set"
        return self.kind().from_mapping(fields, source)


@dataclass(frozen=True, eq=False)
class SpecOptions:
    """Options of a command that takes a spec; the meta data of ``Annotated[SpecArguments, ...]``.

    Parameters
    ----------
    command : str
        Name of the command.
    defaults : mapping
        Top-level keys in which the command differs from a sweep.
    single_case : bool
        Whether the command looks at one case: its technique, environment, scenario and low Vdd
        are given once each, and there is no stopping rule.
    help : mapping
        Texts in place of those of the table, the default included, by flag.
    rows : sequence of SpecOption
        The table.
    example : str
        KEY=VALUE that the help gives as an example.
    kind : callable
        Returns the class of the spec.
    """

    command: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    single_case: bool = False
    help: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[SpecOption] = SPEC_OPTIONS
    example: str = "faults.mu_volts=0.14"
    kind: "Callable[[], type[StudySpec]]" = sweep_spec

    def parameters(self) -> list[inspect.Parameter]:
        """Return the argument SPEC, the options of the table, ``--set`` and ``--help-all``."""
        compared = [self._parameter(row) for row in self._rows if row.group == COMPARED]
        others = [self._parameter(row) for row in self._rows if row.group != COMPARED]
        settings = Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                metavar="KEY=VALUE",
                help=f"Any key of the spec, such as {self.example}; VALUE as in TOML, words "
                "without quotation marks. May be repeated.",
                rich_help_panel=self._panel(COMPARED),
            ),
        ]
        set_, help_all = _keyword("set_", settings), _keyword("help_all", _HelpAll)
        return [_keyword("spec", _File), *compared, set_, *others, help_all]

    def gathered(self, values: Mapping[str, Any]) -> SpecArguments:
        """Return the values of the options that were given."""
        given = {row: values[row.name] for row in self._rows if values[row.name] not in (None, [])}
        return SpecArguments(
            command=self.command,
            defaults=self.defaults,
            file=values["spec"],
            values={row: self._value(row, value) for row, value in given.items()},
            settings=tuple(values["set_"] or ()),
            kind=self.kind,
        )

    @property
    def _rows(self) -> list[SpecOption]:
        return [row for row in self.rows if not (self.single_case and row.only_sweeps)]

    def _repeats(self, row: SpecOption) -> bool:
        return row.repeats and not (self.single_case and row.is_axis)

    def _value(self, row: SpecOption, value: Any) -> Any:
        value = row.read(value)
        return [value] if row.repeats and not self._repeats(row) else value

    def _parameter(self, row: SpecOption) -> inspect.Parameter:
        repeats = self._repeats(row)
        option = typer.Option(
            row.flags,
            metavar=row.metavar,
            help=self.help.get(row.flag) or self._help(row),
            rich_help_panel=self._panel(row.group),
            hidden=row.seldom,
        )
        kind: Any = GenericAlias(list, (row.kind,)) if repeats else row.kind
        return _keyword(row.name, Annotated[kind | None, option])

    def _panel(self, group: str) -> str:
        return CASE if self.single_case and group == COMPARED else group

    def _help(self, row: SpecOption) -> str:
        default = self.defaults.get(row.key, row.default)
        in_words = ", ".join(map(str, default)) if isinstance(default, list) else default
        again = " May be repeated." if self._repeats(row) else ""
        return f"{row.help}{again} Default: {in_words}."


def _read(path: Path) -> dict[str, Any]:
    """Plain values of a spec: of a TOML file, or as a results file or a shard folder records it."""
    from mcage.campaign.sources.recorded import recorded_campaign
    from mcage.spec.toml_files import parse_toml, read_toml

    recorded = recorded_campaign(path)
    return parse_toml(recorded.spec_toml) if recorded else read_toml(path)


_File = Annotated[
    Path | None,
    typer.Argument(
        metavar="SPEC",
        help="TOML file of the spec, or a results file or shard folder that records one; options "
        "override it.",
    ),
]


def _show_all(context: typer.Context, asked: bool | None) -> None:
    """Print the help with the options that are otherwise hidden."""
    if not asked:
        return
    with all_shown(context.command):
        typer.echo(context.get_help())
    raise typer.Exit


_HelpAll = Annotated[
    bool | None,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=_show_all,
        help="Show all options, also those that are seldom needed.",
        rich_help_panel=RUN,
    ),
]


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    """Parameter that is None unless it is given."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=annotation)
