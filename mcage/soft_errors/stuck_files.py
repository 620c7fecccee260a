"""Files of stuck cells, by instance."""

from io import BytesIO
from pathlib import Path

import numpy as np

from mcage.errors import UserError
from mcage.files.inputs import MIB, UnreadableFileError, read_regular
from mcage.geometry import Integers, SliceGeometry
from mcage.soft_errors.stuck import StuckCells, drawn_values

MOST_STUCK_BYTES = 64 * MIB
"""Largest file of stuck cells."""

DRAWN = -1
"""In place of the value of a stuck cell: drawn from its stream."""


def load_stuck_cells(path: Path, geometry: SliceGeometry, seed: int) -> dict[int, StuckCells]:
    """Read stuck cells from a NumPy file, by instance: integers [cells, 3].

    Columns: instance; cell, which is the cells of an entry x entry + bit; and the value at which it
    is stuck, 0 or 1, or -1 where it is drawn from the stream of the instance.

    Parameters
    ----------
    path : Path
        The file, 64 MiB at most.
    geometry : SliceGeometry
        The slice.
    seed : int
        Seed of what is drawn.

    Raises
    ------
    UserError
        The file cannot be read, holds anything else, or a number is out of range.
    """
    return stuck_cells_of(stuck_table(path), path, geometry, seed)


def stuck_table(path: Path) -> Integers:
    """Read a file of stuck cells whatever the slice is: int64[cells, 3], as of `load_stuck_cells`.

    Raises
    ------
    UserError
        As `load_stuck_cells`, but for cells that a slice does not have.
    """
    try:
        table = np.load(BytesIO(read_regular(path, MOST_STUCK_BYTES)), allow_pickle=False)
    except UnreadableFileError as error:
        raise UserError(f"{path}: no NumPy file with stuck cells ({error.reason})") from error
    except Exception as error:  # of a damaged file, NumPy raises whatever its parsers do
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: no NumPy file with stuck cells ({reason:.100})") from error
    if not (isinstance(table, np.ndarray) and table.dtype.kind in "iu" and table.ndim == 2):
        raise UserError(f"{path}: integers of shape (cells, 3) are needed")
    if table.shape[1] != len(_STUCK_COLUMNS) or not len(table):
        raise UserError(f"{path}: has shape {table.shape}, must be (cells, 3) with at least a cell")
    table = table.astype(np.int64)
    for column, (name, low, high) in enumerate(_STUCK_COLUMNS):
        _refuse_outside(path, table, column, name, (low, high))
    _, first = np.unique(table[:, :2], axis=0, return_index=True)
    if len(first) < len(table):
        row = int(np.setdiff1d(np.arange(len(table)), first)[0])
        raise UserError(
            f"{path}: row {row}: cell {table[row, 1]} of instance {table[row, 0]} stands in a row "
            "before, and must stand once"
        )
    return table


def _refuse_outside(
    path: Path, table: Integers, column: int, name: str, bounds: tuple[int, int]
) -> None:
    low, top = bounds
    outside = (table[:, column] < low) | (table[:, column] > top)
    if outside.any():
        row = int(np.argmax(outside))
        raise UserError(f"{path}: row {row}: {name} {table[row, column]}, must be {low} ... {top}")


def stuck_cells_of(
    table: Integers, path: Path, geometry: SliceGeometry, seed: int
) -> dict[int, StuckCells]:
    """Stuck cells of a table, by instance.

    Parameters
    ----------
    table : int64[cells, 3]
        As of `stuck_table`.
    path, geometry, seed
        As of `load_stuck_cells`.

    Raises
    ------
    UserError
        The slice has no such cell.
    """
    _refuse_outside(path, table, 1, "cell", (0, geometry.cells - 1))
    cells, table = {}, table[np.argsort(table[:, 0], kind="stable")]
    instances, first = np.unique(table[:, 0], return_index=True)
    for instance, rows in zip(instances.tolist(), np.split(table, first[1:]), strict=True):
        _, cell, value = rows.T
        drawn = drawn_values(seed, instance, cell)
        at_one = np.where(value == DRAWN, drawn, value == 1)
        cells[instance] = StuckCells(cell, at_one, np.zeros(len(cell)))
    return cells


_STUCK_COLUMNS = (("instance", 0, 2**31 - 1), ("cell", 0, 2**63 - 1), ("value", DRAWN, 1))
"""Columns of the file, with the lowest and the highest number; of cells, the slice says less."""
