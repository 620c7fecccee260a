"""Which assumption brings the papers' value where a replay of the traces does not?

Two results of the papers do not follow at once from the traces that ship with mcage: how much
register compression alone (RC) lowers the longest duty cycles, and how rarely BlackScholes spills
under RRCD. What the texts leave open is put to the test here, assumption by assumption, on copies
of the traces (`explore_traces.py`) and with the engines of every sweep; results/open-differences.md
discusses what this prints.

    python scripts/experiments/explore_differences.py [duty|spills|all] [--recorded FOLDER]

FOLDER holds further recorded slices, `<benchmark>-cu<compute unit>-simd<SIMD>.h5`; without it the
tests that need them are left out. Takes five minutes on one core.
"""

import argparse
from pathlib import Path

from explore_duty import explore_duty
from explore_spills import explore_spills


def main() -> None:
    """Explore what the command line asks for."""
    parser = argparse.ArgumentParser(
        description="Which assumption brings the papers' value where a replay does not?"
    )
    parser.add_argument("what", nargs="?", choices=("duty", "spills", "all"), default="all")
    parser.add_argument("--recorded", type=Path, help="folder of further recorded slices")
    asked = parser.parse_args()
    if asked.what != "spills":
        explore_duty(asked.recorded)
    if asked.what != "duty":
        explore_spills()


if __name__ == "__main__":
    main()
