"""A campaign whose results cost nothing to compute."""

from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

import mcage
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import write_shard
from mcage.campaign.study import Study
from mcage.files.atomic import _new_temporary
from mcage.lifetime import DVTH_BIN_EDGES_MV, RANKS, EndCause
from mcage.results.axes import labelled, values_of_spec
from mcage.results.writer import conforming, write_results
from mcage.studies.sweep.axes import AXES
from mcage.studies.sweep.header import SweepHeader

OF_INSTANCES = (
    "workload",
    "temperature_kelvin",
    "temperature_swing_kelvin",
    "vt0_volts",
    "shift_factor",
    "activity",
)
HORIZON_YEARS = 10.0
EPOCHS = 5
INSTANCES = 30
"""Of a results file unless another number is asked for."""


def case(
    technique, environment="turbo", scenario="common", volts=(1.0,), protection="ecp1", **others
):
    """A case of a sweep whose environment has points of these voltages."""
    point = {
        "technique": technique,
        "protection": protection,
        "environment": environment,
        "scenario": scenario,
        "voltages": "/".join(f"{of:g}" for of in volts) + " V",
        "vdd_volts": float(min(volts)),
        "highest_vdd_volts": float(max(volts)),
    }
    return labelled(AXES, [point | values_of_spec(AXES, {}, point) | others])[0]


CAMPAIGN = SweepHeader(
    spec_toml='technique = ["baseline", "rrcd"]\n# µ, °C: any text\n',
    spec_digest="0123456789abcdef" * 4,
    seed=7,
    instances=100,
    cases=(
        case("baseline"),
        case("rrcd"),
        case("rrcd", "dvfs", volts=(0.8, 0.419)),
    ),
    kernels=("BlackScholes", "MatrixMultiplication", "Reduction"),
    workload_periods=4,
    epoch_edges_years=tuple(HORIZON_YEARS * k / EPOCHS for k in range(EPOCHS + 1)),
    operating_points=2,
    engine="numba",
    engine_reason="no CUDA device",
    device="a test",
)


def campaign(**fields) -> SweepHeader:
    return replace(CAMPAIGN, **fields)


def study(**fields) -> Study:
    return Study(campaign(**fields), compute)


def compute(first: int, last: int) -> dict[str, np.ndarray]:
    """Results of instances that are pure functions of their id."""
    parts = [_instance(i) for i in range(first, last)]
    arrays = {}
    for name in parts[0]:
        values = [part[name] for part in parts]
        if name == "dvth_histogram":
            arrays[name] = np.sum(values, axis=0)
        elif name in OF_INSTANCES:
            arrays[name] = np.stack(values)
        else:
            arrays[name] = np.stack(values, axis=1)
    return arrays


def of_cases(places, first: int, last: int) -> dict[str, np.ndarray]:
    """Results of instances for the cases at some places of the campaign."""
    axes = {v.name: v.dims.index("case") for v in CAMPAIGN.variables if "case" in v.dims}
    return {
        name: np.take(array, places, axes[name]) if name in axes else array
        for name, array in compute(first, last).items()
    }


@cache
def _instance(i: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng([CAMPAIGN.seed, i])
    cases = len(CAMPAIGN.cases)
    life = np.minimum(draw.exponential(8.0, cases), HORIZON_YEARS)
    dead = life < HORIZON_YEARS
    ends = np.array(CAMPAIGN.epoch_edges_years[1:])
    after_death = ends[None, :] - HORIZON_YEARS / EPOCHS >= life[:, None]
    epoch = np.where(after_death, np.nan, draw.random((cases, EPOCHS)))
    cells = draw.integers(0, 1000, (cases, 2, DVTH_BIN_EDGES_MV.size - 1))
    return {
        "workload": draw.integers(0, len(CAMPAIGN.kernels), CAMPAIGN.workload_periods),
        "temperature_kelvin": 340 + 20 * draw.random(),
        "temperature_swing_kelvin": draw.normal(0, 5, EPOCHS),
        "vt0_volts": 0.3,
        "shift_factor": 1.0,
        "activity": 0.5 + 0.5 * draw.random(),
        "operating_point_share": np.array([[1.0, np.nan], [1.0, np.nan], [0.5, 0.5]]),
        "life_years": life,
        "end_cause": np.where(dead, EndCause.DELAY, EndCause.CENSORED).astype(np.int8),
        "max_dvth_mv": 60 + draw.random((cases, 2)),
        "longest_duty": draw.random((cases, 2)),
        "write_share": draw.dirichlet([1, 1, 1, 1], cases),
        "spill_rate": draw.random(cases),
        "memory_rate": draw.random(cases),
        "peak_spilled_rows": draw.integers(0, 32, cases),
        "faulty_entries_start": draw.integers(0, 20, cases),
        "faulty_entries_end": draw.integers(20, 40, cases),
        "wakeups_per_write": draw.random(cases),
        "movs_per_write": draw.random(cases),
        "mispredictions_per_write": draw.random(cases),
        "delay_increase": draw.random(cases),
        "uncorrectable_years": np.sort(10 * draw.random((cases, RANKS))),
        "uncorrectable_entry": draw.integers(0, 256, (cases, RANKS)).astype(np.int16),
        "due_fit": draw.random(cases),
        "sdc_fit": draw.random(cases),
        "slowdown": draw.random(cases),
        "slowdown_new": draw.random(cases),
        "power_mw": 100 * draw.random(cases),
        "energy_saving": draw.random(cases),
        "conventional_power_mw": 100 + draw.random(cases),
        "energy_saving_nominal": draw.random(cases),
        "epoch_max_dvth_mv": np.stack([epoch, epoch], axis=-1),
        "epoch_faulty_entries": epoch,
        "epoch_uncovered_bits": epoch,
        "epoch_words_at_risk": epoch,
        **{f"epoch_{name}_fit": epoch for name in ("corrected", "due", "sdc")},
        "epoch_peak_spilled_rows": epoch,
        "epoch_slowdown": epoch / 100,
        "dvth_histogram": cells,
    }


def write(path, sizes=(INSTANCES,), places=(0, 1, 2), change=dict, **fields) -> SweepHeader:
    """Write results of some cases, whose instances arrive in pieces of the given sizes.

    ``change`` makes what is written of the arrays of a piece.
    """
    cases = tuple(CAMPAIGN.cases[place] for place in places)
    header = campaign(**{"instances": sum(sizes), "cases": cases} | fields)
    pieces = (
        conforming(header, change(of_cases(places, first, last)), last - first)
        for first, last in pairwise([0, *accumulate(sizes)])
    )
    write_results(path, header, pieces)
    return header


def opened(instances=INSTANCES, **fields):
    """A fixture of a module: results of the fake campaign, which its tests leave as they are."""
    import pytest  # which processes that compute have no use for

    @pytest.fixture(scope="module")
    def results(tmp_path_factory):
        path = tmp_path_factory.mktemp("results") / "r.h5"
        write(path, (instances,), **fields)
        with mcage.open_results(path) as results:
            yield results

    return results


def write_shards(folder: Path, header: SweepHeader, *ranges: range) -> list[Path]:
    """Write shards of a campaign into its folder, which is made; their paths."""
    folder.mkdir(exist_ok=True)
    return [write_shard(folder, header, of, compute(of.start, of.stop)) for of in ranges]


def abandoned(path: Path) -> Path:
    """What a process leaves that is killed while it writes ``path``."""
    temporary, stream = _new_temporary(path)
    with stream:
        stream.write(b"half")
    return temporary


def run(out: str, instances: int, shard_size: int) -> None:
    """Run a campaign."""
    run_campaign(study(instances=instances), Path(out), shard_size)
