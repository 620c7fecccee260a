"""Kill the default sweep, or another study, at random moments; how long is it to the prompt?

    python scripts/validation/check_kills.py --kills 40 [--study sweep|protection|vmin|inject]

Each run is killed, by one of SIGKILL, SIGTERM, Ctrl-C and Ctrl-C twice, and continued, until it
is complete, in a copy of the package without machine code, so that some kills meet the compiler.
Fails if a file differs from that of a sweep that is not killed, if anything is left behind, or if
an end takes more than two seconds.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = {
    "SIGKILL": (signal.SIGKILL,),
    "SIGTERM": (signal.SIGTERM,),
    "Ctrl-C": (signal.SIGINT,),
    "Ctrl-C twice": (signal.SIGINT, signal.SIGINT),
}
SECONDS_ALLOWED = 2.0
COMMAND = [sys.executable, "-c", "from mcage.cli.main import main; main()"]
KERNELS = ROOT / "scripts" / "modern_kernels"
STUDIES = {
    "sweep": ["sweep"],
    "protection": ["sweep", "--protection", "secded32", "--protection", "ecp1"],
    "vmin": ["vmin"],
    "inject": ["inject", f"{KERNELS / 'scan.cl'}", "--args", f"{KERNELS / 'scan.py'}"],
}


@dataclass(frozen=True)
class Kill:
    """One kill: how, how long after the start, and the seconds to the word and to the prompt."""

    kind: str
    after: float
    word: float
    prompt: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--study", choices=STUDIES, default="sweep")
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--longest", type=float, default=60.0, help="seconds until a kill")
    parser.add_argument("--times-only", action="store_true", help="do not end the last run")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills = campaign(Path(folder), options)
    report(kills)


def campaign(folder: Path, options: argparse.Namespace) -> list[Kill]:
    """Run after run, each killed until it is complete."""
    cold = folder / "package"
    shutil.copytree(ROOT / "mcage", cold / "mcage", ignore=shutil.ignore_patterns("__pycache__"))
    moments = random.Random(options.seed)
    kills: list[Kill] = []
    here = folder / "here"
    here.mkdir()
    out, contents = here / "run.h5", set()
    command = [*COMMAND, *STUDIES[options.study], "--instances", str(options.instances)]
    while len(kills) < options.kills:
        kind = list(KINDS)[len(kills) % len(KINDS)]
        kill = killed(out, command, cold, kind, moments.uniform(0.5, options.longest))
        if kill:
            kills.append(kill)
            print(f"{kind:<13} after {kill.after:5.1f} s: word {kill.word:.2f} s, "
                  f"prompt {kill.prompt:.2f} s", flush=True)  # fmt: skip
        else:
            contents.add(complete(out))
    if not options.times_only:
        for _ in ("the last one that was killed", "one that is not killed"):
            run(out, command, cold).communicate()
            contents.add(complete(out))
        if len(contents) > 1:
            sys.exit("a killed run has another file")
    return kills


def run(out: Path, command: list[str], package: Path) -> "subprocess.Popen[str]":
    """Start a run whose words can be read as they come."""
    return subprocess.Popen(
        [*command, "--out", os.fspath(out)],
        cwd=out.parent,
        env=os.environ | {"PYTHONPATH": os.fspath(package)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(out: Path, command: list[str], package: Path, kind: str, after: float) -> Kill | None:
    """Kill a run after some seconds; None if it has been faster."""
    process = run(out, command, package)
    try:
        process.wait(after)
        process.communicate()
        return None
    except subprocess.TimeoutExpired:
        pass
    begin = time.monotonic()
    for number in KINDS[kind]:
        process.send_signal(number)
        time.sleep(0.02)
    word = 0.0
    for line in process.stderr or ():
        if "stopping" in line:
            word = time.monotonic() - begin
    process.wait()
    return Kill(kind, after, word, time.monotonic() - begin)


def complete(out: Path) -> bytes:
    """Content of a finished run, beside which nothing may be; it is removed."""
    content = out.read_bytes()
    left = [path.name for path in out.parent.iterdir() if path != out]
    if left:
        sys.exit(f"left behind: {left}")
    out.unlink()
    return content


def report(kills: list[Kill]) -> None:
    """Longest and mean times by kind."""
    for kind in KINDS:
        prompts = [kill.prompt for kill in kills if kill.kind == kind]
        if prompts:
            print(f"{kind:<13} {len(prompts):>3} kills, to the prompt: mean "
                  f"{sum(prompts) / len(prompts):.2f} s, longest {max(prompts):.2f} s")  # fmt: skip
    longest = max(kill.prompt for kill in kills)
    if longest > SECONDS_ALLOWED:
        sys.exit(f"{longest:.2f} s are more than {SECONDS_ALLOWED:g} s")


if __name__ == "__main__":
    main()
