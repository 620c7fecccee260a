"""Give thousands of damaged kernels and inputs to the emulator; print what it does wrong.

    python scripts/validation/fuzz_kernels.py [--inputs 2000] [--seed 1] [--kind NAME ...]

The inputs are those of `tests/system/test_emulate.py`, which tries some dozens: two thirds of them
damaged code objects, a fifth damaged sources, which are compiled with clang, and the rest arguments
and Python files. A complaint names the kind and the number of the input: `--kind NAME --first
NUMBER --inputs 1` gives that input again. Exit code 1: complaints.
"""

import argparse
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests" / "support"
sys.path.insert(0, str(TESTS))

from mutated_kernels import KINDS, complaint  # noqa: E402

CHUNK = 25
SHARES = {"code objects": 0.35, "modern": 0.3, "sources": 0.2, "arguments": 0.075, "inputs": 0.075}


def complaints(kind, seed, numbers):
    """Complaints about some inputs of a kind, and the memory that was needed at most."""
    lines, slowest = [], 0.0
    for number in numbers:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            wrong = complaint(kind, number, seed, Path(folder))
        slowest = max(slowest, time.monotonic() - begin)
        if wrong:
            lines.append(f"{kind} {number}: {wrong}")
    return lines, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, slowest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=2000, help="of all kinds together")
    parser.add_argument("--first", type=int, default=0, help="number of the first of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    kinds = options.kind or list(KINDS)
    whole = sum(SHARES[kind] for kind in kinds)
    wrong, begin = 0, time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        for kind in kinds:
            inputs = round(options.inputs * SHARES[kind] / whole)
            last = options.first + inputs
            parts = [
                range(first, min(first + CHUNK, last))
                for first in range(options.first, last, CHUNK)
            ]
            count = len(parts)
            done = list(pool.map(complaints, [kind] * count, [options.seed] * count, parts))
            lines = [line for part in done for line in part[0]]
            wrong += len(lines)
            print(
                f"{kind}: {inputs} inputs, {len(lines)} complaints, "
                f"{max(part[1] for part in done) / 1e6:.0f} MB, slowest "
                f"{max(part[2] for part in done):.1f} s, {time.monotonic() - begin:.0f} s"
            )
            print("".join(f"  {line}\n" for line in lines), end="", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
