"""What the commands that take the spec of a sweep share: its options, and who overrides whom."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mcage.spec import SweepSpec

Seed = Annotated[int | None, typer.Option(help="Seed of all random streams.")]
Kernel = Annotated[
    list[str] | None, typer.Option(help="Bundled kernel or trace file (repeat); default: all.")
]
Periods = Annotated[int | None, typer.Option(help="Kernels that an instance runs in its life.")]
Mix = Annotated[
    str | None,
    typer.Option(help="uniform, one, dirichlet(alpha), or weights(kernel: weight, ...)."),
]
Generations = Annotated[
    int | None, typer.Option(help="Windows per slot that traces are cut to; 0: whole.")
]
Release = Annotated[
    str | None,
    typer.Option(help="With what a window is freed: its wavefront (default) or its work-group."),
]
Horizon = Annotated[float | None, typer.Option(help="Years to watch.")]
Epochs = Annotated[int | None, typer.Option(help="Stretches of life with a fixed fault map.")]
Guardband = Annotated[
    float | None, typer.Option(help="Delay increase that ends a life, 0.139 for 13.9 %.")
]
Nbti = Annotated[
    str | None, typer.Option(help="NBTI model; see `mcage nbti --list`, or module:NAME.")
]
VminCoefficient = Annotated[
    float | None, typer.Option(help="Growth of Vmin per threshold shift, V/V.")
]
SigmaDie = Annotated[
    float | None, typer.Option(help="Deviation of Vmin between dies in V; default: the scenario's.")
]
LdsRows = Annotated[int | None, typer.Option(help="Registers that the LDS holds for one slice.")]
Engine = Annotated[str, typer.Option(help="auto, numpy, numba or cuda.")]
Spec = Annotated[Path | None, typer.Argument(help="Spec of a sweep as TOML; options override it.")]
Scenario = Annotated[
    str | None, typer.Option(help="common, clustered or dispersed; default: common.")
]
Vdd = Annotated[
    float | None, typer.Option(help="Low supply voltage in V; default: the scenario's own.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def one(value: Any) -> list[Any] | None:
    """An option that a spec has a list of, and the command takes once."""
    return None if value is None else [value]


def spec_of(
    path: Path | None, options: dict[str, Any], command: str, defaults: dict[str, Any] | None = None
) -> "SweepSpec":
    """Spec from a file, if there is one, between what options override and defaults leave open.

    Parameters
    ----------
    path : Path or None
        TOML file.
    options : dict
        By dotted key of the spec; None or an empty list where an option was not given.
    command : str
        Where fields come from if there is no file, for error messages.
    defaults : dict, optional
        Top-level fields in which the command differs from a sweep.

    Raises
    ------
    UserError
        As `SweepSpec.from_toml`.
    """
    from mcage.spec import SweepSpec
    from mcage.spec.toml_files import read_toml

    fields = _overridden((defaults or {}) | (read_toml(path) if path else {}), options)
    return SweepSpec.from_mapping(fields, str(path) if path else command)


def _overridden(fields: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Fields of the spec with the given options put over them."""
    for key, value in options.items():
        if value is None or value == []:
            continue
        part, dot, name = key.rpartition(".")
        target = fields
        if dot:
            target = fields.setdefault(part, {})
            if not isinstance(target, dict):
                continue
        target[name] = value
    return fields
