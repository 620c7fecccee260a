"""Commands whose parameters are records: a record stands for the options that are its fields.

Typer makes an option of every parameter of a function. Here a function takes what belongs together
as one value, and `with_options` gives Typer a function with the single options.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Protocol, get_args, get_origin, get_type_hints

Command = Callable[..., None]


class Options(Protocol):
    """Several options that a command takes as one value; the meta data of an `Annotated` type."""

    def parameters(self) -> list[inspect.Parameter]:
        """Return the single options, as Typer takes them."""

    def gathered(self, values: Mapping[str, Any]) -> Any:
        """Make the one value of the values of all parameters, by name."""


class _Fields:
    """Fields of a dataclass as options."""

    def __init__(self, record: type[Any]) -> None:
        self._record = record
        hints = get_type_hints(record, include_extras=True)
        self._parameters = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(record)
        ]

    def parameters(self) -> list[inspect.Parameter]:
        return self._parameters

    def gathered(self, values: Mapping[str, Any]) -> Any:
        return self._record(**values)


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
