"""The error that sampling cells brings to the histogram of threshold shifts of a sweep.

    python scripts/experiments/sampled_cells.py [--instances 100] [--engine numba]

All cells of some slices are counted, in every case of the default sweep. From these counts, sweeps
of 100, 1,000 and 10,000 slices are drawn, with all cells of each slice and with some of them. Their
error is the total variation distance to the mean of all slices: the fraction of transistors that
would have to change their bin.
"""

import argparse

import numpy as np

import mcage.studies.sweep.batch as batch
from mcage.engines import select_engine
from mcage.geometry import GCN
from mcage.spec import SweepSpec
from mcage.studies.sweep.study import Sweep

SWEEPS = (100, 1_000, 10_000)
SAMPLES = (32, 128, 1024)
REPETITIONS = 40


def all_cells(instances, engine):
    """Transistors of each slice per bin, of all its cells: int64[cases, instances, 2, bins]."""
    sweep = Sweep(SweepSpec(instances=instances), select_engine(engine)[0])
    sweep.prepare()
    batch.SAMPLED_CELLS = GCN.cells
    counts = [
        batch.compute_batch(sweep.plan, np.array([instance]))["dvth_histogram"]
        for instance in range(instances)
    ]
    return [case.label for case in sweep.plan.cases], np.stack(counts, axis=1)


def error(counts, sweep, sample, draw):
    """Mean total variation distance of sweeps of so many slices and cells; all cells if 0.

    Parameters
    ----------
    counts : int64[instances, bins]
        Transistors of each slice per bin.
    """
    fractions = counts / GCN.cells
    truth, distances = fractions.mean(axis=0), []
    for _ in range(REPETITIONS):
        slices = np.bincount(draw.integers(len(counts), size=sweep), minlength=len(counts))
        if sample:
            # Of slices that are drawn several times, cells are drawn each time; hardly any twice.
            drawn = draw.multinomial(sample * slices, fractions).sum(axis=0) / (sample * sweep)
        else:
            drawn = slices @ fractions / sweep
        distances.append(0.5 * np.abs(drawn - truth).sum())
    return np.mean(distances)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--engine", default="numba")
    given = parser.parse_args()
    names, counts = all_cells(given.instances, given.engine)
    draw = np.random.default_rng(1)
    print("total variation distance, T0: case, slices, all cells, then", *SAMPLES, "cells of each")
    for name, of_case in zip(names, counts, strict=True):
        lived = of_case[of_case.sum(axis=(1, 2)) > 0, 0]
        for sweep in SWEEPS if len(lived) else ():
            errors = [error(lived, sweep, sample, draw) for sample in (0, *SAMPLES)]
            row = " ".join(f"{value:.5f}" for value in errors)
            print(f"{name.technique:12} {name.environment:8} {sweep:6} {row}")


if __name__ == "__main__":
    main()
