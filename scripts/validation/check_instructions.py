"""Compare the emulator with the scalar model on random instructions, programs and accesses.

    python scripts/validation/check_instructions.py [--programs 1000] [--rounds 5] [--seed 1]

A round compares every mnemonic and encoding of every processor once, with random operands, special
values and partial EXEC. Exit code 1: there are differences.
"""

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "unit" / "tracing")]

from emulated import (  # noqa: E402
    EXECUTED,
    GENERATIONS,
    compare_instruction,
    depends_on_nan_bits,
    differences,
    emulate,
    model,
    random_program,
    random_wave,
)
from test_emulated_instructions import every_form  # noqa: E402

from mcage.errors import UserError  # noqa: E402


def forms(arch, seed):
    """Differences in every form of a processor, how many forms were compared, and what executed."""
    EXECUTED.clear()
    rng = random.Random(f"{arch} {seed}")
    texts = [text for text in every_form(arch, seed) if not depends_on_nan_bits(text)]
    found = [what for text in texts for what in compare_instruction(text, arch, rng)]
    return found, len(texts), dict(EXECUTED)


def programs(arch, seed, count):
    """The same of random programs."""
    EXECUTED.clear()
    rng = random.Random(f"{arch} {seed} programs")
    found, compared = [], 0
    while compared < count:
        texts = random_program(rng, arch, rng.randrange(5, 40))
        waves = [random_wave(rng, arch) for _ in range(3)]
        try:
            m = emulate(waves, texts, arch)
        except UserError as error:  # a register by an index that a wave does not have
            if "registers" not in str(error):
                raise
            continue
        for wave in waves:
            model(wave, texts, arch)
        found += [f"{arch} {texts}: {what}" for what in differences(m, waves)[:1]]
        compared += 1
    return found, compared, dict(EXECUTED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000, help="in all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    begin, wrong, counts, executed = time.monotonic(), 0, Counter(), defaultdict(Counter)
    each = -(-options.programs // len(GENERATIONS))
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [
            ("forms", arch, pool.submit(forms, arch, options.seed + number))
            for number in range(options.rounds)
            for arch in GENERATIONS
        ]
        jobs += [
            ("programs", arch, pool.submit(programs, arch, options.seed, each))
            for arch in GENERATIONS
        ]
        for kind, arch, job in jobs:
            found, compared, by = job.result()
            counts[kind, arch] += compared
            executed[kind, arch] += Counter(by)
            wrong += len(found)
            for line in found[:5]:
                print(line[:400])
    for (kind, arch), count in sorted(counts.items()):
        by = executed[kind, arch]
        share = by["interpreter"] / by["all"]
        print(f"{arch}: {count:,} {kind} compared; the interpreter executed {share:.1%}")
    print(f"{wrong} differences, {time.monotonic() - begin:.0f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
