"""The border between computing and storing: arrays must be as their study declares them."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from mcage.results.header import Header
from mcage.results.variable import Variable, dimension_sizes

Arrays = Mapping[str, npt.NDArray[np.generic]]


def conforming(
    header: Header, arrays: Arrays, instances: int
) -> dict[str, npt.NDArray[np.generic]]:
    """Return the computed arrays of ``instances`` instances in the declared types.

    Parameters
    ----------
    header : Header
        Declares the variables and the sizes of the other dimensions.
    arrays : mapping of str to ndarray
        One array for each variable. Any float type may stand for a float, any
        integer type for an integer whose range holds the values.
    instances : int
        Length of the ``instance`` axis.

    Raises
    ------
    ValueError
        A variable is missing, unknown, of the wrong shape or kind, out of range, or NaN where
        no value may be missing.
    """
    declared = {variable.name for variable in header.variables}
    if set(arrays) != declared:
        raise ValueError(
            "computed variables differ from the declared ones: "
            f"missing {sorted(declared - set(arrays))}, "
            f"unknown {sorted(set(arrays) - declared)}"
        )
    sizes = {**dimension_sizes(header.coordinates), "instance": instances}
    return {v.name: _conforming(v, np.asarray(arrays[v.name]), sizes) for v in header.variables}


def _conforming(
    variable: Variable, array: npt.NDArray[np.generic], sizes: Mapping[str, int]
) -> npt.NDArray[np.generic]:
    dtype = np.dtype(variable.dtype)
    if array.shape != variable.shape(sizes):
        raise ValueError(f"{variable.name}: shape {array.shape}, not {variable.shape(sizes)}")
    if dtype.kind == "f":
        if array.dtype.kind != "f":
            raise ValueError(f"{variable.name}: type {array.dtype}, not a float")
        if np.isinf(array).any() or (not variable.missing and np.isnan(array).any()):
            raise ValueError(f"{variable.name}: values that are not finite")
        return array.astype(dtype)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{variable.name}: type {array.dtype}, not an integer")
    allowed = np.iinfo(dtype)
    low, high = int(array.min()), int(array.max())
    if low < allowed.min or high > allowed.max:
        raise ValueError(f"{variable.name}: values {low} ... {high} do not fit into {dtype}")
    if variable.flags and not np.isin(array, variable.flag_values).all():
        raise ValueError(f"{variable.name}: values other than {variable.flag_values}")
    return array.astype(dtype)


def joined(
    variables: Iterable[Variable], parts: Iterable[Arrays]
) -> dict[str, npt.NDArray[np.generic]]:
    """Arrays of several ranges of instances, in rising order, as those of one range.

    Parameters
    ----------
    variables : iterable of Variable
        Variables of the parts.
    parts : iterable of mapping
        The arrays of each range.
    """
    given = list(parts)
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for variable in variables:
        pieces = [part[variable.name] for part in given]
        if variable.per_instance:
            arrays[variable.name] = np.concatenate(pieces, axis=variable.instance_axis)
        else:
            arrays[variable.name] = np.sum(pieces, axis=0)
    return arrays
