"""A study of a user: pi by darts.

An instance is some darts thrown at a square; its estimate of pi is four times the fraction of them
that hit the circle in the square.
"""

import os
import signal
import time
import tomllib
from hashlib import blake2b
from pathlib import Path

import numpy as np

from mcage.campaign.study import Study
from mcage.random import stream
from mcage.results.header import DeclaredHeader, StoppingRule
from mcage.results.variable import Coordinate, Variable

VARIABLES = (
    Variable("pi", ("instance",), "float64", "1", "estimate of pi"),
    Variable("hits", ("quadrant",), "int64", "1", "darts in the circle"),
)
QUADRANTS = Coordinate(
    Variable("quadrant", ("quadrant",), "text", "1", "quarter of the square"),
    ("I", "II", "III", "IV"),
)


def study(header):
    """The study of a header, in any process."""
    spec = tomllib.loads(header.spec_toml)

    def compute(first, last):
        time.sleep(spec.get("seconds_per_shard", 0))
        if spec.get("fails_at") in range(first, last):
            raise ZeroDivisionError
        if spec.get("dies_at") in range(first, last):
            die(Path(spec["deaths"]), spec["times"])
        darts = np.stack(
            [
                stream(header.seed, "darts", i).uniform(-1, 1, (spec["darts"], 2))
                for i in range(first, last)
            ]
        )
        hit = (darts**2).sum(axis=2) <= 1
        quadrant = np.where(darts[..., 1] >= 0, darts[..., 0] < 0, 2 + (darts[..., 0] >= 0))
        return {"pi": 4 * hit.mean(axis=1), "hits": np.bincount(quadrant[hit], minlength=4)}

    return Study(header, compute, f"{__name__}:study")


def die(deaths, times):
    """Kill this process as `kill -9` does, unless it has been done so often: a byte for each."""
    if not deaths.exists() or deaths.stat().st_size < times:
        with deaths.open("ab") as file:
            file.write(b".")
        os.kill(os.getpid(), signal.SIGKILL)


def pi_after_deaths(instances, deaths, times):
    """A campaign that ends so many processes before it is made."""
    die(Path(deaths), times)
    return pi_by_darts(instances)


def pi_by_darts(instances, darts=1000, rel_ci=None, **more):
    """A campaign of so many instances."""
    spec = "".join(f"{key} = {value!r}\n" for key, value in {"darts": darts, **more}.items())
    return study(
        DeclaredHeader(
            name="pi by darts",
            computes=VARIABLES,
            labels=(QUADRANTS,),
            spec_toml=spec,
            spec_digest=blake2b(spec.encode()).hexdigest(),
            seed=7,
            instances=instances,
            engine="numpy",
            stopping=None if rel_ci is None else StoppingRule(rel_ci, "pi"),
        )
    )
