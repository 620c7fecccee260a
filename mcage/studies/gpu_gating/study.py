"""A study of SM gating: from its spec to the arrays of any range of GPUs, and their variables."""

import re
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mcage.aging.nbti import NbtiModel, nbti_model
from mcage.campaign.executors import IN_FLIGHT
from mcage.concurrency import usable_cores
from mcage.errors import UserError
from mcage.gpu.chip import gpu
from mcage.plain_text import shown
from mcage.random import stream
from mcage.results.header import SCHEMA_VERSION, DeclaredHeader, Header, rule_of
from mcage.results.measures import Measure
from mcage.results.variable import Coordinate, Variable, flags_of
from mcage.results.writer import Arrays, joined, stacked
from mcage.studies.common import StudyOfSpec
from mcage.studies.gpu_gating.life import (
    GatedLives,
    GpuLives,
    Population,
    sample_surroundings,
    surroundings,
)
from mcage.studies.gpu_gating.policies import Policy, policy
from mcage.studies.gpu_gating.spec import DAYS_PER_YEAR, GatingSpec, SmVariation
from mcage.studies.gpu_gating.workload import TimeModel, gated_kernels, kernel_shares, row_sum
from mcage.variation.field import correlation_factor

# Variables of the results files of a study of SM gating.


class GpuEnd(IntEnum):
    """Cause that ended the life of a GPU."""

    CENSORED = 0
    DELAY = 1


_LIFE = ("policy", "instance")
_BY_AGE = ("policy", "instance", "age")

VARIABLES = (
    Variable(
        "surroundings_kelvin",
        ("instance",),
        "float64",
        "K",
        "temperature of the air around the GPU",
        "Under temperature.model = 'fixed', of its SMs.",
    ),
    Variable(
        "slowest_vt0_volts",
        ("instance",),
        "float64",
        "V",
        "unaged threshold voltage of the slowest SM",
        "It sets the clock of the GPU.",
    ),
    Variable(
        "mean_vt0_volts",
        ("instance",),
        "float64",
        "V",
        "unaged threshold voltage, mean over the SMs",
    ),
    Variable(
        "margin_needed",
        _BY_AGE,
        "float64",
        "1",
        "delay margin needed",
        "Delay of the slowest SM that is not retired over that of the slowest new SM, less 1.",
    ),
    Variable("max_dvth_mv", _BY_AGE, "float32", "mV", "largest NBTI threshold shift of an SM"),
    Variable("retired_sms", _BY_AGE, "int16", "1", "SMs that have been given up"),
    Variable(
        "life_years",
        _LIFE,
        "float64",
        "year",
        "life",
        "Age at which more SMs are slower than the guardband allows than may be given up; the "
        "horizon where end_cause is censored.",
    ),
    Variable("end_cause", _LIFE, "int8", "1", "cause of the end of life", flags=flags_of(GpuEnd)),
    Variable(
        "slowdown",
        _LIFE,
        "float64",
        "1",
        "extra execution time",
        "For the work of the whole horizon, as a fraction of the time that it takes on all SMs.",
    ),
    Variable(
        "sm_power_w", _LIFE, "float64", "W", "power of all SMs together, mean over the horizon"
    ),
    Variable(
        "hottest_kelvin",
        _LIFE,
        "float32",
        "K",
        "highest temperature of an SM",
        "Of its mean temperatures from reading to reading.",
    ),
)
"""Computed variables, in the order of the files."""

POLICY = Variable("policy", ("policy",), "text", "1", "policy that assigns SMs")
AGE = Variable("age", ("age",), "float64", "year", "age")


# Measures of the cases of a study, declared once.

MARGIN = (
    "margin: delay at the horizon over that of the slowest new SM, less 1: what half of the GPUs, "
    "and 99 % of them, need"
)

MEASURES = (
    Measure(
        "median_margin",
        "delay margin that half of the GPUs need at the horizon [%]",
        ("margin_needed",),
        lambda case: case["margin_needed"][:, -1],
        "median\nmargin [%]",
        "bounds",
        quantile=0.5,
        primary=True,
        note=MARGIN,
    ),
    Measure(
        "high_margin",
        "delay margin that 99 % of the GPUs need at the horizon [%]",
        ("margin_needed",),
        lambda case: case["margin_needed"][:, -1],
        "margin of\n99 % [%]",
        "bounds",
        quantile=0.99,
    ),
    Measure(
        "median_life_years",
        "age at which half of the GPUs need more than the guardband [years]",
        ("life_years", "end_cause"),
        lambda case: case["life_years"],
        "median life\n[years]",
        "age",
        quantile=0.5,
        primary=True,
        also="median_life",
    ),
    Measure(
        "alive",
        "reach the horizon [%]",
        ("end_cause",),
        lambda case: case["end_cause"] == 0,
        "alive\n[%]",
        "bounds",
        kind="share",
        better="more",
    ),
    Measure(
        "max_dvth_mv",
        "largest shift of an SM at the horizon [mV]",
        ("max_dvth_mv",),
        lambda case: case["max_dvth_mv"][:, -1],
        "max. dVth\n[mV]",
        primary=True,
        better="less",
        note="max. dVth: of an SM at the horizon",
    ),
    Measure("slowdown", "extra execution time [%]", heading="slowdown\n[%]", better="less"),
    Measure("sm_power_w", "power of all SMs [W]", heading="SMs\n[W]", better="less"),
)
"""The measures of a study of SM gating, in the order of its table."""


# Unaged threshold voltages of the SMs of a die: die, systematic and random parts.


def sample_vt0(
    variation: SmVariation,
    centres: NDArray[np.float64],
    vt0_volts: float,
    seed: int,
    instances: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Unaged threshold voltage of each SM, V.

    Parameters
    ----------
    variation : SmVariation
        Standard deviations, and the range of the spherical correlation (Sarangi et al., VARIUS,
        IEEE TSM 2008, equation 1).
    centres : float64[n, 2]
        Centres of the SMs, in sides of the die.
    vt0_volts : float
        Mean.
    seed : int
        Seed of the study.
    instances : int64[I]
        Ids of the GPUs.

    Returns
    -------
    float64[n, I]
        Volts. The draws behind them depend on seed and instance only.
    """
    sms = len(centres)
    normal = np.empty((len(instances), 1 + 2 * sms))
    for row, instance in zip(normal, instances.tolist(), strict=True):
        stream(seed, "gpu.vt0", instance).standard_normal(out=row)
    die, field, random = normal[:, :1], normal[:, 1 : 1 + sms], normal[:, 1 + sms :]
    factor = correlation_factor(centres, variation.phi)
    millivolts = (
        variation.sigma_die_mv * die
        + variation.sigma_systematic_mv * np.einsum("ij,nj->ni", factor, field)
        + variation.sigma_random_mv * random
    )
    return np.ascontiguousarray(vt0_volts + 1e-3 * millivolts.T)


BATCH_GPUS = 8192
"""GPUs that are taken through their lives together: fewer, and threads wait for the interpreter."""

FEWEST_GPUS = 512
"""GPUs of a shard at least."""


@dataclass(frozen=True, kw_only=True)
class GatingHeader(DeclaredHeader):
    """A study of SM gating as its files know it."""

    command: ClassVar[str] = "mcage gpu gating"
    spec: ClassVar[type] = GatingSpec
    maker: ClassVar[str] = f"{__name__}:Gating"
    grid: ClassVar[tuple[str, ...]] = ("policy",)
    measures: ClassVar[tuple[Measure, ...]] = MEASURES

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats that belong wherever the results are shown."""
        fields, said = self._gating, []
        is_fixed = fields.get("temperature", {}).get("model") == "fixed"
        if is_fixed and "coolest-first" in fields.get("policies", ()):
            said.append(
                "coolest-first: at a fixed temperature all SMs are equally warm, so that the same "
                "SMs always work, as under fixed"
            )
        return (*said, *filter(None, [self._lost]))

    def difference(self, other: Header) -> str | None:
        """As `Header.difference`; files without the launches they are of join no others."""
        return self._lost or super().difference(other)

    @property
    def _gating(self) -> dict[str, Any]:
        """Plain values of the spec of SM gating."""
        return tomllib.loads(self.spec_toml)

    @property
    def _lost(self) -> str:
        """Caveat of a file that holds only the name of its recorded launches."""
        name = re.search('^recorded = (".*")$', self.spec_toml, re.MULTILINE)
        if name is None:
            return ""
        return f"the launches of workload.recorded = {shown(name[1])} are not in the file"


class Gating(StudyOfSpec):
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

    batch = FEWEST_GPUS

    def __init__(self, spec: GatingSpec) -> None:
        self.spec: GatingSpec = spec
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
        """Attributes of files that describe the study."""
        spec = self.spec
        return GatingHeader(
            name="gpu-gating",
            computes=VARIABLES,
            labels=(Coordinate(POLICY, spec.policies), Coordinate(AGE, spec.report_years)),
            stopping=rule_of(spec.stopping, VARIABLES),
            **self.campaign(
                spec,
                spec.digest(
                    str(SCHEMA_VERSION), repr(self.kernels), self.gpu.digest, repr(self.nbti)
                ),
            ),
        )

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
            **stacked(map(_of_policy, lives)),
        }


def _of_policy(life: GatedLives) -> dict[str, NDArray[np.generic]]:
    """Arrays of a policy, as the variables are called."""
    return {
        "margin_needed": life.margin_needed,
        "max_dvth_mv": (1e3 * life.max_dvth_volts).astype(np.float32),
        "retired_sms": life.retired_sms.astype(np.int16),
        "life_years": life.life_years,
        "end_cause": np.where(life.ended, GpuEnd.DELAY, GpuEnd.CENSORED).astype(np.int8),
        "slowdown": life.slowdown,
        "sm_power_w": life.sm_power_w,
        "hottest_kelvin": life.hottest_kelvin.astype(np.float32),
    }
