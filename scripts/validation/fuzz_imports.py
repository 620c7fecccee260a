"""Give thousands of mutated files of other tools to the importers; print what they do wrong.

    python scripts/validation/fuzz_imports.py [--inputs 10000] [--seed 1] [--format NAME ...]

The inputs are those of `tests/unit/tracing/importing/test_run.py`, which tries some hundreds. A
complaint names the format and the number of the input: `--format NAME --first NUMBER --inputs 1`
gives that input again. Exit code 1: complaints.
"""

import argparse
import resource
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests" / "support"
sys.path.insert(0, str(TESTS))

from mutated_imports import FORMAT_NAMES, complaint  # noqa: E402

CHUNK = 250


def complaints(name, seed, numbers):
    """Complaints about some inputs of a format, and the memory that was needed at most."""
    warnings.simplefilter("ignore")
    lines = []
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            wrong = complaint(name, number, seed, Path(folder))
        if wrong:
            lines.append(f"{name} {number}: {wrong}")
    return lines, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=FORMAT_NAMES, action="append", help="default: all")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    wrong, begin = 0, time.monotonic()
    with ProcessPoolExecutor(options.processes, max_tasks_per_child=20) as pool:
        for name in options.format or FORMAT_NAMES:
            last = options.first + options.inputs
            parts = [
                range(first, min(first + CHUNK, last))
                for first in range(options.first, last, CHUNK)
            ]
            count = len(parts)
            done = list(pool.map(complaints, [name] * count, [options.seed] * count, parts))
            lines = [line for part, _ in done for line in part]
            wrong += len(lines)
            print(
                f"{name}: {options.inputs} inputs, {len(lines)} complaints, "
                f"{max(peak for _, peak in done) / 1e6:.0f} MB, {time.monotonic() - begin:.0f} s"
            )
            print("".join(f"  {line}\n" for line in lines), end="", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
