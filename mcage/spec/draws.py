"""Joint draws of constants: a table with a column for each constant, from a CSV file or a spec.

    aging.constants.amplitude,aging.constants.activation_energy_ev,life.vmin_coefficient
    189545.4,0.13,1.0
    201300,0.1315,0.83

A spec keeps the values and not the name of the file: they are what decides results.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from mcage.errors import UserError
from mcage.files.csv_table import read_table
from mcage.files.inputs import MIB
from mcage.plain_text import shortened
from mcage.spec.keys import Section
from mcage.spec.sections import Aging, Faults, Life

OF_MODEL = "aging.constants."
"""Beginning of the keys of the constants of the NBTI model."""

DRAWN = {
    "life.temperature_kelvin": "K",
    "life.activity": "1",
    "life.delay_guardband": "1",
    "life.vmin_coefficient": "1",
    "aging.vt0_volts": "V",
    "aging.shift_factor": "1",
    "faults.mu_volts": "V",
    "faults.sigma_systematic_volts": "V",
    "faults.sigma_random_volts": "V",
}
"""Keys of a spec that may be drawn jointly besides the constants of the model; units."""

MOST_ROWS = 10_000
"""Largest number of rows."""

MOST_VALUES = 100_000
"""Largest number of values; every file of the sweep keeps them."""

_MOST_BYTES = 8 * MIB

_REASONS = {
    "aging.constants.time_exponent": "the exponent is that of the form of the model, which takes "
    "roots, and is the same in all instances",
    "aging.model": "instances of a sweep have the same model; compare sweeps",
    "aging.nbti_spread_mv": "the luck of transistors is that of all instances of a case",
    "faults.sigma_die_volts": "a die has a part of Vmin, and the same law for all dies",
    "faults.phi": "the field of each row would have to be factorized",
    "life.temperature_swing_kelvin": "it is drawn for each epoch of an instance; give it a "
    "distribution",
}


class Draws(Section):
    """Joint draws of constants, of which each instance has a row for life."""

    columns: Annotated[dict[str, tuple[float, ...]], Field(min_length=1)]
    """Values by key of the spec, such as ``aging.constants.eta``; as many in each column."""
    sources: Annotated[tuple[str, ...], Field(exclude=True)] = ()
    """Where the rows come from, file and line, for error messages; decides nothing."""

    @field_validator("columns")
    @classmethod
    def _is_a_table(cls, columns: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        for key in columns:
            check_key(key)
        sizes = {len(values) for values in columns.values()}
        if len(sizes) > 1:
            raise ValueError(f"columns of {min(sizes)} and of {max(sizes)} values; must be equal")
        check_size(max(sizes), len(columns))
        return columns

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """How messages call a row: by the line of the CSV file, if it comes from there."""
        return (*self.sources[row : row + 1], f"draws.columns: row {row}")[0]

    def named(self, table: str) -> tuple[str, ...]:
        """Names of the columns whose keys are in a table of the spec, such as ``faults.``."""
        return tuple(key.removeprefix(table) for key in self.columns if key.startswith(table))

    @property
    def of_model(self) -> tuple[str, ...]:
        """Names of the constants of the NBTI model among the columns."""
        return self.named(OF_MODEL)

    def bounds(self, key: str) -> tuple[float, float] | None:
        """Least and greatest value of a column; None if there is none of that key."""
        values = self.columns.get(key)
        return None if values is None else (min(values), max(values))


def check_key(key: str) -> None:
    """Refuse a key that instances cannot differ in.

    Raises
    ------
    ValueError
        The message says which keys there are.
    """
    if key in _REASONS:
        raise ValueError(f"{key} cannot be drawn: {_REASONS[key]}")
    if key not in DRAWN and not (key.startswith(OF_MODEL) and key != OF_MODEL):
        raise ValueError(
            f"{shortened(key)} is no constant that can be drawn; there are {', '.join(DRAWN)} and "
            f"{OF_MODEL}NAME with the constants of the NBTI model (`mcage nbti --list`)"
        )


def check_size(rows: int, columns: int) -> None:
    """Refuse a table that is empty or too large.

    Raises
    ------
    ValueError
        The message says how large it may be.
    """
    if not rows:
        raise ValueError("there is no row")
    if rows > MOST_ROWS or rows * columns > MOST_VALUES:
        raise ValueError(
            f"{rows:,} rows of {columns} values; at most {MOST_ROWS:,} rows and {MOST_VALUES:,} "
            "values are possible"
        )


def read_draws(path: Path) -> dict[str, Any]:
    """Read joint draws from a CSV file whose columns are called as the keys of the constants.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    UserError
        File, line, key and value of what is wrong.
    """
    columns: dict[str, list[float]] = {}
    sources = []
    for row in read_table(path, most_rows=MOST_ROWS, most_bytes=_MOST_BYTES):
        try:
            for key in () if columns else row.values:
                check_key(key)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from error
        for key in row.values:
            columns.setdefault(key, []).append(row.number(key))
        sources.append(row.source)
    try:
        check_size(len(sources), len(columns))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return {"columns": columns, "sources": sources}


_SECTIONS: Mapping[str, type[Section]] = {"life": Life, "aging": Aging, "faults": Faults}


def check_draws(draws: Draws, life: Life, aging: Aging, faults: Faults) -> None:
    """Refuse draws out of range, and constants that the spec gives as well.

    The ranges of the constants of a model, and of the law of Vmin, are those of these, which refuse
    others.

    Parameters
    ----------
    draws : Draws
        The table.
    life, aging, faults : Section
        Sections of the spec.

    Raises
    ------
    ValueError
        The message names the row, the key and the value.
    """
    constants = aging.constants or {}
    named = {OF_MODEL + name for name in constants}
    for key, values in draws.columns.items():
        table, _, name = key.partition(".")
        if key.startswith(OF_MODEL):
            continue
        section = {"life": life, "aging": aging, "faults": faults}[table]
        kind = _SECTIONS[table]
        if getattr(section, name) != getattr(kind(), name):
            named.add(key)
        for row, value in enumerate(values):
            try:
                kind.model_validate({name: value})
            except ValidationError as error:
                message = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise ValueError(
                    f"{draws.place(row)}: {key} = {value!r}: {message[:1].lower()}{message[1:]}"
                ) from error
    if twice := named & draws.columns.keys():
        raise ValueError(f"draws.columns: {min(twice)} is drawn, and the spec gives it, too")
    thresholds = ("aging.vt0_volts", f"{OF_MODEL}vt0_volts")
    if aging.vt0_volts is not None:
        named.add("aging.vt0_volts")
    if sum(key in draws.columns or key in named for key in thresholds) > 1:
        raise ValueError(f"draws.columns: {' and '.join(thresholds)}: give one of them")
