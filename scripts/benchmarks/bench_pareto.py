"""How long the probability of being on the front takes to compute, without reading a file.

    python scripts/benchmarks/bench_pareto.py [--cases 3000] [--dies 300] [--resamples 1000]

Values of cases are drawn at random, with a part that all cases have in common on a die. In the
rows `random`, objectives are independent, and few cases are on the front; in the row `trade`, two
objectives contradict each other, and so many are. Times are of processor and wall clock, in s,
without those of the compilation; `on the front` is the mean number of cases over the resamples.
"""

import argparse
import time

import numpy as np

from mcage.stats.pareto import front_shares

NOISE, COMMON = 0.3, 0.3
"""Standard deviations of a die in a case, and of a die in all cases, of those of the cases."""


def drawn(generator, cases, dies, objectives):
    """Values of independent objectives: float64[case, die] of each."""
    common = generator.normal(0, COMMON, dies)
    return [
        generator.normal(size=(cases, 1)) + common + generator.normal(0, NOISE, (cases, dies))
        for _ in range(objectives)
    ]


def trade(generator, cases, dies):
    """Values of four objectives of which the first two contradict each other."""
    first, second, third, fourth = drawn(generator, cases, dies, 4)
    return [first, generator.normal(0, NOISE, second.shape) - first, third, fourth]


def timed(name, samples, resamples):
    """Print how long one set of values takes."""
    groups = np.arange(samples[0].shape[1])
    front_shares(samples, groups, 1, np.random.default_rng(1))  # compiles
    began, before = time.perf_counter(), time.process_time()
    shares = front_shares(samples, groups, resamples, np.random.default_rng(1))
    spent = time.process_time() - before, time.perf_counter() - began
    print(f"{name:22s}{spent[0]:10.1f}{spent[1]:10.1f}{shares.sum():14.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--dies", type=int, default=300)
    parser.add_argument("--resamples", type=int, default=1000)
    given = parser.parse_args()
    generator = np.random.default_rng(0)
    print(f"{'':22s}{'processor':>10s}{'wall':>10s}{'on the front':>14s}")
    for objectives in (2, 3, 4):
        samples = drawn(generator, given.cases, given.dies, objectives)
        timed(f"random, {objectives} objectives", samples, given.resamples)
    timed("trade, 4 objectives", trade(generator, given.cases, given.dies), given.resamples)


if __name__ == "__main__":
    main()
