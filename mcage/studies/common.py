"""Common base of all studies: how a spec, or the header of a file, becomes a study."""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from mcage.campaign.study import Study
from mcage.concurrency import usable_cores
from mcage.engines import device_of, select_engine
from mcage.engines.interface import Engine
from mcage.errors import UserError
from mcage.plain_text import shortened
from mcage.results.header import Header
from mcage.results.writer import Arrays
from mcage.spec.keys import plug_ins
from mcage.version import running_code


class StudyOfSpec(ABC):
    """A study before its first instance, made of its spec: all that can be wrong is checked.

    A class of a study takes the spec; where it has an engine, also ``engine`` and
    ``engine_reason``; and where it has something to say meanwhile, ``say``.

    Attributes
    ----------
    spec : StudySpec
        What to compute; its class is that of the header.
    engine_reason : str
        Why that engine; empty where there is no choice.
    """

    spec: Any
    engine_reason: str = ""

    @property
    @abstractmethod
    def header(self) -> Header:
        """Attributes of files that describe the study."""

    @abstractmethod
    def compute(self, first: int, last: int) -> Arrays:
        """Arrays of the instances ``first`` ... ``last`` - 1, as the header declares them."""

    @property
    def batch(self) -> int:
        """Instances that are computed together, as of `mcage.campaign.study.Study`."""
        return 1

    @property
    def threads(self) -> int:
        """Threads of a process that compute a batch each, as of `mcage.campaign.study.Study`."""
        return 1

    @property
    def study(self) -> Study:
        """The study as campaigns know it."""
        kind = type(self)
        maker = f"{kind.__module__}:{kind.__qualname__}.{self.study_of_header.__name__}"
        return Study(self.header, self.compute, maker, self.batch, self.threads)

    def campaign(self, recorded: Any, digest: str, engine: Engine | None = None) -> dict[str, Any]:
        """Fields of the header that say which campaign this is, on what it runs, and by which code.

        Parameters
        ----------
        recorded : StudySpec
            The spec as files record it, with the digests of its programs.
        digest : str
            Of all that decides the results of an instance.
        engine : Engine, optional
            What computes register files; None of a study that needs none.
        """
        return {
            "spec_toml": recorded.to_toml(),
            "spec_digest": digest,
            "seed": self.spec.seed,
            "instances": self.spec.instances,
            "engine": "numpy" if engine is None else engine.name,
            "engine_reason": self.engine_reason,
            "device": "" if engine is None else device_of(engine),
            "codes": (running_code(plug_ins(self.spec)),),
        }

    @classmethod
    def study_of_spec(
        cls,
        spec: Any,
        engine: str = "auto",
        devices: Sequence[int] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Study:
        """The study of a spec.

        Parameters
        ----------
        spec : StudySpec
            What to compute.
        engine, devices
            As `mcage.engines.select_engine` takes them, of a study that has an engine.
        say : callable, optional
            Receives messages about preparations, and about batches that shrink as memory runs out.

        Raises
        ------
        UserError
            The spec makes no sense, or there is no such engine; or one is named, or devices are, of
            a study that has none.
        """
        fields: dict[str, Any] = {"say": say}
        known = signature(cls).parameters
        if "engine" not in known and (devices or engine not in ("auto", "numpy")):
            option = f"devices = {[*devices]}" if devices else f"engine = {shortened(engine)}"
            raise UserError(f"{option}: this study has no engine; leave it out")
        if "engine" in known:
            chosen, reason = select_engine(engine, devices, usable_cores())
            fields |= {"engine": chosen, "engine_reason": reason}
        made = cls(spec, **{name: fields[name] for name in fields.keys() & known})  # type: ignore[call-arg]
        return made.study

    @classmethod
    def study_of_header(cls, header: Header) -> Study:
        """The study of a header, with its spec and the name of its engine, in any process.

        Raises
        ------
        UserError
            As `study_of_spec`.
        """
        kind: Any = header.spec
        return cls.study_of_spec(kind.from_mapping(tomllib.loads(header.spec_toml)), header.engine)
