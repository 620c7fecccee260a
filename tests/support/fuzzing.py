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
from functools import cache, partial
from pathlib import Path

import damaged_files
import fake_campaign
import grammars
import kernel_grammars
import numpy as np
from mutations import BYTE_MUTATIONS
from nursery import Ended, Nursery
from small_traces import small_trace

from mcage.campaign.run import run_campaign
from mcage.studies.gpu_gating.spec import GatingSpec
from mcage.studies.gpu_gating.study import Gating
from mcage.studies.vmin.spec import VminSpec
from mcage.studies.vmin.study import VminStudy
from mcage.traces import load_trace, save_trace

SECONDS = 10.0
"""Of a processor."""

SECONDS_BY_THE_CLOCK = 300.0
"""Until what hangs is ended."""

PEAK_BYTES = 1_000_000_000
MOST_LINES, MOST_LETTERS = 2, 1000

Mutation = Callable[[random.Random, Path], list[str]]
"""Writes the files of one input into a folder; returns the command's arguments."""


class Judge:
    """Compares what a command did with what it may do.

    Parameters
    ----------
    folder : Path
        The current folder of the command. All in it but ``out`` must stay as it is, and ``out``,
        too, but for finished shards, if the command refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = _content(folder)

    def complaint(self, ended: Ended) -> str | None:
        """What the command did wrong; None if it did nothing wrong."""
        before, after = self._before, _content(self._folder)
        names = sorted(before.keys() | after.keys())
        refused = ended.code == 2
        changed = [
            name
            for name in names
            if before.get(name) != after.get(name)
            and not (name.startswith("out/") and (not refused or ".shards" in name))
        ]
        lines = _WARNINGS_OF_USERS.sub("", ended.stderr).strip().splitlines()
        complaints = (
            (ended.code < 0, f"killed by signal {-ended.code}"),
            (ended.code not in (0, 2), f"exit code {ended.code}"),
            (ended.seconds > SECONDS, f"{ended.seconds:.1f} seconds"),
            (ended.peak_bytes > PEAK_BYTES, f"{ended.peak_bytes / 1e6:.0f} MB"),
            ("defect of mcage" in ended.stderr or "Traceback" in ended.stderr, "a defect"),
            (re.search(r"mcage/\S*\.py:\d+: \w*Warning", ended.stderr), "a warning of its own"),
            (refused and not lines, "refuses without a word"),
            (refused and len(lines) > MOST_LINES, f"refuses in {len(lines)} lines"),
            (refused and len(ended.stderr) > MOST_LETTERS, "a long message"),
            (_has_controls(ended.stdout + ended.stderr), "control characters"),
            (changed, f"touches {', '.join(changed)}"),
        )
        return next((words for is_so, words in complaints if is_so), None)


def fuzz(
    server: Nursery, kind: str, seed: int, numbers: Iterable[int], folder: Path
) -> Iterator[str]:
    """Give inputs of a kind to commands, and yield the complaints.

    Parameters
    ----------
    server : Nursery
        Runs the commands.
    kind : str
        One of `KINDS`.
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
        (work / "out" / "traces").mkdir(parents=True)
        arguments = [str(word) for word in KINDS[kind](rng, work)]
        judge = Judge(work)
        ended = server.run(arguments, work, folder, SECONDS_BY_THE_CLOCK)
        complaint = judge.complaint(ended)
        if complaint is None and not ended.code:
            for trace in (work / "out" / "traces").iterdir():
                load_trace(trace)
        if complaint:
            shown = " ".join(arguments)[:300]
            yield f"{kind} {number}: {complaint}: mcage {shown!a}\n  {ended.stderr[-600:]!a}"
        shutil.rmtree(work)


def _content(folder: Path) -> dict[str, str]:
    """Every file, with a digest of what it is."""
    content = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
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


# ---- files of mcage --------------------------------------------------------------------------


@cache
def _sound_files() -> Path:
    """Folder of a small trace, results file, shards and fault map, made once for all inputs."""
    folder = Path(tempfile.mkdtemp(prefix="mcage-sound-"))
    atexit.register(shutil.rmtree, folder)
    save_trace(small_trace(), folder / "t.h5")
    damaged_files.store_as_recorders_do(folder / "t.h5")
    fake_campaign.write(folder / "r.h5", (8,))
    campaign = fake_campaign.campaign(instances=6)
    fake_campaign.write_shards(folder / "r.h5.shards", campaign, range(3), range(3, 6))
    np.save(folder / "m.npy", np.ones((2, 256, 4), dtype=bool))
    kernel = {"kernels": [str(folder / "t.h5")]}
    vmin = VminSpec(instances=2, techniques=["baseline", "rrcd"], workload=kernel)
    run_campaign(VminStudy.study_of_spec(vmin, "numpy"), folder / "vmin.h5")
    gating = GatingSpec(instances=2, policies=["default", "round-robin"])
    run_campaign(Gating(gating).study, folder / "gating.h5")
    return folder


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """Content with damage by byte, as that of no text."""
    return rng.choice(list(BYTE_MUTATIONS.values()))(rng, content)


def _damage(rng: random.Random, path: Path) -> None:
    """Damage a file of HDF5 by byte or by structure."""
    if rng.random() < 0.4:
        path.write_bytes(_damaged(rng, path.read_bytes()))
    else:
        damaged_files.damage(rng, path, grammars.STRANGE_TEXTS + grammars.STRANGE_NUMBERS)


def _damage_sealed(rng: random.Random, path: Path) -> None:
    """Damage a file by byte under a seal that breaks, or anyhow under one that is right."""
    if rng.random() < 0.3:
        path.write_bytes(_damaged(rng, path.read_bytes()))
    else:
        damaged_files.forge(path, partial(_damage, rng))


def _trace(rng: random.Random, folder: Path) -> list[str]:
    shutil.copy(_sound_files() / "t.h5", folder)
    _damage(rng, folder / "t.h5")
    replay = ["replay", "t.h5", "--technique", rng.choice(("rrcd", "wc")), "--engine", "numpy"]
    return rng.choice((["trace", "show", "t.h5"], ["trace", "validate", "t.h5"], replay))


def _results(rng: random.Random, folder: Path) -> list[str]:
    """Damaged results of one of some studies."""
    source = _sound_files() / rng.choice(("r.h5", "vmin.h5", "gating.h5"))
    shutil.copy(source, folder / "r.h5")
    _damage_sealed(rng, folder / "r.h5")
    page = ["report", "r.h5", "--out", "out/page"]
    commands = [["show", "r.h5", *options] for options in _SHOWN]
    commands += [[*command, "r.h5"] for command in _READERS]
    commands += [["show", "r.h5", str(source)], ["compare", "r.h5", str(source)]]
    commands += [["compare", "r.h5", "r.h5"], page, [*page, "--figure", "none"]]
    commands += [[name, "r.h5", "--show-spec"] for name in ("sweep", "vmin", "inject")]
    return rng.choice(commands)


_SHOWN = ([], ["--json"], ["--csv"], ["--wide"], ["--causes"], ["--fit"], ["--figure", "out/f.png"])
_READERS = (["verify"], ["pareto"], ["gpu", "exchange"], ["cite"], ["status"])


def _shards(rng: random.Random, folder: Path) -> list[str]:
    shards = folder / "out" / "r.h5.shards"
    shutil.copytree(_sound_files() / shards.name, shards)
    victim = rng.choice(sorted(shards.iterdir()))
    if rng.random() < 0.1:
        shutil.copy(_sound_files() / "r.h5", victim)
    else:
        _damage_sealed(rng, victim)
    return ["merge", "out/r.h5"]


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


# ---- what users write ------------------------------------------------------------------------


def _spec(rng: random.Random, folder: Path) -> list[str]:
    (folder / "s.toml").write_bytes(grammars.SPEC.draw(rng))
    return ["sweep", "s.toml", "--show-spec"]


def _options(rng: random.Random, folder: Path) -> list[str]:
    (folder / "s.toml").write_bytes(grammars.toml(grammars.SMALL))
    commands = ("sweep", "sweep", "replay", "nbti", "trace show", "trace validate", "show")
    arguments = grammars.option_list(rng, *commands, "techniques", "merge")
    return [*arguments, "--show-spec"] if arguments[0] == "sweep" else arguments


def _plugin(rng: random.Random, folder: Path) -> list[str]:
    plugin = grammars.failing_plugin(rng)
    (folder / f"{plugin.module}.py").write_text(plugin.source)
    (folder / "s.toml").write_bytes(grammars.toml(grammars.SMALL))
    command = rng.choice((["sweep", "s.toml", "--out", "out/r.h5"], ["nbti"]))
    if plugin.option == "--technique":
        command = ["replay", str(_sound_files() / "t.h5")]
    engine = [] if command == ["nbti"] else ["--engine", "numpy"]
    return [*command, plugin.option, plugin.name, *engine]


def _table(rng: random.Random, folder: Path) -> list[str]:
    (folder / "powers.csv").write_text(grammars.POWERS)
    name = rng.choice(list(grammars.TABLES))
    grammar, arguments = grammars.TABLES[name]
    (folder / name).write_bytes(grammar.draw(rng))
    return [*arguments, name]


def _import(format_name: str) -> Mutation:
    def written(rng: random.Random, folder: Path) -> list[str]:
        chosen = "auto" if rng.random() < 0.2 else format_name
        words = ["trace", "import", "--out", "out/traces", "--format", chosen]
        words += ["--windows", rng.choice("13")] if rng.random() < 0.1 else []
        words += rng.choice(([], ["--ticks-per-cycle", "1"], ["--ticks-per-cycle", "1000"]))
        words += rng.choice(([], ["--values", "before"], ["--values", "after"]))
        return [*words, *grammars.write_records(format_name, rng, folder)]

    return written


NEED_NO_TOOL: dict[str, Mutation] = {
    "traces": _trace,
    "results": _results,
    "programs": kernel_grammars.programs,
    "shards": _shards,
    "fault maps": _fault_map,
    "specs": _spec,
    "options": _options,
    "plug-ins": _plugin,
    "tables": _table,
    **{f"{name} files": _import(name) for name in grammars.FORMAT_NAMES},
}
KINDS = NEED_NO_TOOL | {"code objects": kernel_grammars.code_objects}
