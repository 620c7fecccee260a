"""What simulated lives rely on in an NBTI model, checked with random histories before a sweep."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mcage.aging.environment import Environment
from mcage.aging.nbti.model import NbtiModel, Rates, Transistors, with_constants
from mcage.aging.nbti.user_defined import label_of
from mcage.errors import UserError

HISTORIES = 2000
"""Random histories, each of `EPOCHS`."""

EPOCHS = 5

ROUNDING = 1e-9
"""Relative difference of shifts that may be rounding."""

_NO_ROWS = np.empty(0, np.int64)
_NO_CONSTANTS: Mapping[str, NDArray[np.float64]] = {}


def check_model(
    model: NbtiModel,
    environment: Environment,
    seconds: float,
    transistors: Transistors,
    draws: tuple[NDArray[np.int64], Mapping[str, NDArray[np.float64]]] = (_NO_ROWS, _NO_CONSTANTS),
) -> None:
    """Refuse a model under which random histories show that branch and bound is wrong.

    Parameters
    ----------
    model : NbtiModel
        Model.
    environment : Environment
        Operating points.
    seconds : float
        Age that histories reach.
    transistors : Transistors
        Extreme transistors: float64[k], or a number for all. Each epoch has the rates of one of
        them.
    draws : (int64[k], mapping)
        Where constants of the model differ from row to row of a table: the row of each of the
        extreme transistors, rising and equally many of each, and float64[rows] by name. A history
        keeps to the constants of a row.

    Raises
    ------
    UserError
        A shift is negative or no number; a transistor that was stressed less in part of the epochs,
        and more in none, has shifted further; or an epoch in two pieces gives another shift.
    """
    rng = np.random.default_rng(0)
    row, columns = draws
    of_each = {name: values[row] for name, values in columns.items()}
    rates = with_constants(model, of_each).rates(environment, transistors)
    of_all = np.broadcast_arrays(np.atleast_1d(rates.stress), rates.diffusion)
    rows = int(row[-1]) + 1 if len(row) else 1
    each = len(of_all[0]) // rows
    of_history = np.arange(HISTORIES) % rows
    drawn = of_history * each + rng.integers(each, size=(EPOCHS, HISTORIES))
    model = with_constants(model, {name: values[of_history] for name, values in columns.items()})
    rates_of_epochs = [Rates(*(values[which] for values in of_all)) for which in drawn]
    lengths = rng.dirichlet(np.full(EPOCHS, 0.5), HISTORIES).T * seconds
    # Duties close to none and to all of the time as often as others, and exactly these.
    steep = 10.0 ** rng.uniform(-9, 0, (EPOCHS, HISTORIES))
    duty = np.where(rng.random(steep.shape) < 0.5, steep, 1 - steep)
    duty = np.where(rng.random(steep.shape) < 0.2, np.round(duty), duty)
    more = np.where(
        rng.random(steep.shape) < 0.5, duty, duty + rng.random(steep.shape) * (1 - duty)
    )
    more = np.where(rng.random(steep.shape) < 0.2, 1.0, more)

    shift, larger = (_shift(model, rates_of_epochs, each, lengths) for each in (duty, more))
    for shifts in (shift, larger):
        if not (shifts >= 0).all():
            raise UserError(f"{label_of(model)} gives shifts that are negative or no numbers")
    if (falls := shift > larger * (1 + ROUNDING)).any():
        worst = np.argmax(falls)
        raise UserError(
            f"{label_of(model)}: a longer duty in some epochs, shorter in none, shifts by "
            f"{larger[worst]:g} V in place of {shift[worst]:g} V; sweeps need one in which it "
            "never shifts less"
        )
    twice = [rates for rates in rates_of_epochs for _ in range(2)]
    pieces = _shift(model, twice, duty.repeat(2, axis=0), 0.5 * lengths.repeat(2, axis=0))
    if (differs := np.abs(pieces - shift) > 1e-6 * shift).any():
        worst = np.argmax(differs)
        raise UserError(
            f"{label_of(model)}: epochs in two pieces each shift by {pieces[worst]:g} V in place "
            f"of {shift[worst]:g} V; sweeps need one in which that changes nothing"
        )


def _shift(
    model: NbtiModel,
    rates: Sequence[Rates],
    duty: NDArray[np.float64],
    lengths: NDArray[np.float64],
) -> NDArray[np.float64]:
    state = model.initial_state((duty.shape[1],))
    for epoch, seconds, part in zip(rates, lengths, duty, strict=True):
        state = model.advance(state, epoch, part, seconds)
    return model.dvth_of(state)
