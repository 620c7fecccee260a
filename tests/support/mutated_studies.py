"""Results of every study, programs to be injected, and conditions on any file, mostly wrong.

Everything here is a function of a `random.Random`: the same seed gives the same inputs.
"""

import atexit
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import damaged_files
import h5py
import numpy as np
from faulty_oracle import BLEND, BLEND_ARGUMENTS
from mutated_kernels import KINDS as KERNELS
from mutated_specs import STRANGE_NUMBERS, STRANGE_TEXTS, strange_value
from tomli_w import dumps

LIVES = ("--kernel", "MatrixTranspose", "--instances", "3", "--engine", "numpy")
QUICK = ("--set", "workload.generations=1", "--set", "life.epochs=1")
PROGRAM = ("blend.cl", "--args", "blend.py", "--arch", "gfx900", "--instances", "6")
STUDIES = {
    "sweep": ("sweep", *LIVES, *QUICK, "--technique", "rrcd", "--environment", "undervolted",
              "--vdd", "0.6", "--protection", "ecp1", "--protection", "secded32"),
    "vmin": ("vmin", *LIVES, *QUICK, "--technique", "rrcd"),
    "flips": ("inject", *PROGRAM),
    "stuck": ("inject", *PROGRAM, "--fault", "stuck", "--technique", "rrcd"),
    "gating": ("gpu", "gating", "--instances", "2", "--policy", "fixed",
               "--interval", "365", "--set", "life.horizon_years=1.0"),
}  # fmt: skip
"""Commands that write a small file of each study."""

KEYS = (
    *("technique", "protection", "cell", "environment", "scenario", "vdd_volts", "vdd", "case"),
    *("age", "age_years", "policy", "fault", "kernel", "instance", "life_years", "geometry", ""),
)
VALUES = (
    *("rrcd", "RRCD", "secded32", "ecp1", "undervolted", "dvfs", "common", "0.6", "0.60", "0.8"),
    *("blend", "fixed", "6T", "10", "nan", "inf", "1e400", "-1", "rrcd@secded32", "*", "rrcd,wc"),
)
FLAGS = (
    *("-DN=3", "-O0", "-O9", "-I.", "-cl-std=CL2.0", "-cl-std=CL9", "-cl-fast-relaxed-math"),
    *("-ffast-math", "-fplugin=./own.so", "-MD -MF blend.cl -MT x", "-MD", "-o blend.cl"),
    *("-Xclang -load", "@blend.py", "-save-temps", "--config=x.cfg", "-x c++", "-S", "-E", "-"),
    *("-ftime-trace=blend.py", "-Wl,-o,blend.py", "-include blend.py", "-mllvm -help", "-###"),
    *("-fcrash-diagnostics-dir=.", "-fprofile-instr-generate=blend.py", "-mcpu=gfx9", "-h"),
)


@cache
def study_files() -> Path:
    """Folder of a small results file of each study, made once for all inputs."""
    folder = Path(tempfile.mkdtemp(prefix="mcage-studies-"))
    atexit.register(shutil.rmtree, folder)
    _program(folder)
    for name, arguments in STUDIES.items():
        command = [sys.executable, "-m", "mcage", *arguments, "--out", f"{name}.h5"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def _program(folder: Path) -> None:
    (folder / "blend.cl").write_text(BLEND)
    (folder / "blend.py").write_text(BLEND_ARGUMENTS)


def damaged_study(rng: random.Random, folder: Path) -> list[str]:
    """A results file of some study, damaged below a seal that is right."""
    name = rng.choice(list(STUDIES))
    path = folder / "r.h5"
    shutil.copy(study_files() / f"{name}.h5", path)
    damaged_files.forge(path, lambda file: _damage(rng, file))
    return _reader(rng, path.name)


def _damage(rng: random.Random, path: Path) -> None:
    """Replace a dataset, its values, or an attribute of it or of the file."""
    with h5py.File(path, "r+") as file:
        name = rng.choice(sorted(key for key in file if isinstance(file[key], h5py.Dataset)))
        place = rng.choice(("/", name))
        attribute = rng.choice(sorted(file[place].attrs))
    kind = rng.choice(("dataset", "values", "attribute", "missing attribute", "bytes"))
    if kind == "dataset":
        make = rng.choice(list(damaged_files.DATASET_MUTATIONS.values()))
        with contextlib.suppress(TypeError, ValueError, IndexError, OSError):
            damaged_files.replace_dataset(path, name, make)  # or it is missing
    elif kind == "values":
        _change_values(rng, path, name)
    elif kind == "bytes":
        change = rng.choice(list(damaged_files.BYTE_MUTATIONS.values()))
        path.write_bytes(change(path.read_bytes(), np.random.default_rng(rng.getrandbits(64))))
    else:
        contents = list(damaged_files.ATTRIBUTE_CONTENTS.values())
        make = rng.choice(contents) if kind == "attribute" else None
        damaged_files.replace_attribute(path, place, attribute, make)


def _change_values(rng: random.Random, path: Path, name: str) -> None:
    """Put numbers or texts into a dataset, into all of it or a place, as its type has room."""
    with h5py.File(path, "r+") as file:
        content = file[name][()]
        of_type = STRANGE_NUMBERS if np.asarray(content).dtype.kind in "iufb" else STRANGE_TEXTS
        value = rng.choice(of_type)
        try:
            if rng.random() < 0.5 and np.ndim(content):
                content.flat[rng.randrange(content.size)] = value
            else:
                with np.errstate(invalid="ignore"):
                    content = np.full_like(content, value)
            file[name][...] = content
        except (OverflowError, TypeError, ValueError, AttributeError):
            return


def _reader(rng: random.Random, name: str) -> list[str]:
    sound = str(study_files() / f"{rng.choice(list(STUDIES))}.h5")
    commands = [
        ["show", name],
        ["show", name, rng.choice(("--json", "--csv", "--wide"))],
        ["show", name, sound],
        ["verify", name],
        ["compare", name, sound],
        ["compare", name, name],
        ["pareto", name],
        ["gpu", "exchange", name],
        ["cite", name],
        ["status", name],
        [rng.choice(("sweep", "vmin", "inject")), name, "--show-spec"],
        ["report", name, "--out", "out/page", *rng.choice(([], ["--figure", "none"]))],
    ]
    return rng.choice(commands)


def condition(rng: random.Random, folder: Path) -> list[str]:
    """Conditions, orders and labels on a sound file of any study."""
    path = folder / "r.h5"
    shutil.copy(study_files() / f"{rng.choice(list(STUDIES))}.h5", path)
    command = rng.choice(
        (
            *(["show", "r.h5"],) * 3,
            ["gpu", "exchange", "r.h5"],
            ["pareto", "r.h5"],
            ["compare", "r.h5", "r.h5"],
            ["report", "r.h5", "--out", "out/page", "--figure", "none"],
        )
    )
    for _ in range(rng.choice((1, 1, 2))):
        command += ["--where", _condition(rng)]
    if command[0] == "show" and rng.random() < 0.3:
        command += [rng.choice(("--sort", "--label", "--of", "--age", "--rate-at")), _key(rng)]
    return command


def _key(rng: random.Random) -> str:
    return rng.choice(KEYS if rng.random() < 0.8 else STRANGE_TEXTS).replace("\0", "")


def _condition(rng: random.Random) -> str:
    value = rng.choice(VALUES if rng.random() < 0.8 else STRANGE_TEXTS).replace("\0", "")
    return _key(rng) + rng.choice(("=", "=", "=", "==", "", " = ", "<")) + value


PROGRAMS = {
    "args": ("blend.py", "x=f32[64]", "index=i32[1024] x=f32[1024] y=f32[1024] n=9", "n=@blend.py"),
    "grid": ("1", "2", "8", "4,2", "0", "1e3"),
    "block": ("64", "128", "256", "1024", "128,2"),
    "arch": ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx803"),
    "entry": ("blend", "none", ""),
    "check": ("blend.py", "blend.cl"),
    "inputs": (0, 1, 2**62, -1),
    "compute_units": (1, 2, 1025),
    "latency": (0.01, 100.0, float("nan")),
    "most_instructions": (1, 1000, 10**10),
    "flags": FLAGS,
}
FAULTS = {
    "upset": ("single", "28nm", "16nm"),
    "ages_years": ([0.0], [0.0, 3.0], [3.0, 1.0], [200.0]),
    "tolerance": (0.0, 1e-3, -1.0, float("inf")),
    "stuck_cells": ("blend.py", "cells.npy", "none.npy"),
}


def program(rng: random.Random, folder: Path) -> list[str]:
    """A spec of injections with other programs and faults, some of which make no sense."""
    _program(folder)
    table = np.array([[0, rng.choice((0, 5, 2**20)), rng.choice((0, 1, -1, 2))]])
    np.save(folder / "cells.npy", table.astype(rng.choice(("i8", "i4", "f8"))))
    asked = {"args": "blend.py", "arch": "gfx900"}
    inject = {"fault": rng.choice(("flip", "stuck", "read"))}
    for of, known in ((asked, PROGRAMS), (inject, FAULTS)):
        for key in rng.sample(sorted(known), rng.choice((0, 0, 1, 1, 2))):
            of[key] = rng.choice(known[key]) if rng.random() < 0.9 else strange_value(rng)
    fields = {"instances": 2, "program": asked, "inject": inject}
    try:
        text = dumps(fields)
    except (TypeError, ValueError, RecursionError):  # no TOML can say that
        text = "instances = 0"
    (folder / "s.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    return ["inject", "blend.cl", "s.toml", "--out", "out/r.h5"]


def inputs(rng: random.Random, folder: Path) -> list[str]:
    """A Python file of arguments that is wrong, beside a sound code object."""
    source, asked = KERNELS["inputs"](rng, folder)
    name = os.path.relpath(source, folder)
    run = [name, "--arch", asked.arch, "--args", os.path.relpath(asked.args, folder)]
    run += ["--entry", asked.entry]
    if rng.random() < 0.5:
        return ["trace", "emulate", *run, "--out", "out/t.h5"]
    return ["inject", *run, "--instances", "2", "--out", "out/r.h5"]
