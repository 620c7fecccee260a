"""Aging of SMs launch by launch: the experiment of Chen et al., DAC 2014, section 6."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import Environment, OperatingPoint
from mcage.aging.nbti import Bhardwaj, NbtiModel, Phases, Rates, Transistors
from mcage.gpu.gating.policies import Policy, Readings
from mcage.random import stream

ROUND_SECONDS = 3.596e-4
"""Length of a round (reconstructed): 100 rounds of LU shift an SM that always works by the printed
6.78 mV. The paper says "about millisecond or more"."""

ROUNDS = 100
"""Rounds of a kernel (section 6.1)."""


class PhaseModel(Protocol):
    """What takes a state through a phase of stress or of recovery."""

    def initial_state(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the state of new transistors."""

    def advance(
        self, state: NDArray[np.float64], rates: Rates, stressed: ArrayLike, seconds: ArrayLike
    ) -> NDArray[np.float64]:
        """Return a state after a phase."""

    def dvth_of(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return shifts in volts."""


def phase_model(model: NbtiModel) -> PhaseModel:
    """Return the phase-wise form of a model that has such a form, otherwise the model itself."""
    return Phases(model) if isinstance(model, Bhardwaj) else model


@dataclass(frozen=True, eq=False)
class Rounds:
    """A sequence of launches on GPUs that start new.

    Parameters
    ----------
    model : NbtiModel
        How SMs age; `Bhardwaj` phase by phase.
    counts : array of int
        SMs that each round needs.
    seconds : array of float
        Length of each round, s; or of all.
    vdd_volts : float
        Supply voltage, V.
    transistors : Transistors
        Temperatures and unaged threshold voltages of SMs, as numbers or float64[n, I].
    sms, gpus : int
        SMs of a GPU, and number of GPUs.
    seed : int
        Seed of policies that draw.
    """

    model: NbtiModel
    counts: NDArray[np.int64]
    seconds: ArrayLike
    vdd_volts: float
    transistors: Transistors
    sms: int
    gpus: int = 1
    seed: int = 1

    def dvth_volts(self, policy: Policy) -> NDArray[np.float64]:
        """Shift of each SM after the last round, in volts: float64[n, I].

        An SM that does not work is gated, and recovers.
        """
        shape = self.sms, self.gpus
        model = phase_model(self.model)
        kelvin = self.transistors.temperature_kelvin
        point = OperatingPoint(self.vdd_volts, 1.0, 353.15 if kelvin is None else 300.0)
        rates = self.model.rates(Environment("rounds", (point,)), self.transistors)
        vt0 = self.transistors.vt0_volts
        unaged = np.broadcast_to(self.model.vt0_volts if vt0 is None else np.asarray(vt0), shape)
        temperatures = np.broadcast_to(353.15 if kelvin is None else np.asarray(kelvin), shape)
        generators = [stream(self.seed, "gpu.rounds", gpu) for gpu in range(self.gpus)]
        state = model.initial_state(shape)
        turn = np.zeros(self.gpus, np.int64)
        lengths = np.broadcast_to(np.asarray(self.seconds, np.float64), self.counts.shape)
        for count, seconds in zip(self.counts.tolist(), lengths.tolist(), strict=True):
            shifts = model.dvth_of(state)
            readings = Readings(
                dvth_volts=shifts,
                vt_volts=unaged + shifts,
                temperature_kelvin=temperatures,
                retired=np.zeros(shape, np.bool_),
                turn=turn,
                random=lambda: np.stack([g.random(self.sms) for g in generators], axis=1),
            )
            needed = np.full(self.gpus, count if policy.gates else self.sms)
            state = model.advance(state, rates, policy.workers(readings, needed), seconds)
            turn = turn + count
        return model.dvth_of(state)


def closed_form_mitigation(active: int, sms: int, rounds: int, time_ratio: float = 1.0) -> float:
    """Mitigation of the largest shift by gating equal SMs in turns, as a closed form.

    A rest removes nine tenths of a shift, whose sixth power is nothing: what counts is how many
    rounds an SM works in a row, m = ceil(n / (N - n)).

    Parameters
    ----------
    active, sms : int
        SMs that work, n, and SMs of the GPU, N.
    rounds : int
        Rounds.
    time_ratio : float
        Length of a round relative to that on all SMs.

    Returns
    -------
    float
        ``1 - (m time_ratio / rounds)^(1/6)``; 0 where all SMs work. It is off by 0.01 points of a
        per cent after 100 rounds and by 0.04 after 1,000.
    """
    if active == sms:
        return 0.0
    in_a_row = -(-active // (sms - active))
    return float(1 - (in_a_row * time_ratio / rounds) ** (1 / 6))
