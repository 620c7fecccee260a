"""From the command line to a spec: a TOML file, the options of its keys, and ``--set``.

What options there are, the fields of the spec say: `mcage.spec.keys`.
"""

import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any

import typer

from mcage.cli.commands import RUN, all_shown
from mcage.errors import UserError
from mcage.files.inputs import OddValueError, parse_toml, read_toml
from mcage.plain_text import one_line, shortened, visible
from mcage.results.differences import PROGRAMS, without_changed
from mcage.spec import SweepSpec
from mcage.spec.keys import COMPARED, Key, Section, StudySpec, code_in, option_keys
from mcage.spec.presets import preset_of

CASE = "Case"
"""Panel of the keys to compare where a command looks at one case."""

ONE_CASE = {"environments": ["dvfs"], "scenarios": ["common"]}
"""Defaults of the commands that look at one case."""

_LONGEST_KEY = 500


@dataclass(frozen=True)
class SpecArguments:
    """Spec of a command line.

    Parameters
    ----------
    asked : SpecOptions
        What the command takes.
    file : Path or None
        TOML file; options override it.
    values : sequence of (str, object, str)
        Key, value and flag of the options that were given.
    settings : tuple of str
        Each KEY=VALUE.
    trust : bool
        Whether code runs that a results file names.
    """

    asked: "SpecOptions"
    file: Path | None
    values: Sequence[tuple[str, Any, str]]
    settings: tuple[str, ...]
    trust: bool = False

    def spec(self, show_spec: bool = False) -> Any:
        """Spec of the defaults of the command, over them the file, over both the options.

        Parameters
        ----------
        show_spec : bool
            Whether the spec is printed only, so that no code runs that it names.

        Raises
        ------
        UserError
            As `StudySpec.from_toml`; two options set the same key; or a results file names code,
            and nobody has said that it is to be trusted.
        """
        asked, source = self.asked, str(self.file) if self.file else self.asked.command
        fields_of_file, is_recorded = _read(self.file) if self.file else ({}, False)
        changes = [(tuple(key.split(".")), value, flag) for key, value, flag in self.values]
        changes += [(*parse_set(text), f"--set {text}") for text in self.settings]
        _check_distinct([(path, option) for path, _, option in changes])
        named = [value for path, value, _ in changes if path == ("preset",)]
        preset = preset_of(*named or [fields_of_file.get("preset")])
        defaults = {key: value for key, value in asked.defaults.items() if key not in preset}
        fields = deepcopy(defaults) | fields_of_file
        if isinstance(programs := fields.get(PROGRAMS), dict):
            keys = [".".join(path) for path, _, _ in changes]
            fields[PROGRAMS] = without_changed(programs, keys, asked.kind.decided_by)
        for path, value, _ in changes:
            _put(fields, path, value, source)
        if self.file and self.settings:
            source = f"{source} and --set"
        spec = asked.kind.from_mapping(fields, source)
        if is_recorded and not (show_spec or self.trust):
            self._refuse_code(spec, [path for path, *_ in changes])
        return spec

    def _refuse_code(self, spec: StudySpec, typed: Sequence[tuple[str, ...]]) -> None:
        """Refuse to run what a results file names, but for keys that options set."""
        for key, value, _ in code_in(spec):
            if not any(tuple(key.split("."))[: len(path)] == path for path in typed):
                raise UserError(
                    f"{self.file}: {key} = {shortened(value)} runs code that this file names: "
                    "give --trust if you trust it"
                )


@dataclass(frozen=True, eq=False)
class SpecOptions:
    """Options of a command that takes a spec; the meta data of ``Annotated[SpecArguments, ...]``.

    Parameters
    ----------
    command : str
        Name of the command.
    defaults : mapping
        Top-level keys in which the command differs from a study of the spec.
    single_case : bool
        Whether the command looks at one case: its technique, environment, scenario and low Vdd
        are given once each, and there is no stopping rule.
    help : mapping
        Texts in place of those of the keys, the default included, by flag.
    example : str
        KEY=VALUE that the help gives as an example.
    kind : type
        Class of the spec.
    without : tuple of str
        Keys of which the command takes the default only, and has no option.
    """

    command: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    single_case: bool = False
    help: Mapping[str, str] = field(default_factory=dict)
    example: str = "faults.mu_volts=0.14"
    kind: type[StudySpec] = SweepSpec
    without: tuple[str, ...] = ()

    def parameters(self) -> list[inspect.Parameter]:
        """Return SPEC, the options of the keys, ``--set``, ``--trust`` and ``--help-all``."""
        keys = self._keys()
        compared = [self._parameter(key) for key in keys if key.panel == COMPARED]
        others = [self._parameter(key) for key in keys if key.panel != COMPARED]
        settings = Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                metavar="KEY=VALUE",
                help=f"Any key of the spec, such as {self.example}; VALUE as in TOML, words "
                "without quotation marks. May be repeated.",
                rich_help_panel=CASE if self.single_case else COMPARED,
            ),
        ]
        set_, trust, help_all = (
            _keyword(name, annotation)
            for name, annotation in (("set_", settings), ("trust", _Trust), ("help_all", _HelpAll))
        )
        return [_keyword("spec", _File), *compared, set_, *others, trust, help_all]

    def gathered(self, values: Mapping[str, Any]) -> SpecArguments:
        """Return the values of the options that were given."""
        return SpecArguments(
            asked=self,
            file=values["spec"],
            values=_given(self._keys(), values),
            settings=tuple(values["set_"] or ()),
            trust=bool(values["trust"]),
        )

    def _keys(self) -> list[Key]:
        keys = [key for key in self.kind.options() if key.name not in self.without]
        if not self.single_case:
            return keys
        return [
            replace(key, once=key.option.is_axis)
            for key in keys
            if not key.name.startswith("stopping.")
        ]

    def _parameter(self, key: Key) -> inspect.Parameter:
        said = f"{key.help}{' May be repeated.' if key.repeats else ''} Default: "
        said = self.help.get(key.flag, f"{said}{key.default_text(self.defaults.get(key.name))}.")
        return _option(key, said, CASE if self.single_case and key.panel == COMPARED else key.panel)


@dataclass(frozen=True, eq=False)
class KeyOptions:
    """Options for some keys of a spec in another command; gives key, value and flag of each.

    Parameters
    ----------
    keys : mapping
        Usage by key; where it is empty, that of the spec. Lists become single values. By default
        all keys.
    panel : str, optional
        Panel of the help.
    help : mapping
        Texts in place of those of the keys, the default included, by key.
    kind : type
        The spec, or a section of one.
    """

    keys: Mapping[str, str] | None = None
    panel: str | None = None
    help: Mapping[str, str] = field(default_factory=dict)
    kind: type[Section] = SweepSpec

    def parameters(self) -> list[inspect.Parameter]:
        """Return the options."""
        said = {key.name: f"{key.help} Default: {key.default_text()}." for key in self._keys()}
        said |= self.help
        return [_option(key, said[key.name], self.panel) for key in self._keys()]

    def gathered(self, values: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
        """Return what was given."""
        return _given(self._keys(), values)

    def _keys(self) -> list[Key]:
        keys = {key.name: key for key in option_keys(self.kind)}
        usages = dict.fromkeys(keys, "") if self.keys is None else self.keys
        return [
            replace(
                key := keys[name],
                types=key.types - {tuple},
                option=replace(key.option, usage=usage or key.option.usage, seldom=False),
            )
            for name, usage in usages.items()
        ]


def _option(key: Key, said: str, panel: str | None) -> inspect.Parameter:
    """Option that sets a key."""
    option = typer.Option(
        key.flags,
        metavar=key.metavar,
        help=said,
        rich_help_panel=panel,
        hidden=key.option.seldom,
    )
    kind: Any = GenericAlias(list, (key.type,)) if key.repeats else key.type
    return _keyword(key.parameter, Annotated[kind | None, option])


def _given(keys: Sequence[Key], values: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Key, value and flag of each option that was given."""
    return [
        (key.name, key.read(value), key.flag)
        for key in keys
        if (value := values[key.parameter]) not in (None, [])
    ]


def _read(path: Path) -> tuple[dict[str, Any], bool]:
    """Plain values of a spec, and whether a results file or a shard folder records them."""
    from mcage.campaign.finished import recorded_campaign
    from mcage.report.notes import note_on_programs

    recorded = recorded_campaign(path)
    if recorded is None:
        return read_toml(path), False
    if note := note_on_programs(recorded):
        typer.echo(visible(f"{path}: {note}"), err=True)
    return parse_toml(recorded.spec_toml), True


_File = Annotated[
    Path | None,
    typer.Argument(
        metavar="SPEC",
        help="TOML file of the spec, or a results file or shard folder that records one; options "
        "override it.",
    ),
]

_Trust = Annotated[
    bool | None,
    typer.Option(
        "--trust",
        help="Run the code that a results file given as SPEC names: techniques, models and "
        "policies of users, .py files, options of the compiler.",
        rich_help_panel=RUN,
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


def parse_set(text: str) -> tuple[tuple[str, ...], Any]:
    """Read one KEY=VALUE.

    Parameters
    ----------
    text : str
        The key as in the TOML file of a spec, with dots between tables; the value as in TOML, or a
        word without quotation marks.

    Returns
    -------
    path : tuple of str
        Parts of the key.
    value : object
        Plain value; a text where it is no TOML.

    Raises
    ------
    UserError
        If the text has another form.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    path = _path_of(key)
    if not (equals and value and path):
        raise UserError(
            f"--set {one_line(text)}: KEY=VALUE is needed, such as faults.mu_volts=0.14"
        )
    return path, _value_of(text, value)


def _path_of(key: str) -> tuple[str, ...]:
    """Parts of a key as TOML reads it; empty if it is no key."""
    path: list[str] = []
    if len(key) > _LONGEST_KEY or "\n" in key:
        return ()
    try:
        fields = parse_toml(f"{key} = 0")
    except ValueError:
        return ()
    while fields:
        (name,) = fields
        path.append(name)
        fields = fields[name]
    return tuple(path)


def _value_of(text: str, value: str) -> Any:
    is_structured = value.startswith(("[", "{", '"', "'"))
    if "\n" in value and not is_structured:
        return value
    try:
        fields = parse_toml(f"value = {value}")
    except OddValueError as error:
        raise UserError(f"--set {one_line(text)}: {error}") from error
    except ValueError as error:
        if is_structured:
            raise UserError(f"--set {one_line(text)}: not a TOML value ({error})") from error
        return value
    if list(fields) != ["value"]:
        raise UserError(f"--set {one_line(text)}: one KEY=VALUE is needed")
    return fields["value"]


def _check_distinct(options: Sequence[tuple[tuple[str, ...], str]]) -> None:
    """Refuse two options for the same key, or for a table and a key of it.

    Parameters
    ----------
    options : sequence of (tuple of str, str)
        For each option the key that it sets, and the option as the user gave it.

    Raises
    ------
    UserError
        One line that names both.
    """
    for number, (path, option) in enumerate(options):
        for other_path, other in options[:number]:
            table = min(path, other_path, key=len)
            if path[: len(table)] == other_path[: len(table)]:
                raise UserError(
                    f"{one_line(other)} and {one_line(option)} both set "
                    f"{one_line('.'.join(table))}: give one of them"
                )


def _put(fields: dict[str, Any], path: Sequence[str], value: Any, source: str) -> None:
    """Put a value into nested tables and lists, and make the tables that are missing.

    Parameters
    ----------
    fields : dict
        Plain values of a spec, which are changed.
    path : sequence of str
        Parts of the key; a number counts the places of a list from 0.
    value : object
        Plain value.
    source : str
        Where the fields come from, for error messages.

    Raises
    ------
    UserError
        If a part of the key stands for something else than a table or a list.
    """
    holder: Any = fields
    for length, name in enumerate(path[:-1], 1):
        if isinstance(holder, dict):
            holder = holder.setdefault(name, {})
        else:
            holder = holder[_place(holder, path[:length], source)]
        if not isinstance(holder, dict | list):
            key = one_line(".".join(path[:length]))
            raise UserError(f"{source}: {key} = {shortened(holder)}: must be a table")
    if isinstance(holder, list):
        holder[_place(holder, path, source)] = value
    else:
        holder[path[-1]] = value


def _place(holder: list[Any], path: Sequence[str], source: str) -> int:
    """Place of a list that the last part of a key names."""
    *table, name = path
    if name.isdecimal() and len(name) < 10 and int(name) < len(holder):
        return int(name)
    places = f"places 0 ... {len(holder) - 1}" if holder else "no places"
    raise UserError(f"{source}: {one_line('.'.join(table))} has {places}, not {one_line(name)}")
