"""Give thousands of mutated inputs to mcage and print what it does wrong with any of them.

    python scripts/validation/fuzz.py [--inputs 10000] [--seed 1] [--kind KIND ...]

Kinds, inputs and judge are those of `tests/system/test_fuzz.py`, which tries some hundreds with a
seed of its own: whatever users type and write, results, traces, files of other tools, and damaged
programs of GPUs, which need a disassembler. A complaint names the kind and the number of the input,
which depend on the seed alone: `--kind KIND --first NUMBER --inputs 1` gives that input again. Exit
code 1: complaints.
"""

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests" / "support"
sys.path.insert(0, str(TESTS))

from fuzzing import KINDS, fuzz  # noqa: E402
from nursery import Nursery, usual_commands  # noqa: E402


def complaints(kind, seed, numbers):
    """Complaints about some inputs of a kind."""
    with tempfile.TemporaryDirectory() as folder, Nursery(usual_commands) as server:
        return list(fuzz(server, kind, seed, numbers, Path(folder)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="of all kinds together")
    parser.add_argument("--first", type=int, default=0, help="number of the first of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, action="append", help="repeat; default: all")
    options = parser.parse_args()
    kinds = options.kind or list(KINDS)
    last = options.first + -(-options.inputs // len(kinds))
    workers = len(os.sched_getaffinity(0))
    begin = time.monotonic()
    wrong = 0
    with ThreadPoolExecutor(workers) as pool:
        for kind in kinds:
            parts = (range(options.first + part, last, workers) for part in range(workers))
            done = pool.map(
                lambda numbers, kind=kind: complaints(kind, options.seed, numbers), parts
            )
            lines = [line for part in done for line in part]
            wrong += len(lines)
            seconds = time.monotonic() - begin
            print(
                f"{kind}: {last - options.first} inputs, {len(lines)} complaints, {seconds:.0f} s"
            )
            print("".join(f"  {line}\n" for line in lines), end="", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
