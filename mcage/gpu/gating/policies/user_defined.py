"""User-defined policies: what they return is checked."""

import numpy as np
from numpy.typing import NDArray

from mcage.errors import UserError
from mcage.gpu.gating.policies.policy import Policy, Readings
from mcage.plugins import blamed_on


class CheckedPolicy(Policy):
    """A user-defined policy, whose answers are checked and whose errors are its own.

    Parameters
    ----------
    policy : Policy
        The policy.
    label : str
        How errors call it.
    """

    def __init__(self, policy: Policy, label: str) -> None:
        self._policy = policy
        self._label = label
        self.gates = bool(policy.gates)  # type: ignore[misc]
        self.rotates = bool(policy.rotates)  # type: ignore[misc]

    def workers(self, readings: Readings, count: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return what the policy returns.

        Raises
        ------
        UserError
            The policy fails; it returns something else than a Boolean value for each SM, another
            number of SMs than the launch needs, or an SM that is gated for good.
        """
        with blamed_on(self._label):
            chosen = np.asarray(self._policy.workers(readings, count))
        if chosen.shape != readings.shape or chosen.dtype != np.bool_:
            raise UserError(
                f"{self._label}: workers gives {chosen.dtype}{list(chosen.shape)}, where "
                f"bool{list(readings.shape)} (SMs, GPUs) is needed"
            )
        if (chosen & readings.retired).any():
            sm, gpu = np.argwhere(chosen & readings.retired)[0]
            raise UserError(
                f"{self._label}: workers puts SM {sm} of GPU {gpu} of a batch to work, which is "
                "retired, and gated for good"
            )
        wrong = np.flatnonzero(chosen.sum(axis=0) != count)
        if len(wrong):
            gpu = wrong[0]
            raise UserError(
                f"{self._label}: workers puts {chosen[:, gpu].sum()} SMs of GPU {gpu} of a batch "
                f"to work, where {count[gpu]} are needed"
            )
        return chosen
