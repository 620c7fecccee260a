"""What users type and write, mostly wrong: specs, options, plug-ins, tables and files of tools."""

import random
import re
import tomllib
from collections.abc import Sequence
from functools import cache, reduce
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w
import typer.main
import zstandard
from import_samples import NAMES, files_of
from mutations import Grammar, Values, damaged
from plain_files import plain_table
from small_traces import small_trace

from mcage.cli.app import app
from mcage.spec import SweepSpec
from mcage.tracing.importing.run import FORMATS
from mcage.tracing.importing.sources import LONGEST_LINE


def text(
    content: str | bytes,
    token: str,
    values: Values,
    noise: Sequence[bytes] = (),
    by_bytes: float = 0.3,
) -> Grammar:
    """Grammar of lines of tokens, of which a regular expression finds each."""
    if isinstance(content, bytes):
        content = content.decode(errors="surrogateescape")
    lines = [re.findall(token, line) for line in content.split("\n")]
    return Grammar(lambda _: lines, _joined, values, noise, by_bytes)


def _joined(lines: list) -> bytes:
    def flat(tree: Any) -> str:
        return tree if isinstance(tree, str) else "".join(map(flat, tree))

    return "\n".join(map(flat, lines)).encode("utf-8", "surrogateescape")


# ---- specs -----------------------------------------------------------------------------------

SMALL: dict[str, Any] = {
    "instances": 2,
    "seed": 7,
    "techniques": ["baseline"],
    "environments": ["turbo"],
    "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
    "life": {"horizon_years": 2.0, "epochs": 1},
}
"""A spec whose sweep takes less than a second once the engine is compiled."""

FULL: dict[str, Any] = tomllib.loads(
    SweepSpec.from_mapping(
        SMALL
        | {
            "scenarios": ["common", "clustered"],
            "environments": ["turbo", "dvfs", "phone"],
            "vdd_volts": [0.5],
            "aging": {"constants": {"eta": 0.3}},
            "faults": {"phi": 0.4},
            "registers": {"lds_rows": 16},
            "stopping": {"rel_ci": 0.2, "of": "spill_rate"},
            "operating_points": {
                "phone": [
                    {"vdd_volts": "scenario", "share": 0.25},
                    {"vdd_volts": 0.9, "temperature_offset_kelvin": 5.0},
                ]
            },
        }
    ).to_toml()
)
"""A spec that gives every key that there is."""

ESCAPES = "\x1b]0;title\x07\x1b[31mred"
MARKUP = "[/x][bold]"
STRANGE_TEXTS = (
    *("", " ", "\n", MARKUP, ESCAPES, "\u202eabc", "\x00", "naïve-µ", "nominal ", "a.b:C", ":"),
    *("no_such_module:NAME", "constant()", "normal(353, 0)", "uniform(1e308, 1e309)"),
    *("discrete(1: 1e-320, 2: 1)", "weights(a: nan)", "dirichlet(1e400)", "../" * 40),
    *("x" * 300, "x" * 100_000, "9" * 400),
)
STRANGE_NUMBERS = (
    *(0, -1, 1, 10**6, 2**63, 10**30, 10**400, -(10**400), 0.0, -0.0, 1e-320, 1e-300, 1e300),
    *(1.7e308, float("inf"), float("nan"), True, False),
)


def nested(depth: int) -> list[Any]:
    """A list in a list in a list, so many deep."""
    return reduce(lambda value, _: [value], range(depth), [])


STRANGE: tuple[Any, ...] = (
    *STRANGE_TEXTS,
    *STRANGE_NUMBERS,
    *(None, {}, {"": 3}, list(STRANGE_TEXTS[:5]), list(STRANGE_NUMBERS[:5]), [0.5] * 200),
    lambda rng: nested(rng.choice((0, 1, 5, 40, 400))),
    lambda rng: rng.uniform(-1e3, 1e3),
)
"""Values, most of which no key of a spec allows."""

DEEP = (
    *(b"deep = " + b"[" * n + b"]" * n for n in (10, 500, 3000)),
    *(b"deep = " + b"{a=" * n + b"1" + b"}" * n for n in (10, 500, 3000)),
    *(b".".join([b"a"] * n) + b" = 1" for n in (10, 3000)),
    *(b"[" + b".".join([b"a"] * n) + b"]" for n in (10, 3000)),
    *(b"2" * 5000, b'"""', b"'", b"[life]"),
)


def toml(fields: Any) -> bytes:
    """Text of a spec; UTF-8 but for lone surrogates."""
    return tomli_w.dumps(fields).encode("utf-8", "surrogatepass")


SPEC = Grammar(lambda rng: rng.choice((SMALL, FULL)), toml, STRANGE, DEEP)


# ---- options ---------------------------------------------------------------------------------

RIGHT_VALUES = (
    *("0", "1", "3", "0.5", "0.45", "353.15", "1e-9", "-1", "0,1", "none", "28nm", "32nm"),
    *("rrcd", "baseline", "disable", "turbo", "undervolted", "dvfs", "common", "clustered"),
    *("MatrixTranspose", "varius", "table", "table-exact", "wavefront", "work-group"),
    *("uniform", "one", "dirichlet(2)", "normal(353, 2)", "uniform(340, 350)", "held"),
    *("facelift", "bhardwaj", "finfet", "planar", "eta=0.3", "amplitude=calibrated"),
    *("median_life", "numpy", "numba", "cuda", "000", "002"),
)
"""Each is right for some option."""


def option_list(rng: random.Random, *commands: str) -> list[str]:
    """Arguments of one of some commands: some of its options, with values right or strange.

    Parameters
    ----------
    rng : Random
        What draws.
    *commands : str
        Such as ``sweep``, ``trace show``.
    """
    words = rng.choice(commands).split()
    command: Any = reduce(lambda group, word: group.commands[word], words, _mcage())
    for parameter in command.params:
        is_argument = parameter.param_type_name == "argument"
        if rng.random() > (0.7 if is_argument else 2.5 / len(command.params)):
            continue
        if parameter.name in ("help", "out", "png", "figure"):
            continue
        if not is_argument:
            words.append(rng.choice([*parameter.opts, *parameter.secondary_opts]))
        if not getattr(parameter, "is_flag", False) or rng.random() < 0.02:
            words += [_option_value(rng) for _ in range(parameter.nargs if is_argument else 1)]
    if rng.random() < 0.1:
        words.insert(rng.randrange(1, len(words) + 1), rng.choice(("-x", "--", "--no", "")))
    return words


@cache
def _mcage() -> Any:
    return typer.main.get_command(app)


def _option_value(rng: random.Random) -> str:
    value = rng.choice(RIGHT_VALUES if rng.random() < 0.5 else STRANGE)
    return str(value(rng) if callable(value) else value)[:20_000].replace("\0", "")


# ---- plug-ins --------------------------------------------------------------------------------

FAILURES = (
    *("raise ValueError('no such thing')", "raise ValueError('a\\nb\\x1b[31m' + 'x' * 100_000)"),
    *("raise KeyError", "raise SystemExit(0)", "exit(0)", "raise BaseException('base')"),
    *("raise MemoryError", "raise StopIteration", "return 1 / 0", "assert False"),
    *("return (lambda f: f(f))(lambda f: f(f))", "import no_such_module"),
)
"""What the code of a plug-in does in place of its work."""

WRONG_ANSWERS = (
    *("return None", "return 'text'", "return float('nan')", "return np.full(3, np.nan)"),
    *("return np.zeros((2, 0, 5))", "return np.asarray(answer, dtype=complex)"),
    *("return np.asarray(answer) * np.nan", "return [answer]"),
)
"""What it answers; ``answer`` is the right one."""

_MODEL = """
import numpy as np
from mcage.aging.nbti import Facelift, facelift

calls = 0

class Own(Facelift):
    def {method}(self, *args, **kwargs):
        global calls
        calls += 1
        answer = super().{method}(*args, **kwargs)
        if calls <= {calls}:
            return answer
        {failure}

OWN = Own(**vars(facelift()))
"""
_TECHNIQUE = """
from mcage.techniques import Gating, Placement, Storage, Technique

class Own(Technique):
    pass

fields = dict(name="own", placement=Placement.DIRECT, storage=Storage.PLAIN, gating=Gating.NONE,
              source="here", summary="a try", rotating_selectors=False)
fields["{key}"] = {value}
OWN = {kind}(**fields)
"""
_WHILE_IMPORTED = """
def work():
    {failure}

OWN = work()
"""
_METHODS = ("stress_per_second", "diffusion_per_second", "rates", "initial_state", "advance")
_IMPORTED = {"failure": (*FAILURES, *WRONG_ANSWERS[:3], "return Missing", ")")}
PLUG_INS: tuple[tuple[str, str, dict[str, tuple]], ...] = (
    (
        "--nbti",
        _MODEL,
        {
            "method": (*_METHODS, "dvth_of"),
            "calls": (0, 0, 1, 5, 50),
            "failure": FAILURES + WRONG_ANSWERS,
        },
    ),
    ("--nbti", _WHILE_IMPORTED, _IMPORTED),
    ("--technique", _WHILE_IMPORTED, _IMPORTED),
    (
        "--technique",
        _TECHNIQUE,
        {
            "key": ("name", "placement", "storage", "gating", "source", "summary"),
            "value": ("None", "3", "'direct'", "''", "'[/x]'", "Storage.BLOCK", "object()"),
            "kind": ("Technique", "Technique", "Own"),
        },
    ),
)


class Plugin(NamedTuple):
    """A module that a user wrote: the option that takes it, its name and its text."""

    option: str
    module: str
    attribute: str
    source: str

    @property
    def name(self) -> str:
        """As users give it."""
        return f"{self.module}:{self.attribute}"


def failing_plugin(rng: random.Random) -> Plugin:
    """One that fails as it is imported, made or called, or has nothing that could be used."""
    option, source, slots = rng.choice(PLUG_INS)
    source = source.format(**{name: rng.choice(of) for name, of in slots.items()})
    attributes = ("OWN", "OWN", "NONE", "", "a.b") if slots is _IMPORTED else ("OWN",)
    return Plugin(option, f"own_{rng.getrandbits(48):012x}", rng.choice(attributes), source)


# ---- tables ----------------------------------------------------------------------------------

SMALL_GATING = [
    *("gpu", "gating", "--instances", "2", "--policy", "fixed", "--set", "life.horizon_years=1.0"),
    *("--interval", "365", "--out", "out/r.h5"),
]
FIELDS = (
    *("", " ", "nan", "inf", "-inf", "-1", "0", "-0.0", "1e-320", "1e308", "1e309", "1_0", "0x10"),
    *("9" * 400, "x" * 131_100, '"', '"open', "a\nb", "=1+1", "\x1b[31m", "\0", "\u0663", "1,5"),
    *("12:30:00", "2024-02-29", "[1]", "true", "None", "naïve", "\ufeff", "1 2", "+3", "1.0 "),
    *(";", "\t", ", ", ",,,", ",1" * 5000),
)
"""Fields that some reader takes for what it is not."""

POWERS = "case,block,power_W\na,SM0,8.5\na,SM1,8.5\nb,SM0,3\n"


def _csv(content: str) -> Grammar:
    return text(content, "[^,]+|,", FIELDS)


def _own(name: str) -> Grammar:
    """A file of mcage's data that users write of their own."""
    return text(files("mcage").joinpath("data", name).read_bytes(), "[^=]+|=", FIELDS)


TABLES: dict[str, tuple[Grammar, list[str]]] = {
    "recorded.csv": (
        _csv("kernel,seconds\nBSRT,1.5\nLU,20\nBSRT,3e2\n"),
        [*SMALL_GATING, "--recorded"],
    ),
    "both.csv": (
        _csv("kernel,seconds\nVAD,1.5\n# pause\nNN,20\n"),
        ["gpu", "both", "--show-spec", "--out", "out/r.h5", "--recorded"],
    ),
    "temperature.csv": (_csv(POWERS), ["gpu", "temperature"]),
    "draws.csv": (
        _csv("aging.constants.eta,life.vmin_coefficient\n0.3,1\n0.31,0.9\n"),
        ["sweep", "--show-spec", "--constants"],
    ),
    "counts.csv": (
        _csv(
            "voltage,faulty_bits,bits,arrays,faultless_arrays\n"
            "0.6,0,1000000,100,100\n0.55,40,1000000,100,70\n0.5,900,1000000,100,2\n"
        ),
        ["faults", "--fit"],
    ),
    "kernels.toml": (_own("kernels/chen-2014.toml"), ["gpu", "optimum", "--kernels"]),
    "gpu.toml": (_own("gpus/gtx580.toml"), ["gpu", "temperature", "powers.csv", "--gpu"]),
    "costs.toml": (_own("costs.toml"), ["sweep", "--show-spec", "--technology", "28nm", "--costs"]),
}
"""Tables, and the command that takes the file's name as its last argument."""


# ---- files of other tools --------------------------------------------------------------------

FORMAT_NAMES = [known.name for known in FORMATS]
EXCERPT_BYTES = 30_000
NUMBERS = (
    *("", "0", "-1", "1", "31", "32", "63", "64", "255", "256", "65535", "4096", "2147483647"),
    *("4294967295", "4294967296", "9223372036854775807", "18446744073709551616", "9" * 5000),
    *("1e400", "nan", "0x", "0xffffffffffffffffff", "1_0", "\u0663"),
)
_NAMES = ("void f<int, ", "x - grid size 1,1,1 - ", '\\"{,', "ä")
RECORDS: dict[str, tuple[Any, ...]] = {
    "": (
        *NUMBERS,
        *(name * 400 for name in _NAMES),
        lambda rng: "x" * (LONGEST_LINE + 5) if rng.random() < 0.1 else "",
    )
}
NOISE = (
    *(b"", b"\0", b"hello from the program", b"[", b"]", b"{}", b"{", b'"', b"\xff\xfe\xfd"),
    *(b"\x1b[31m", b"warn: something", b"," * 300, b"(" * 3000, b"[" * 3000, b" " * 5000),
)


def write_records(format_name: str, rng: random.Random, folder: Path) -> list[str]:
    """Write the files of an input, one of which was changed; their names."""
    inputs = rng.choice(excerpts(format_name))
    victim = rng.randrange(len(inputs))
    names = []
    for place, (name, content) in enumerate(inputs):
        if place == victim:
            content = text(content, r"\d+|\D+", RECORDS, NOISE, 0.4).draw(rng)
        if rng.random() < 0.1:
            name, content = f"{name}.zst", zstandard.compress(content)
            content = damaged(rng, content) if rng.random() < 0.5 else content
        (folder / name).write_bytes(content)
        names.append(name)
    return names


@cache
def excerpts(format_name: str) -> list[list[tuple[str, bytes]]]:
    """Small sound inputs of a format: lists of names and contents of files."""
    if format_name == "csv":
        return [[("run.csv", plain_table(small_trace()).encode())]]
    unpack = zstandard.ZstdDecompressor().decompressobj
    return [
        [(path.stem, _excerpt(unpack().decompress(path.read_bytes()))) for path in files_of(name)]
        for name in NAMES
        if name.split("/")[0] == format_name
    ]


def _excerpt(content: bytes) -> bytes:
    """First and last lines of a sample, of few lanes."""
    content = re.sub(rb"(?m)^.*v\[\d+\]\[(?:[4-9]|\d\d)\] = .*\n", b"", content)
    first = content[:EXCERPT_BYTES].rpartition(b"\n")[0]
    return b"\n".join([first, *content[len(first) :].split(b"\n")[1:][-5:]])
