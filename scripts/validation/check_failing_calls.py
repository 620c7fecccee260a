"""Every call of the system about a campaign's files fails in turn: is any wrong file accepted?

    python scripts/validation/check_failing_calls.py [--kinds write,flush] [--every N]

For each call, each answer of the system, and a failure that comes once or stays: a campaign runs,
its file must be absent or right, and the same command without failures must leave the right file
and nothing else. Prints how the campaigns ended; exits with 1 after any surprise.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from failing_calls import ERRORS, KINDS, OUT, Failure, library, nursery_with, run
from host_gpu.compiler import host_compiler


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(kind for kind in KINDS if kind != "memory"))
    parser.add_argument("--every", type=int, default=1, help="try every N-th call only")
    asked = parser.parse_args()
    ends, surprises = Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        nursery = nursery_with(library(top, host_compiler()))
        (top / "whole").mkdir()
        calls = run(nursery, top / "whole").calls
        whole = (top / "whole" / OUT).read_bytes()
        for kind in asked.kinds.split(","):
            failures = (
                Failure(kind, call, error, stays)
                for call in range(1, calls[kind] + 1, asked.every)
                for error in ERRORS[kind]
                for stays in (False, True)
            )
            for failure in failures:
                ends[kind, surprise(nursery, top, whole, failure, surprises)] += 1
    for (kind, code), count in sorted(ends.items()):
        print(f"{kind}: {count} campaigns ended with {code}")
    print(*surprises, sep="\n")
    return bool(surprises)


def surprise(nursery, top, whole, failure, surprises) -> int:
    """Exit code of a campaign with a failure; what is not as it should be is noted."""
    with tempfile.TemporaryDirectory(dir=top) as name:
        folder = Path(name)
        out = folder / OUT
        first = run(nursery, folder, failure)
        wrong = first.code not in (0, 2) or (out.exists() and out.read_bytes() != whole)
        again = run(nursery, folder)
        left = [path.name for path in folder.iterdir()]
        if wrong or again.code or out.read_bytes() != whole or left != [OUT]:
            surprises.append(f"{failure}: {first.code} {first.words}, then {again.code}, {left}")
        return first.code


if __name__ == "__main__":
    sys.exit(main())
