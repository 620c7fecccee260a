"""Tables of users, CSV and TOML, mostly wrong, with the commands that read them.

Everything here is a function of a `random.Random`: the same seed gives the same inputs.
"""

import random
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import damaged_files
import numpy as np

SMALL_GATING = [
    *("gpu", "gating", "--instances", "2", "--policy", "fixed", "--set", "life.horizon_years=1.0"),
    *("--interval", "365", "--out", "out/r.h5"),
]

SOUND: dict[str, tuple[str, list[str]]] = {
    "recorded": ("kernel,seconds\nBSRT,1.5\nLU,20\nBSRT,3e2\n", [*SMALL_GATING, "--recorded"]),
    "both recorded": (
        "kernel,seconds\nVAD,1.5\n# pause\nNN,20\n",
        ["gpu", "both", "--show-spec", "--out", "out/r.h5", "--recorded"],
    ),
    "temperature": ("case,block,power_W\na,SM0,8.5\na,SM1,8.5\nb,SM0,3\n", ["gpu", "temperature"]),
    "draws": (
        "aging.constants.eta,life.vmin_coefficient\n0.3,1\n0.31,0.9\n",
        ["sweep", "--show-spec", "--constants"],
    ),
    "counts": (
        "voltage,faulty_bits,bits,arrays,faultless_arrays\n"
        "0.6,0,1000000,100,100\n0.55,40,1000000,100,70\n0.5,900,1000000,100,2\n",
        ["faults", "--fit"],
    ),
}
"""Sound tables: text and the command that takes the file's name as its last argument."""

TOML = {
    "kernels": ("kernels/chen-2014.toml", ["gpu", "optimum", "--kernels"]),
    "gpu": ("gpus/gtx580.toml", ["gpu", "temperature", "powers.csv", "--gpu"]),
    "costs": ("costs.toml", ["sweep", "--show-spec", "--technology", "28nm", "--costs"]),
}
"""Files of mcage's data that users write of their own, and commands that read them."""

FIELDS = (
    *("", " ", "nan", "inf", "-inf", "-1", "0", "-0.0", "1e-320", "1e308", "1e309", "1_0", "0x10"),
    *("9" * 400, "x" * 131_100, '"', '"open', "a\nb", "=1+1", "\x1b[31m", "\0", "\u0663", "1,5"),
    *("12:30:00", "2024-02-29", "[1]", "true", "None", "naïve", "\ufeff", "1 2", "+3", "1.0 "),
)
"""Fields that some reader takes for what it is not."""


def mutated_table(rng: random.Random, folder: Path) -> list[str]:
    """Write a table of which something was changed; the arguments of the command that reads it."""
    if rng.random() < 0.25:
        name, arguments = rng.choice(list(TOML.values()))
        text = files("mcage").joinpath("data", name).read_text(encoding="utf-8")
        path, changes = folder / "table.toml", TOML_CHANGES
        (folder / "powers.csv").write_text(SOUND["temperature"][0])
    else:
        text, arguments = rng.choice(list(SOUND.values()))
        path, changes = folder / "table.csv", CSV_CHANGES
    content = text.encode()
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(changes)(rng, content)
    path.write_bytes(content)
    return [*arguments, path.name]


def _field(rng: random.Random, content: bytes) -> bytes:
    """Another field in place of one."""
    lines = [line.split(b",") for line in content.split(b"\n")]
    fields = rng.choice(lines)
    fields[rng.randrange(len(fields))] = rng.choice(FIELDS).encode()
    return b"\n".join(b",".join(fields) for fields in lines)


def _value(rng: random.Random, content: bytes) -> bytes:
    """Another value in place of one of a TOML file."""
    lines = content.split(b"\n")
    places = [place for place, line in enumerate(lines) if b"=" in line]
    if places:
        place = rng.choice(places)
        lines[place] = lines[place].split(b"=")[0] + b"= " + rng.choice(FIELDS).encode()
    return b"\n".join(lines)


def _lines(change: Callable[[random.Random, list[bytes]], list[bytes]]) -> Callable[..., bytes]:
    def changed(rng: random.Random, content: bytes) -> bytes:
        return b"\n".join(change(rng, content.split(b"\n")))

    return changed


def _more_fields(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    place = rng.randrange(len(lines))
    lines[place] += rng.choice((b",", b",1", b",,,", b'"', b",1" * 5000))
    return lines


def _double(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    """A column twice, with equal or other values."""
    again = rng.randrange(3)
    return [b",".join([*line.split(b","), *line.split(b",")[again : again + 1]]) for line in lines]


def _drop(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    del lines[rng.randrange(len(lines))]
    return lines or [b""]


def _repeat(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    line = rng.choice(lines)
    return [*lines, *[line] * rng.choice((1, 2, 300))]


def _bytes(rng: random.Random, content: bytes) -> bytes:
    if len(content) < 200:  # as in `mutated_imports`: too short for the longest of them
        return content
    mutate = damaged_files.BYTE_MUTATIONS[rng.choice(sorted(damaged_files.BYTE_MUTATIONS))]
    damaged: bytes = mutate(content, np.random.default_rng(rng.getrandbits(64)))
    return damaged


def _ends(rng: random.Random, content: bytes) -> bytes:
    return content.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"")))


def _mark(rng: random.Random, content: bytes) -> bytes:
    mark = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\0"))
    return mark + content


def _separator(rng: random.Random, content: bytes) -> bytes:
    return content.replace(b",", rng.choice((b";", b"\t", b" ", b", ")))


CSV_CHANGES = (
    *(_field, _field, _field, _bytes, _ends, _mark, _separator),
    *map(_lines, (_more_fields, _double, _drop, _repeat)),
)
TOML_CHANGES = (_value, _value, _value, _bytes, _ends, _mark, *map(_lines, (_drop, _repeat)))
