"""GPUs without variation: a row of a CSV file in, a row with the results out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcage.aging.environment import Environment, OperatingPoint
from mcage.aging.nbti import Bhardwaj, NbtiModel, Phases, Transistors
from mcage.errors import UserError
from mcage.files.csv_table import Row, read_table
from mcage.gpu.chip import Gpu, Machine
from mcage.gpu.thermal import HIGHEST_KELVIN
from mcage.plain_text import shortened
from mcage.random import stream
from mcage.studies.gpu_gating.policies import Policy, Readings, policy
from mcage.studies.gpu_gating.workload import READINGS as TIME_READINGS
from mcage.studies.gpu_gating.workload import KernelTiming, TimeModel
from mcage.studies.gpu_heterogeneity import structures

# Aging of SMs launch by launch: the experiment of Chen et al., DAC 2014, section 6.

ROUND_SECONDS = 3.596e-4
"""Length of a round (reconstructed): 100 rounds of LU shift an SM that always works by the printed
6.78 mV. The paper says "about millisecond or more"."""

ROUNDS = 100
"""Rounds of a kernel (section 6.1)."""


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
        model = Phases(self.model) if isinstance(self.model, Bhardwaj) else self.model
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


# Benchmarks of Zhang et al. under each reading, beside what the paper prints.

MEAN = "mean"


def benchmark_rows(parts: structures.Parts, count_fills: bool = False) -> list[dict[str, Any]]:
    """Rows of the ten benchmarks and of their mean; delays in %, temperatures in K.

    Parameters
    ----------
    parts : Parts
        FinFET and planar transistors.
    count_fills : bool
        As of `SequentialL2`.

    Returns
    -------
    list of dict
        What is printed has ``printed`` in its name, and is None where the paper prints nothing.
        Benchmarks without a printed baseline have the printed mean of 7.7 %; those without a
        printed miss rate have `USUAL_MISS_RATE` (assumed), and those without a printed latency no
        projected IPC. The mean is taken with the printed mean as the baseline of each.
    """
    selected = tuple(structures.benchmarks().values())
    rows = [_row(benchmark, parts, count_fills) for benchmark in selected]
    at_mean = [
        _row(replace(benchmark, baseline_delay=structures.MEAN_BASELINE_DELAY), parts, count_fills)
        for benchmark in selected
    ]
    return [*rows, _mean(at_mean)]


def _row(
    benchmark: structures.Benchmark, parts: structures.Parts, count_fills: bool
) -> dict[str, Any]:
    conditions = structures.Conditions()
    l2 = structures.SequentialL2(count_fills=count_fills)
    delays = {
        f"{reading}_pct": structures.TwoStage(reading).delay(
            parts.finfet, conditions, benchmark.scheduler_delay, benchmark.filter_rate
        )
        for reading in structures.READINGS
    }
    latency = benchmark.latency_cycles
    return {
        "benchmark": benchmark.name,
        "filter_rate": benchmark.filter_rate,
        "baseline_pct": 100 * benchmark.scheduler_delay,
        **{name: 100 * float(delay) for name, delay in delays.items()},
        "printed_pct": _scaled(benchmark.printed, "two_stage_delay", 100),
        "drop_K": float(structures.TwoStage().drop_kelvin(benchmark.filter_rate)),
        "printed_drop_K": _scaled(benchmark.printed, "temperature_drop", 1),
        "projected_IPC": None
        if latency is None
        else float(1 / (1 + structures.ipc_overhead(latency))),
        "l2_miss_rate": benchmark.miss_rate,
        "l2_pct": 100 * float(l2.delay(parts.finfet, conditions, benchmark.miss_rate)),
        "printed_l2_pct": _scaled(benchmark.printed, "l2_delay", 100),
    }


def _mean(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of what each benchmark has, and the printed means."""
    means: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        is_number = all(isinstance(value, float) for value in values)
        means[name] = float(np.mean(values)) if is_number else None
    printed = structures.printed_means()
    return means | {
        "benchmark": MEAN,
        "printed_pct": _scaled(printed, "two_stage_delay", 100),
        "printed_l2_pct": _scaled(printed, "l2_delay", 100),
    }


def _scaled(printed: dict[str, float], name: str, factor: float) -> float | None:
    return factor * printed[name] if name in printed else None


# Optimal numbers of SMs of kernels in a CSV file: the time model and Algorithm 1.

OPTIMUM_NEEDED = (
    "global_latency_cycles",
    "cache_latency_cycles",
    "miss_rate",
    "load_bytes_per_thread",
    "comp_cycles",
    "total_warps",
    "total_workload_warps",
)
"""Columns that a file must have, those of `KernelTiming`; for the others there are defaults."""

_MOST = 1e15


def optima(path: Path, machine: Machine) -> list[dict[str, Any]]:
    """Cycles and number of SMs of each kernel of a file.

    Parameters
    ----------
    path : Path
        CSV file with the columns `NEEDED` and, where they differ from the defaults, ``kernel``,
        ``SMs``, ``min_SMs``, ``delta``, ``reading``, ``whole_warps``, ``bandwidth_B_per_s``,
        ``f_Hz``.
    machine : Machine
        Defaults of SMs, bandwidth and clock.

    Returns
    -------
    list of dict
        The columns of the file, and ``cycles_all_SMs``, ``cycles_optimum``, ``optimum_SMs``.

    Raises
    ------
    UserError
        The file cannot be read, or a value makes no sense.
    """
    return [_of_row_optimum(row, machine) for row in read_table(path, OPTIMUM_NEEDED)]


def _of_row_optimum(row: Row, default: Machine) -> dict[str, Any]:
    machine = Machine(
        row.integer("SMs", 1, 10_000, default.sms),
        row.number("bandwidth_B_per_s", 1, _MOST, default.bandwidth_bytes_per_s),
        row.number("f_Hz", 1, _MOST, default.clock_hz),
    )
    model = TimeModel(
        reading=row.text("reading", TIME_READINGS, "literal"),  # type: ignore[arg-type]
        whole_warps=bool(row.integer("whole_warps", 0, 1, 0)),
        delta=row.number("delta", 0, 10, 0.08),
        min_sms=row.integer("min_SMs", 1, machine.sms, min(4, machine.sms)),
    )
    bounds = {"miss_rate": (0.0, 1.0), "load_bytes_per_thread": (0.0, _MOST)}
    kernel = KernelTiming(
        *(row.number(name, *bounds.get(name, (1e-9, _MOST))) for name in OPTIMUM_NEEDED)
    )
    try:
        cycles, best = model.cycles(kernel, machine), model.optimum(kernel, machine)
    except UserError as error:
        raise UserError(f"{row.source}: {error}") from error
    return row.plain() | {
        "cycles_all_SMs": float(cycles[-1]),
        "cycles_optimum": float(cycles[best - 1]),
        "optimum_SMs": best,
    }


# Temperatures of the blocks of a GPU under the powers of a CSV file.

_MOST_WATTS = 1e4


def temperatures(path: Path, gpu: Gpu, seconds: float | None = None) -> list[dict[str, Any]]:
    """Temperature of each block of each case of a file.

    Parameters
    ----------
    path : Path
        CSV file with the columns ``block`` and ``power_W``, and ``case`` where there are several
        cases. Blocks that a case does not name have no power.
    gpu : Gpu
        Floorplan and package.
    seconds : float, optional
        Time for which the powers have lasted, on a GPU that was as cold as the air; by default they
        have lasted for ever.

    Returns
    -------
    list of dict
        The columns of the file, and ``temperature_K``.

    Raises
    ------
    UserError
        The file cannot be read; a block is unknown or stands twice in a case; a power makes no
        sense, or heats a block beyond 450 K, where the constants of the package mean nothing.
    """
    names = gpu.network.floorplan.names
    cases: dict[str, list[Row]] = {}
    for row in read_table(path, ("block", "power_W")):
        cases.setdefault(row.values.get("case", ""), []).append(row)
    results = []
    for rows in cases.values():
        power = np.zeros(len(names))
        given: set[int] = set()
        for row in rows:
            block = names.index(row.text("block", names))
            if block in given:
                raise UserError(f"{row.source}: block {shortened(names[block])} stands twice")
            given.add(block)
            power[block] = row.number("power_W", 0, _MOST_WATTS)
        kelvin = gpu.network.steady(power)
        if seconds is not None:
            rise = gpu.network.transient(np.zeros(gpu.network.nodes), power, seconds)
            kelvin = gpu.network.package.ambient_kelvin + rise[: len(names)]
        if kelvin.max() > HIGHEST_KELVIN:
            hottest = names[int(kelvin.argmax())]
            raise UserError(
                f"{rows[0].source} and what follows: {power.sum():.4g} W heat block {hottest} to "
                f"{kelvin.max():.0f} K; the model is meant for at most {HIGHEST_KELVIN:g} K"
            )
        results += [
            row.plain() | {"temperature_K": float(kelvin[names.index(row.values["block"])])}
            for row in rows
        ]
    return results


# SM gating of equal SMs, launch by launch, for the cases of a CSV file.

COUNTS = "active_SMs_per_round_cyclic"

OTHER_NAMES = {"paper": "least-shift"}
"""Policies by other names; underscores may stand for hyphens, too."""

_MOST_ROUNDS = 1_000_000


def gated_cases(path: Path, model: NbtiModel, vdd_volts: float = 1.0) -> list[dict[str, Any]]:
    """Shifts after the last round, for each case of a file.

    Parameters
    ----------
    path : Path
        CSV file with the columns ``policy`` and ``active_SMs_per_round_cyclic`` (counts with spaces
        between them, repeated until there are enough) and, where they differ from the defaults,
        ``case``, ``SMs``, ``rounds``, ``round_s``, ``temperature_K``.
    model : NbtiModel
        How SMs age.
    vdd_volts : float
        Supply voltage, V.

    Returns
    -------
    list of dict
        The columns of the file, and ``max_dVth_mV``, ``min_dVth_mV``, ``mean_dVth_mV`` of all SMs,
        and ``mitigation_pct``: how far the largest shift lies below that of an SM that always
        works.

    Raises
    ------
    UserError
        The file cannot be read, or a value makes no sense.
    """
    return [_of_row_gating(row, model, vdd_volts) for row in read_table(path, ("policy", COUNTS))]


def _of_row_gating(row: Row, model: NbtiModel, vdd_volts: float) -> dict[str, Any]:
    sms = row.integer("SMs", 1, 127, 16)
    rounds = row.integer("rounds", 1, _MOST_ROUNDS, ROUNDS)
    kelvin = row.number("temperature_K", 200, 450, 353.15)
    history = Rounds(
        model=model,
        counts=np.resize(_counts(row, sms), rounds),
        seconds=row.number("round_s", 1e-12, 1e9, ROUND_SECONDS),
        vdd_volts=vdd_volts,
        transistors=Transistors(temperature_kelvin=kelvin),
        sms=sms,
    )
    name = row.text("policy").replace("_", "-")
    try:
        shifts = 1e3 * history.dvth_volts(policy(OTHER_NAMES.get(name, name)))
    except UserError as error:
        raise UserError(f"{row.source}: {error}") from error
    always = 1e3 * history.dvth_volts(policy("default"))
    return row.plain() | {
        "max_dVth_mV": float(shifts.max()),
        "min_dVth_mV": float(shifts.min()),
        "mean_dVth_mV": float(shifts.mean()),
        "mitigation_pct": float(100 * (1 - shifts.max() / always.max())),
    }


def _counts(row: Row, sms: int) -> list[int]:
    counts = []
    for text in row.text(COUNTS).split():
        if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= sms:
            raise UserError(
                f"{row.source}: {COUNTS} = {shortened(text)} must be 1 ... {sms}, the SMs of "
                "the GPU"
            )
        counts.append(int(text))
    return counts
