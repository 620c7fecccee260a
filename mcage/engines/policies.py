"""Which policies an engine implements, and the refusal of all others, by name."""

from collections.abc import Set
from dataclasses import dataclass

from mcage.errors import UserError
from mcage.techniques import Gating, Placement, Storage, Technique


@dataclass(frozen=True)
class Policies:
    """Policies that an engine implements, in every combination that makes a `Technique`.

    They are listed one by one: a member that is added to an enumeration is implemented by no
    engine until the engine says so.

    Attributes
    ----------
    placements : set of Placement
        Placements.
    storages : set of Storage
        Storages.
    gatings : set of Gating
        Gatings.
    """

    placements: Set[Placement]
    storages: Set[Storage]
    gatings: Set[Gating]

    def check(self, technique: Technique, engine: str) -> None:
        """Refuse a technique that asks for a policy which is not among these.

        Parameters
        ----------
        technique : Technique
            Any technique.
        engine : str
            Name of the engine that implements these policies.

        Raises
        ------
        UserError
            One line that names technique, policy and engine.
        """
        asked: tuple[tuple[Placement | Storage | Gating, Set[Placement | Storage | Gating]], ...]
        asked = (
            (technique.placement, self.placements),
            (technique.storage, self.storages),
            (technique.gating, self.gatings),
        )
        for policy, implemented in asked:
            if policy not in implemented:
                kind = type(policy).__name__.lower()
                known = ", ".join(member.value for member in type(policy) if member in implemented)
                where = "; programs run on the CPU: --engine numba" if technique.program else ""
                raise UserError(
                    f"technique {technique.name!r}: engine {engine!r} does not implement {kind} "
                    f"{policy.value!r}; it implements {known}{where}"
                )
