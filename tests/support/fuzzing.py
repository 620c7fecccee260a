"""Mutated inputs of every kind, given to commands, and a judge of what the commands do.

Input number n of a kind depends on the seed, the kind and n alone, so that a complaint names all
that is needed to see it again.
"""

import atexit
import hashlib
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import damaged_files
import fake_campaign
import mutated_studies
import numpy as np
from commands import CommandServer, Ended
from mutated_specs import SMALL, failing_plugin, mutated_spec, mutated_toml, option_list
from mutated_tables import mutated_table
from result_files import write as write_results
from small_traces import small_trace
from tomli_w import dumps

from mcage.campaign.run import run_campaign
from mcage.campaign.shards import write_shard
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_gating.study import Gating
from mcage.studies.vmin.spec import VminSpec
from mcage.studies.vmin.study import VminStudy
from mcage.traces import save_trace

SECONDS = 10.0
PEAK_BYTES = 1_000_000_000
MOST_LINES, MOST_LETTERS = 2, 1000

Mutation = Callable[[random.Random, Path], list[str]]
"""Writes the files of one input into a folder; returns the command's arguments."""


class Judge:
    """Compares what a command did with what it may do.

    Parameters
    ----------
    folder : Path
        The current folder of the command. All in it but ``out`` must stay as it is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = _content(folder)

    def complaint(self, ended: Ended) -> str | None:
        """What the command did wrong; None if it did nothing wrong."""
        before, after = self._before, _content(self._folder)
        names = sorted(before.keys() | after.keys())
        changed = [name for name in names if before.get(name) != after.get(name)]
        lines = _WARNINGS_OF_USERS.sub("", ended.stderr).strip().splitlines()
        refused = ended.code == 2
        complaints = (
            (ended.code < 0, f"killed by signal {-ended.code}"),
            (ended.code not in (0, 2), f"exit code {ended.code}"),
            (ended.seconds > SECONDS, f"{ended.seconds:.1f} seconds"),
            (ended.peak_bytes > PEAK_BYTES, f"{ended.peak_bytes / 1e6:.0f} MB"),
            ("defect of mcage" in ended.stderr or "Traceback" in ended.stderr, "a defect"),
            (refused and not lines, "refuses without a word"),
            (refused and len(lines) > MOST_LINES, f"refuses in {len(lines)} lines"),
            (refused and len(ended.stderr) > MOST_LETTERS, "a long message"),
            (_has_controls(ended.stdout + ended.stderr), "control characters"),
            (changed, f"touches {', '.join(changed)}"),
        )
        return next((words for is_so, words in complaints if is_so), None)


def fuzz(
    server: CommandServer, kind: str, seed: int, numbers: Iterable[int], folder: Path
) -> Iterator[str]:
    """Give inputs of a kind to commands, and yield the complaints.

    Parameters
    ----------
    server : CommandServer
        Runs the commands.
    kind : str
        One of `ALL_KINDS`.
    seed : int
        Of all inputs.
    numbers : iterable of int
        Which inputs of the kind.
    folder : Path
        An empty one, for files.
    """
    for number in numbers:
        rng = random.Random(f"{seed} {kind} {number}")
        work = folder / "work"
        (work / "out").mkdir(parents=True)
        arguments = ALL_KINDS[kind](rng, work)
        judge = Judge(work)
        ended = server.run(arguments, work, folder, SECONDS + 2)
        if complaint := judge.complaint(ended):
            shown = " ".join(arguments)[:300]
            yield f"{kind} {number}: {complaint}: mcage {shown!a}\n  {ended.stderr[-600:]!a}"
        shutil.rmtree(work)


def _content(folder: Path) -> dict[str, str]:
    """Every file but those below ``out``, with a digest of what it is."""
    content = {}
    for place, folders, names in os.walk(folder):
        if Path(place) == folder:
            folders[:] = [name for name in folders if name not in ("out", "__pycache__")]
        for name in names:
            path = Path(place) / name
            shown = os.fsencode(path.relative_to(folder)).decode(errors="replace")
            if path.is_symlink() or not path.is_file():
                content[shown] = "no regular file"
            else:
                content[shown] = hashlib.blake2b(path.read_bytes()).hexdigest()
    return content


_WARNINGS_OF_USERS = re.compile(r".*\.py:\d+: \w*Warning: .*\n +.*\n")
"""What Python prints of a user's file, with the line that it is about."""


def _has_controls(text: str) -> bool:
    return any(ord(letter) < 32 and letter not in "\n\r\t" for letter in text)


# ---- inputs ----------------------------------------------------------------------------------


@cache
def _sound_files() -> Path:
    """Folder of a small trace, results file, shards and fault map, made once for all inputs."""
    folder = Path(tempfile.mkdtemp(prefix="mcage-sound-"))
    atexit.register(shutil.rmtree, folder)
    save_trace(small_trace(), folder / "t.h5")
    damaged_files.store_as_recorders_do(folder / "t.h5")
    write_results(folder / "r.h5", (8,))
    (folder / "r.h5.shards").mkdir()
    campaign = fake_campaign.campaign(instances=6)
    for part in (range(3), range(3, 6)):
        arrays = fake_campaign.compute(part.start, part.stop)
        write_shard(folder / "r.h5.shards", campaign, part, arrays)
    np.save(folder / "m.npy", np.ones((2, 256, 4), dtype=bool))
    kernel = {"kernels": [str(folder / "t.h5")]}
    vmin = VminSpec(instances=2, techniques=["baseline", "rrcd"], workload=kernel)
    run_campaign(VminStudy.study_of_spec(vmin, "numpy"), folder / "vmin.h5")
    gating = GatingSpec(instances=2, policies=["default", "round-robin"])
    run_campaign(Gating(gating).study, folder / "gating.h5")
    return folder


OF_STUDIES = ("r.h5", "vmin.h5", "gating.h5")
"""Results of studies whose cases are told apart by different coordinates."""


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """Content with damage by byte."""
    mutate = damaged_files.BYTE_MUTATIONS[rng.choice(sorted(damaged_files.BYTE_MUTATIONS))]
    damaged: bytes = mutate(content, np.random.default_rng(rng.getrandbits(64)))
    return damaged


def _trace_command(rng: random.Random, name: str) -> list[str]:
    replay = ["replay", name, "--technique", rng.choice(("rrcd", "wc")), "--engine", "numpy"]
    return rng.choice((["trace", "show", name], ["trace", "validate", name], replay))


def _trace_bytes(rng: random.Random, folder: Path) -> list[str]:
    (folder / "t.h5").write_bytes(_damaged(rng, (_sound_files() / "t.h5").read_bytes()))
    return _trace_command(rng, "t.h5")


def _trace_structure(rng: random.Random, folder: Path) -> list[str]:
    path = folder / "t.h5"
    shutil.copy(_sound_files() / "t.h5", path)
    rng.choice(list(damaged_files.trace_mutations().values()))(path)
    return _trace_command(rng, path.name)


def _results(rng: random.Random, folder: Path) -> list[str]:
    path = folder / rng.choice(("r.h5", *OF_STUDIES))
    shutil.copy(_sound_files() / path.name, path)
    forgeries = damaged_files.results_mutations() if path.name == "r.h5" else {}
    _damage_verified(rng, path, forgeries)
    options = ([], ["--json"], ["--causes"], ["--fit"], ["--figure", "out/f.png"])
    return ["show", path.name, *rng.choice(options)]


_KEYS = ("technique", "environment", "scenario", "vdd", "policy", "protection", "age", "case", "")
_SIGNS = ("=", ">", "<", ">=", "<=", "!=", "==", "", " = ")
_VALUES = ("rrcd", "rrcd,baseline", "default", "0.42", "1", "-1e400", "nan", "", ",", "\x1b[31m")


def _conditions(rng: random.Random, folder: Path) -> list[str]:
    """Which cases of which study are shown, compared and drawn."""
    path = folder / rng.choice(OF_STUDIES)
    shutil.copy(_sound_files() / path.name, path)
    commands = (["show"], ["show", "--csv"], ["compare", path.name], ["pareto"], ["cite"])
    command = rng.choice((*commands, ["gpu", "exchange"], ["report", "--out", "out/r"]))
    wheres = ["".join(map(rng.choice, (_KEYS, _SIGNS, _VALUES))) for _ in range(rng.choice((1, 2)))]
    figure = ["--figure", "none"] if command[0] == "report" else []
    return [*command, path.name, *figure, *(f"--where={where}" for where in wheres)]


_PROGRAM = {
    "source": ("k.cl", "k.py", "k.co", "/dev/zero", "fifo", "", "a\x1b[31m.py", 3),
    "args": ("args.py", "x=f32[4]", "x=f32[99999999999]", "n=@fifo", "a.py=1", "", 7),
    "check": ("args.py", "nothing.py", "k.cl", "", True),
    "flags": ("-DN=4", "-fplugin=./x.so", "-MD -MF s.toml", "'", "@s.toml", "-o s.toml"),
    "grid": ("4", "4,4,4,4", "-1", "a", "4x4", "9" * 500),
    "arch": ("gfx900", "gfx803", "", 900),
    "inputs": (0, -1, 2**63, 1.5),
}


def _program(rng: random.Random, folder: Path) -> list[str]:
    """A spec that names code, which is shown; what runs leaves a file."""
    for name in ("k.py", "args.py"):
        (folder / name).write_text("open('ran', 'w').write('ran')\n")
    (folder / "k.cl").write_text("kernel void k(global float *x) { x[get_global_id(0)] = 1; }\n")
    os.mkfifo(folder / "fifo")
    keys = rng.sample(sorted(_PROGRAM), rng.randint(1, len(_PROGRAM)))
    fields = {"program": {key: rng.choice(_PROGRAM[key]) for key in keys}}
    if rng.random() < 0.3:
        fields["techniques"] = [rng.choice(("rrcd", "args:X", "args:", ":", "os:path"))]
    (folder / "s.toml").write_text(dumps(fields), encoding="utf-8")
    return ["inject", "s.toml", "--show-spec"]


def _shards(rng: random.Random, folder: Path) -> list[str]:
    shards = folder / "out" / "r.h5.shards"
    shutil.copytree(_sound_files() / shards.name, shards)
    victim = rng.choice(sorted(shards.iterdir()))
    if rng.random() < 0.1:
        shutil.copy(_sound_files() / "r.h5", victim)
    else:
        _damage_verified(rng, victim, damaged_files.shard_mutations())
    return ["merge", "out/r.h5"]


def _damage_verified(rng: random.Random, path: Path, forgeries: dict[str, Callable]) -> None:
    """Damage a sealed file by byte, under a seal that is broken or right, or forge it."""
    forged = ("forged", "forged") if forgeries else ()
    kind = rng.choice(("bytes", "sealed bytes", *forged))
    if kind == "bytes":
        path.write_bytes(_damaged(rng, path.read_bytes()))
    elif kind == "sealed bytes":
        damaged_files.forge(path, lambda file: file.write_bytes(_damaged(rng, file.read_bytes())))
    else:
        damaged_files.forge(path, rng.choice(list(forgeries.values())))


def _fault_map(rng: random.Random, folder: Path) -> list[str]:
    path = folder / "m.npy"
    if rng.random() < 0.5:
        path.write_bytes(_damaged(rng, (_sound_files() / "m.npy").read_bytes()))
    else:
        shape = rng.choice(((2, 256, 4), (256, 4), (0, 256, 4), (), (2, 4, 256), (1, 256, 5)))
        dtype = rng.choice(("bool", "int8", "float64", "complex128", "O", "U3", "M8[s]"))
        np.save(path, np.ones(shape, dtype=bool).astype(dtype), allow_pickle=True)
    options = ["--technique", "rrcd", "--engine", "numpy", "--fault-map", path.name]
    return ["replay", str(_sound_files() / "t.h5"), *options]


def _spec(rng: random.Random, folder: Path) -> list[str]:
    if rng.random() < 0.5:
        (folder / "s.toml").write_bytes(mutated_toml(rng))
    else:
        try:
            text = dumps(mutated_spec(rng))
        except (TypeError, ValueError, RecursionError):  # no TOML can say that
            text = "instances = 0"
        (folder / "s.toml").write_text(text, encoding="utf-8", errors="surrogatepass")
    return ["sweep", "s.toml", "--show-spec"]


def _options(rng: random.Random, folder: Path) -> list[str]:
    (folder / "s.toml").write_text(dumps(SMALL))
    commands = ("sweep", "sweep", "nbti", "trace show", "show", "techniques", "merge")
    arguments = option_list(rng, *commands)
    return [*arguments, "--show-spec"] if arguments[0] == "sweep" else arguments


def _plugin(rng: random.Random, folder: Path) -> list[str]:
    plugin = failing_plugin(rng)
    (folder / f"{plugin.module}.py").write_text(plugin.source)
    (folder / "s.toml").write_text(dumps(SMALL))
    command = rng.choice((["sweep", "s.toml", "--out", "out/r.h5"], ["nbti"]))
    if plugin.option == "--technique":
        command = ["replay", str(_sound_files() / "t.h5")]
    engine = [] if command == ["nbti"] else ["--engine", "numpy"]
    return [*command, plugin.option, plugin.name, *engine]


KINDS: dict[str, Mutation] = {
    "trace bytes": _trace_bytes,
    "trace structure": _trace_structure,
    "results": _results,
    "conditions": _conditions,
    "programs": _program,
    "shards": _shards,
    "fault maps": _fault_map,
    "specs": _spec,
    "options": _options,
    "plug-ins": _plugin,
    "tables": mutated_table,
}

ALL_KINDS: dict[str, Mutation] = KINDS | {
    "studies": mutated_studies.damaged_study,
    "conditions on studies": mutated_studies.condition,
    "runs of programs": mutated_studies.program,
    "runs on inputs": mutated_studies.inputs,
}
"""With those that need a compiler, and some seconds each."""
