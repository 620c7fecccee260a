"""Which SMs work: a file for each policy, and how a user-defined policy is loaded."""

from mcage.errors import UserError
from mcage.gpu.gating.policies.coolest_first import CoolestFirst
from mcage.gpu.gating.policies.default import Default
from mcage.gpu.gating.policies.fixed import Fixed
from mcage.gpu.gating.policies.least_shift import LeastShift
from mcage.gpu.gating.policies.most_slack import MostSlack
from mcage.gpu.gating.policies.policy import Policy, RankingPolicy, Readings
from mcage.gpu.gating.policies.random_order import RandomOrder
from mcage.gpu.gating.policies.round_robin import RoundRobin
from mcage.gpu.gating.policies.user_defined import CheckedPolicy
from mcage.plain_text import shortened
from mcage.plugins import is_plugin, load_plugin, plugin_label

POLICIES: dict[str, Policy] = {
    "default": Default(),
    "least-shift": LeastShift(),
    "round-robin": RoundRobin(),
    "random": RandomOrder(),
    "fixed": Fixed(),
    "coolest-first": CoolestFirst(),
    "most-slack": MostSlack(),
}
"""Policies that ship with mcage, by name."""


def policy(name: str) -> Policy:
    """Policy called ``name``: it ships with mcage, or is user-defined as ``module:NAME``.

    Raises
    ------
    UserError
        There is no such policy, or the module cannot be imported.
    """
    if name in POLICIES:
        return POLICIES[name]
    if not is_plugin(name):
        raise UserError(
            f"policy {shortened(name)} is unknown; choose from {', '.join(POLICIES)}, or name a "
            "user-defined one as module:NAME"
        )
    loaded = load_plugin("policy", name, Policy)  # type: ignore[type-abstract]
    return CheckedPolicy(loaded, plugin_label("policy", name))


__all__ = ["POLICIES", "Policy", "RankingPolicy", "Readings", "policy"]
