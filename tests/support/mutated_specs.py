"""What users may type, mostly wrong: specs, TOML texts, option lists and plug-ins.

Everything here is a function of a `random.Random`: the same seed gives the same inputs.
"""

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import tomli_w
import typer.main

from mcage.cli.app import app

SMALL: dict[str, Any] = {
    "instances": 2,
    "seed": 7,
    "techniques": ["baseline"],
    "environments": ["turbo"],
    "workload": {"kernels": ["MatrixTranspose"], "periods": 1, "generations": 1},
    "life": {"horizon_years": 2.0, "epochs": 1},
}
"""A spec whose sweep takes less than a second once the engine is compiled."""

FULL: dict[str, Any] = {
    "instances": 2,
    "seed": 7,
    "techniques": ["baseline", "rrcd"],
    "environments": ["turbo", "dvfs", "phone"],
    "scenarios": ["common", "clustered"],
    "vdd_volts": [0.5],
    "workload": {
        "kernels": ["MatrixTranspose", "QuasiRandomSequence"],
        "periods": 2,
        "mix": "weights(MatrixTranspose: 1, QuasiRandomSequence: 3)",
        "generations": 1,
        "release": "wavefront",
    },
    "life": {
        "horizon_years": 4.0,
        "epochs": 2,
        "delay_guardband": 0.1,
        "temperature_kelvin": "normal(350, 2)",
        "temperature_swing_kelvin": "uniform(-5, 5)",
        "activity": 0.9,
        "idle": "gated",
        "spill_limit": 0.5,
        "vmin_coefficient": 0.8,
    },
    "aging": {
        "model": "facelift",
        "vt0_volts": 0.3,
        "shift_factor": "discrete(1: 0.5, 1.1: 0.5)",
        "constants": {"eta": 0.3},
    },
    "faults": {"mode": "varius", "spread_blocks": True, "slices_per_chip": 2, "phi": 0.4},
    "registers": {"delta_limit": "none", "lds_rows": 16, "selector_offsets": 4},
    "costs": {"technology": "32nm"},
    "stopping": {"rel_ci": 0.2, "of": "spill_rate"},
    "operating_points": {
        "phone": [
            {"vdd_volts": "scenario", "share": 0.25},
            {"vdd_volts": 0.9, "temperature_offset_kelvin": 5.0},
        ]
    },
}
"""A spec that gives nearly every key that there is."""

ESCAPES = "\x1b]0;title\x07\x1b[31mred"
MARKUP = "[/x][bold]"
STRANGE_TEXTS = (
    "",
    " ",
    "\n",
    MARKUP,
    ESCAPES,
    "\u202eabc",
    "\x00",
    "naïve-µ",
    "nominal ",
    "a.b:C",
    ":",
    "no_such_module:NAME",
    "constant()",
    "normal(353, 0)",
    "uniform(1e308, 1e309)",
    "discrete(1: 1e-320, 2: 1)",
    "weights(a: nan)",
    "dirichlet(1e400)",
    "../" * 40,
    "x" * 300,
    "x" * 100_000,
    "9" * 400,
)
STRANGE_NUMBERS = (
    0,
    -1,
    1,
    10**6,
    2**63,
    10**30,
    10**400,
    -(10**400),
    0.0,
    -0.0,
    1e-320,
    1e-300,
    1e300,
    1.7e308,
    float("inf"),
    float("nan"),
    True,
    False,
)


def nested(depth: int) -> list[Any]:
    """A list in a list in a list, so many deep."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def strange_value(rng: random.Random) -> Any:
    """Any value, most of which no key of a spec allows."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: rng.choice(STRANGE_TEXTS),
        lambda: rng.choice(STRANGE_NUMBERS),
        lambda: rng.uniform(-1e3, 1e3),
        lambda: rng.randrange(-10, 10**9),
        lambda: nested(rng.choice((0, 1, 5, 40, 400))),
        lambda: {rng.choice(STRANGE_TEXTS): rng.choice(STRANGE_NUMBERS)},
        lambda: [rng.choice(STRANGE_TEXTS) for _ in range(rng.choice((1, 2, 200)))],
        lambda: [rng.choice(STRANGE_NUMBERS) for _ in range(rng.choice((1, 2, 200)))],
        lambda: None,
    )
    return rng.choice(kinds)()


def mutated_spec(rng: random.Random) -> dict[str, Any]:
    """Fields of a spec of which one to three were changed, removed, added, doubled or moved."""
    fields = copy.deepcopy(rng.choice((SMALL, FULL)))
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(fields))
        table, key = rng.choice(places)
        change = rng.choice(("value", "value", "value", "remove", "add", "double", "move"))
        if change == "value":
            table[key] = strange_value(rng)
        elif change == "remove":
            del table[key]
        elif change == "move":
            tables = [place for place, _ in places if isinstance(place, dict)]
            rng.choice(tables)[_fresh_key(rng, key)] = copy.deepcopy(table[key])
        elif change == "double" and isinstance(table[key], list):
            table[key] = table[key] * 2
        elif isinstance(table, dict):
            table[_fresh_key(rng, key)] = strange_value(rng)
        if not fields:
            break
    return fields


def mutated_toml(rng: random.Random) -> bytes:
    """Bytes of a TOML file, of which most are no spec and some are no TOML."""
    text = tomli_w.dumps(_without_none(rng.choice((SMALL, FULL)))).encode()
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: _with_bytes_changed(rng, text),
        lambda: text[: rng.randrange(len(text))],
        lambda: text + _deep_toml(rng),
        lambda: _deep_toml(rng) + text,
        lambda: text.replace(b"2.0", b"2" * rng.choice((400, 5000)), 1),
        lambda: text.replace(b'"', rng.choice((b"'", b'"""', b"")), rng.randrange(1, 5)),
        lambda: text * 2,
        lambda: rng.randbytes(rng.randrange(200)),
    )
    return rng.choice(kinds)()


def option_list(rng: random.Random, *commands: str) -> list[str]:
    """Arguments of one of the given commands: some of its options, with values right or strange.

    Parameters
    ----------
    rng : Random
        What draws.
    *commands : str
        Such as ``sweep``, ``trace show``.
    """
    name = rng.choice(commands)
    command = _mcage()
    for word in name.split():
        command = command.commands[word]
    arguments = name.split()
    for parameter in command.params:
        is_argument = parameter.param_type_name == "argument"
        if rng.random() > (0.7 if is_argument else 2.5 / len(command.params)):
            continue
        if parameter.name in ("help", "out", "png", "figure"):
            continue
        if not is_argument:
            arguments.append(rng.choice([*parameter.opts, *parameter.secondary_opts]))
        if not getattr(parameter, "is_flag", False) or rng.random() < 0.02:
            arguments += [option_value(rng) for _ in range(parameter.nargs if is_argument else 1)]
    if rng.random() < 0.1:
        arguments.insert(rng.randrange(1, len(arguments) + 1), rng.choice(("-x", "--", "--no", "")))
    return [text.replace("\0", "") for text in arguments]


@cache
def _mcage() -> Any:
    return typer.main.get_command(app)


def option_value(rng: random.Random) -> str:
    """Value of an option: of the right kind for some option, or strange."""
    right = (
        *("0", "1", "3", "0.5", "0.45", "353.15", "1e-9", "-1", "0,1", "none", "28nm", "32nm"),
        *("rrcd", "baseline", "disable", "turbo", "undervolted", "dvfs", "common", "clustered"),
        *("MatrixTranspose", "varius", "table", "table-exact", "wavefront", "work-group"),
        *("uniform", "one", "dirichlet(2)", "normal(353, 2)", "uniform(340, 350)", "held"),
        *("facelift", "bhardwaj", "finfet", "planar", "eta=0.3", "amplitude=calibrated"),
        *("median_life", "numpy", "numba", "cuda", "000", "002"),
    )
    if rng.random() < 0.5:
        return rng.choice(right)
    return str(strange_value(rng) if rng.random() < 0.5 else rng.choice(STRANGE_TEXTS))[:50_000]


@dataclass(frozen=True)
class Plugin:
    """A module that a user wrote.

    Attributes
    ----------
    option : str
        Option that takes it: ``--nbti`` or ``--technique``.
    module : str
        Its name.
    attribute : str
        Name of the value in it.
    source : str
        Its text.
    """

    option: str
    module: str
    attribute: str
    source: str

    @property
    def name(self) -> str:
        """As users give it."""
        return f"{self.module}:{self.attribute}"


FAILURES = (
    "raise ValueError('no such thing')",
    "raise ValueError('a\\nb\\x1b[31m' + 'x' * 100_000)",
    "raise KeyError",
    "raise SystemExit(0)",
    "exit(0)",
    "raise BaseException('base')",
    "raise MemoryError",
    "raise StopIteration",
    "return 1 / 0",
    "return (lambda f: f(f))(lambda f: f(f))",
    "assert False",
    "import no_such_module",
)
"""What the code of a plug-in does in place of its work."""

WRONG_ANSWERS = (
    "return None",
    "return 'text'",
    "return float('nan')",
    "return np.full(3, np.nan)",
    "return np.zeros((2, 0, 5))",
    "return np.asarray(answer, dtype=complex)",
    "return np.asarray(answer) * np.nan",
    "return [answer]",
)
"""What it answers; ``answer`` is the right one."""

METHODS = (
    "stress_per_second",
    "diffusion_per_second",
    "rates",
    "initial_state",
    "advance",
    "dvth_of",
)

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
fields[{key!r}] = {value}
OWN = {kind}(**fields)
"""

_WHILE_IMPORTED = """
def work():
    {failure}

OWN = work()
"""


def failing_method(rng: random.Random) -> Plugin:
    """An NBTI model one of whose methods fails, at once or after some calls."""
    source = _MODEL.format(
        method=rng.choice(METHODS),
        calls=rng.choice((0, 0, 1, 5, 50)),
        failure=rng.choice(FAILURES + WRONG_ANSWERS),
    )
    return Plugin("--nbti", _module(rng), "OWN", source)


def failing_import(rng: random.Random) -> Plugin:
    """A plug-in that fails while it is imported, or has nothing that could be used."""
    failure = rng.choice((*FAILURES, *WRONG_ANSWERS[:3], "return Missing", ")"))
    source = _WHILE_IMPORTED.format(failure=failure)
    option = rng.choice(("--nbti", "--technique"))
    return Plugin(option, _module(rng), rng.choice(("OWN", "OWN", "NONE", "", "a.b")), source)


def wrong_technique(rng: random.Random) -> Plugin:
    """A technique of which one field makes no sense, or that is of a class of its own."""
    source = _TECHNIQUE.format(
        key=rng.choice(("name", "placement", "storage", "gating", "source", "summary")),
        value=rng.choice(("None", "3", "'direct'", "''", "'[/x]'", "Storage.BLOCK", "object()")),
        kind=rng.choice(("Technique", "Technique", "Own")),
    )
    return Plugin("--technique", _module(rng), "OWN", source)


def failing_plugin(rng: random.Random) -> Plugin:
    """Any of them."""
    return rng.choice((failing_method, failing_import, wrong_technique))(rng)


def _module(rng: random.Random) -> str:
    return f"own_{rng.getrandbits(48):012x}"


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every table or list, with each of its keys or places."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _fresh_key(rng: random.Random, key: Any) -> str:
    return rng.choice((f"{key}s", f"{key}"[:-1], f"{key}".upper(), *STRANGE_TEXTS[:8]))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


def _with_bytes_changed(rng: random.Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(rng.choice((1, 1, 2, 10))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _deep_toml(rng: random.Random) -> bytes:
    depth = rng.choice((10, 500, 3000))
    kinds = (
        b"deep = " + b"[" * depth + b"]" * depth + b"\n",
        b"deep = " + b"{a=" * depth + b"1" + b"}" * depth + b"\n",
        b".".join([b"a"] * depth) + b" = 1\n",
        b"[" + b".".join([b"a"] * depth) + b"]\n",
    )
    return rng.choice(kinds)
