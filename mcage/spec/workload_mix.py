"""Mixes of kernels: which kernels an instance runs in each period of its life."""

import math
import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mcage.plain_text import one_line, shortened
from mcage.random import stream_key, streams_of

FORMS = "uniform, one, dirichlet(alpha), or weights(kernel: weight, ...)"

LEAST_ALPHA, GREATEST_ALPHA = 0.01, 1000.0

Mix = str | dict[str, float]


def canonical_mix(mix: object) -> Mix:
    """Check a mix, given as a text or a table of weights; ``weights(...)`` becomes a table.

    Raises
    ------
    ValueError
        If the text is no mix; the message says what is wrong.
    """
    if isinstance(mix, Mapping):
        return _weights(mix)
    match = re.fullmatch(r"\s*([a-z]+)\s*(?:\((.*)\))?\s*", mix if isinstance(mix, str) else "")
    if not match:
        raise ValueError(f"must be {FORMS}")
    form, inner = match[1], match[2]
    if form in ("uniform", "one") and inner is None:
        return form
    if form == "dirichlet" and inner is not None:
        return f"dirichlet({_alpha(inner)!r})"
    if form == "weights" and inner is not None:
        pairs = [part.rpartition(":") for part in inner.split(",")]
        names = [name.strip() for name, _, _ in pairs]
        if "" in names or len(set(names)) < len(names):
            raise ValueError("weights(kernel: weight, ...) needs each kernel once, with its weight")
        return _weights({name.strip(): _number(weight) for name, _, weight in pairs})
    raise ValueError(f"must be {FORMS}")


def _alpha(text: str) -> float:
    alpha = _number(text)
    if not LEAST_ALPHA <= alpha <= GREATEST_ALPHA:
        raise ValueError(f"alpha = {alpha:g} must be {LEAST_ALPHA:g} ... {GREATEST_ALPHA:g}")
    return alpha


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{shortened(text.strip())} is no number") from None


def _weights(table: Mapping[str, object]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for kernel, weight in table.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not (math.isfinite(weight) and weight > 0):  # type: ignore[arg-type, operator]
            raise ValueError(
                f"weight {shortened(weight)} of {one_line(kernel)} must be a number above 0"
            )
        weights[kernel] = float(weight)  # type: ignore[arg-type]
    if not math.isfinite(sum(weights.values())):
        raise ValueError("the weights sum to more than can be computed")
    if not weights:
        raise ValueError("needs a weight for each kernel")
    return weights


def draw_kernels(
    mix: Mix, seed: int, instances: NDArray[np.int64], kernels: tuple[str, ...], periods: int
) -> NDArray[np.int64]:
    """Draw the kernel of every period of every instance.

    Parameters
    ----------
    mix : str or dict
        As `canonical_mix` gives it; a table has a weight for each of the kernels.
    seed : int
        Seed of the whole sweep.
    instances : int64[I]
        Instance ids. The draws of an instance depend on seed and id only.
    kernels : tuple of str
        Names of the kernels.
    periods : int
        Number of periods of a life.

    Returns
    -------
    int64[I, periods]
        Numbers of the kernels.
    """
    from mcage.philox import first_numbers, integers_below  # Numba takes long to import

    key = stream_key(seed, "workload")
    if mix == "uniform":
        return integers_below(len(kernels), key, instances, periods)
    if mix == "one":
        return np.repeat(integers_below(len(kernels), key, instances, 1), periods, axis=1)
    cumulative = np.cumsum(kernel_chances(mix, seed, instances, kernels), axis=1)
    numbers = first_numbers(key, instances, periods)
    # Rounding may leave the last sum below a number.
    passed = cumulative[:, None, :-1] <= numbers[..., None]
    return np.asarray(passed.sum(axis=2), dtype=np.int64)


def draw_mixes(
    mix: Mix,
    seed: int,
    instances: NDArray[np.int64],
    kernels: tuple[str, ...],
    periods: int,
    most: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw the kernels that take turns in every period of every instance, and their shares.

    Parameters
    ----------
    mix : str or dict
        As `canonical_mix` gives it: equal shares, a single kernel for life, shares from a Dirichlet
        distribution, or given ones of all kernels.
    seed, instances, kernels, periods
        As of `draw_kernels`.
    most : int
        Number of kernels of a mix, if there are as many; they are drawn without replacement.

    Returns
    -------
    int64[I, periods, turns], float64[I, periods, turns]
        Numbers of the kernels in rising order, and their shares of the busy time, which sum to 1.
    """
    count = len(instances)
    if mix == "one":
        kernel = draw_kernels(mix, seed, instances, kernels, periods)[..., None]
        return kernel, np.ones(kernel.shape)
    if isinstance(mix, dict):
        shares = _shares_of(mix, kernels)
        shape = (count, periods, len(kernels))
        return (
            np.broadcast_to(np.arange(len(kernels)), shape).copy(),
            np.broadcast_to(shares, shape).copy(),
        )
    turns = min(most, len(kernels))
    kernel = np.empty((count, periods, turns), dtype=np.int64)
    share = np.full(kernel.shape, 1 / turns)
    name, differ = "workload.mix", mix != "uniform"
    if not differ or _alpha_of(mix) == 1:
        from mcage.philox import fill_in_mixes  # Numba takes long to import

        fill_in_mixes(stream_key(seed, name), instances, len(kernels), differ, kernel, share)
        return kernel, share
    for row, draws in enumerate(streams_of(seed, name, instances.tolist())):
        for period in range(periods):
            kernel[row, period] = np.sort(draws.permutation(len(kernels))[:turns])
            share[row, period] = draws.dirichlet(np.full(turns, _alpha_of(mix)))
    return kernel, share


def draw_shares(
    mix: str, draws: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Shares from the Dirichlet distribution of a mix, along the last axis: float64[shape]."""
    return draws.dirichlet(np.full(shape[-1], _alpha_of(mix)), shape[:-1])


def kernel_chances(
    mix: Mix, seed: int, instances: NDArray[np.int64], kernels: tuple[str, ...]
) -> NDArray[np.float64]:
    """Chance of each kernel in a period of each instance: float64[I, kernels].

    Given these, the kernels of its periods are independent, but of the mix ``one``, which draws one
    kernel for all of them. Arguments as of `draw_kernels`.
    """
    if mix in ("uniform", "one"):
        return np.full((len(instances), len(kernels)), 1 / len(kernels))
    if isinstance(mix, dict):
        return np.tile(_shares_of(mix, kernels), (len(instances), 1))
    chances = np.empty((len(instances), len(kernels)))
    for row, draws in enumerate(streams_of(seed, "workload.taste", instances.tolist())):
        chances[row] = draws.dirichlet(np.full(len(kernels), _alpha_of(mix)))
    return chances


def _shares_of(mix: dict[str, float], kernels: tuple[str, ...]) -> NDArray[np.float64]:
    weights = np.array([mix[name] for name in kernels])
    return np.asarray(weights / weights.sum())


def _alpha_of(mix: str) -> float:
    return float(mix.removeprefix("dirichlet(").removesuffix(")"))
