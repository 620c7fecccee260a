"""A study of SM gating: from its spec to the arrays of any range of GPUs."""

import re
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import NbtiModel, nbti_model
from mcage.campaign.executors import IN_FLIGHT
from mcage.campaign.study import Study
from mcage.concurrency import usable_cores
from mcage.errors import UserError
from mcage.gpu.chip import gpu
from mcage.gpu.gating.demand import row_sum
from mcage.gpu.gating.kernels import gated_kernels
from mcage.gpu.gating.life import GpuLives, Lives, Population
from mcage.gpu.gating.policies import Policy, policy
from mcage.gpu.gating.spec import DAYS_PER_YEAR, GatingSpec
from mcage.gpu.gating.temperatures import sample_surroundings, surroundings
from mcage.gpu.gating.time_model import TimeModel
from mcage.gpu.gating.variables import AGE, POLICY, VARIABLES, GpuEnd
from mcage.gpu.gating.workload import kernel_shares
from mcage.gpu.sm_variation import sample_vt0
from mcage.gpu.stopping import stopping_rule
from mcage.plain_text import shown
from mcage.plugins import plugin_modules
from mcage.results.header import SCHEMA_VERSION, DeclaredHeader, Header
from mcage.results.variable import Coordinate
from mcage.results.writer import Arrays, joined
from mcage.version import running_code

BATCH_GPUS = 8192
"""GPUs that are taken through their lives together: fewer, and threads wait for the interpreter."""

FEWEST_GPUS = 512
"""GPUs of a shard at least."""


@dataclass(frozen=True, kw_only=True)
class GatingHeader(DeclaredHeader):
    """A study of SM gating as its files know it."""

    command: ClassVar[str] = "mcage gpu gating"
    table: ClassVar[str] = "mcage.report.tables.gpu.lives"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What must be said wherever the results are shown.

        Raises
        ------
        UserError
            The spec of the header makes no sense.
        """
        fields = self._gating
        lost = [self._lost] if self._lost else []
        fields.get("workload", {}).pop("recorded", None)  # no caveat is about it
        return (*GatingSpec.from_mapping(fields).caveats, *lost)

    def difference(self, other: Header) -> str | None:
        """As `Header.difference`; files without the launches they are of join no others."""
        return self._lost or super().difference(other)

    @property
    def _gating(self) -> dict[str, Any]:
        """Plain values of the spec of SM gating."""
        return tomllib.loads(self.spec_toml)

    @property
    def _lost(self) -> str:
        """What a file does not say that holds only the name of its recorded launches."""
        name = re.search('^recorded = (".*")$', self.spec_toml, re.MULTILINE)
        if name is None:
            return ""
        return f"the launches of workload.recorded = {shown(name[1])} are not in the file"


class Gating:
    """A study of SM gating before its first GPU: everything that can be wrong is checked.

    Parameters
    ----------
    spec : GatingSpec
        What to compute.

    Raises
    ------
    UserError
        The GPU, the kernels, a policy, the model or the workload make no sense.
    """

    def __init__(self, spec: GatingSpec) -> None:
        self.spec = spec
        self.gpu = gpu(spec.gpu)
        if spec.life.spare_sms >= self.gpu.sms:
            raise UserError(
                f"life.spare_sms = {spec.life.spare_sms}: the GPU has {self.gpu.sms} SMs, one of "
                "which must work"
            )
        model = TimeModel(**spec.time_model.model_dump())
        workload = spec.workload
        self.kernels = gated_kernels(workload.kernels, workload.names, self.gpu.machine, model)
        self.policies: dict[str, Policy] = {name: policy(name) for name in spec.policies}
        self.nbti: NbtiModel = nbti_model(spec.aging.model, spec.aging.constants)
        names = [kernel.name for kernel in self.kernels]
        horizon_days = spec.life.horizon_years * DAYS_PER_YEAR
        self._shares = kernel_shares(workload, names, horizon_days, spec.seed)
        self.lives = GpuLives(spec, self.gpu, self.kernels, self.nbti)
        # SMs that all work in the warmest air must not become too hot.
        self.lives.temperatures(self.surroundings_range).all_on((self.gpu.sms, 2))

    @cached_property
    def header(self) -> GatingHeader:
        """What files say about the study."""
        spec = self.spec
        return GatingHeader(
            name="gpu-gating",
            computes=VARIABLES,
            labels=(Coordinate(POLICY, spec.policies), Coordinate(AGE, spec.report_years)),
            spec_toml=spec.to_toml(),
            spec_digest=spec.digest(
                str(SCHEMA_VERSION), repr(self.kernels), self.gpu.digest, repr(self.nbti)
            ),
            seed=spec.seed,
            instances=spec.instances,
            engine="numpy",
            stopping=stopping_rule(spec.stopping, VARIABLES),
            codes=(running_code(_plug_ins(spec)),),
        )

    @property
    def study(self) -> Study:
        """The study as campaigns know it."""
        maker = f"{__name__}:{study_of_header.__name__}"
        return Study(self.header, self.compute, maker, FEWEST_GPUS)

    def compute(self, first: int, last: int) -> Arrays:
        """Arrays of the GPUs ``first`` ... ``last`` - 1, as `VARIABLES` declare them."""
        batches = [
            np.arange(start, min(start + BATCH_GPUS, last))
            for start in range(first, last, BATCH_GPUS)
        ]
        with ThreadPoolExecutor(max(1, usable_cores() // IN_FLIGHT)) as pool:
            return joined(VARIABLES, pool.map(self._batch, batches))

    def population(self, instances: NDArray[np.int64]) -> Population:
        """Sample GPUs, given their ids."""
        spec = self.spec
        return Population(
            instances,
            sample_vt0(
                spec.variation,
                self.gpu.sm_centres,
                self.nbti.vt0_volts,
                spec.seed,
                instances,
            ),
            self._shares(instances),
            sample_surroundings(
                spec.temperature, self.gpu.network.package.ambient_kelvin, spec.seed, instances
            ),
        )

    @property
    def surroundings_range(self) -> NDArray[np.float64]:
        """Lowest and highest `Population.surroundings_kelvin` of any GPU: float64[2], K."""
        air = self.gpu.network.package.ambient_kelvin
        return np.array(surroundings(self.spec.temperature, air).bounds)

    def _batch(self, instances: NDArray[np.int64]) -> dict[str, NDArray[np.generic]]:
        population = self.population(instances)
        lives = [self.lives.run(policy, population) for policy in self.policies.values()]
        return {
            "surroundings_kelvin": population.surroundings_kelvin,
            "slowest_vt0_volts": population.vt0_volts.max(axis=0),
            "mean_vt0_volts": row_sum(population.vt0_volts) / self.gpu.sms,
            **_of_all(lives),
        }


def study_of_spec(spec: GatingSpec) -> Study:
    """The study of a spec."""
    return Gating(spec).study


def study_of_header(header: Header) -> Study:
    """The study of a header, as another process makes it."""
    return study_of_spec(GatingSpec.from_mapping(tomllib.loads(header.spec_toml)))


def _of_all(lives: Iterable[Lives]) -> dict[str, NDArray[np.generic]]:
    """Arrays of all policies, as the variables are called."""
    arrays: dict[str, list[NDArray[np.generic]]] = {}
    for life in lives:
        of_policy: dict[str, NDArray[np.generic]] = {
            "margin_needed": life.margin_needed,
            "max_dvth_mv": (1e3 * life.max_dvth_volts).astype(np.float32),
            "retired_sms": life.retired_sms.astype(np.int16),
            "life_years": life.life_years,
            "end_cause": np.where(life.ended, GpuEnd.DELAY, GpuEnd.CENSORED).astype(np.int8),
            "slowdown": life.slowdown,
            "sm_power_w": life.sm_power_w,
            "hottest_kelvin": life.hottest_kelvin.astype(np.float32),
        }
        for name, array in of_policy.items():
            arrays.setdefault(name, []).append(array)
    return {name: np.stack(parts) for name, parts in arrays.items()}


def _plug_ins(spec: GatingSpec) -> set[str]:
    """Modules with user-defined policies and models that a spec names as module:NAME."""
    return plugin_modules((*spec.policies, spec.aging.model))
