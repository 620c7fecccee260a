"""Vectors of the studies of whole GPUs, and small populations of GPUs."""

import csv
from pathlib import Path

import numpy as np

from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_gating.study import Gating

DATA = Path(__file__).parent / "data" / "gpu"


def vectors(name):
    """Rows of a file of vectors: dicts of texts."""
    lines = (DATA / f"{name}.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def gating(**fields):
    """A study of SM gating, of few GPUs and readings unless told otherwise."""
    fields.setdefault("instances", 12)
    fields.setdefault("sensors", {}).setdefault("interval_days", 73.0)
    return Gating(GatingSpec.from_mapping(fields))


def lives(study, policy, instances=12):
    """Lives of the first GPUs of a study under a policy of its spec."""
    return study.lives.run(study.policies[policy], study.population(np.arange(instances)))


MEASURED_KERNELS = """
[kernels.streaming]
global_latency_cycles = 500.0
cache_latency_cycles = 60.0
miss = 0.5
load_bytes_per_thread = 8.0
comp_cycles = 20.0
total_warps = 768
total_workload_warps = 76800
[kernels.counted]
sms = 12
time_ratio = 1.02
"""
"""Kernels of a GPU as a file of its user has them: by characteristics, and by counts."""
