"""Do the daily tests see what the whole of the tests sees?

    python scripts/validation/mutate.py [--seed 1] [--mutants 60] [--contexts FILE] [--daily]

A mutant is mcage with one operator or one constant of a core module changed. Operators and
constants are drawn by the seed, each as likely as any other. Each mutant stands in a copy of the
checkout; there the daily tests run until one fails, and if none does, the slow tests. A line says
which test fails, or that none does. A mutant that computes the same as mcage is no mutant: `EQUAL`
names those with the reason, found by reading, and they are not run. Exit code 1: slow tests kill
more than one mutant in sixty that daily tests leave alive.

FILE is the data of `coverage` with a context per test. With it, only those tests run that execute
the changed line, or, where none does since the line is compiled, those that execute any line of its
module: minutes in place of days. What runs at import is met by all tests.
"""

import argparse
import ast
import io
import keyword
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[2]

CORE = (
    *("aging", "costs", "engines", "gpu", "lifetime", "methods", "protection", "replays"),
    *("soft_errors", "stats", "techniques", "variation"),
    *("compiled.py", "distributions.py", "geometry.py", "philox.py", "random.py"),
)
"""Parts of mcage that compute."""

OTHER = {
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*", "@": "*"},
    **{"<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"is": "is not", "is not": "is", "in": "not in", "not in": "in"},
    **{"and": "or", "or": "and", "not": "", "True": "False", "False": "True"},
}
"""What is put in the place of an operator or a truth value."""

PAIRS = {("is", "not"), ("not", "in")}
"""Operators of two words."""

ARITHMETIC = {"+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>", "&", "|", "^"}

NOBODY_ASSIGNS = "nobody assigns to a field, and the class compares and hashes by identity"

EQUAL: dict[tuple[str, str, str], str] = {
    (
        "mcage/replays/most_stressed.py",
        "@dataclass(frozen=True, eq=False)",
        "18: True -> False",
    ): NOBODY_ASSIGNS,
    (
        "mcage/engines/stress.py",
        "@dataclass(frozen=True, eq=False)",
        "18: True -> False",
    ): NOBODY_ASSIGNS,
    (
        "mcage/methods/rare_events/search.py",
        "passes = np.log1p(-draw.random(POPULATION)) <= log_chance - self.log_chance",
        "44: <= -> <",
    ): "the two differ only where a random number meets the bound exactly: once in 2**53 draws",
    (
        "mcage/methods/rare_events/proposals.py",
        "for _ in range(60):",
        "15: 60 -> 61",
    ): "after 60 bisections the ends are neighbours among floating-point numbers",
    (
        "mcage/methods/sensitivity_output.py",
        'axes.axvline(0, color="#000000", linewidth=0.6)',
        "43: 0.6 -> 0.8999999999999999",
    ): "the width of a line in a figure, which says nothing",
    (
        "mcage/engines/cuda_engine/stress.py",
        'self.writes[:, :2] = held.astype("<i8").view("<i4").reshape(-1, 2)',
        "61: 1 -> 2",
    ): "NumPy works out a length that is negative, whichever number it is",
    (
        "mcage/engines/cuda_engine/stress.py",
        "row = [*addresses, self._most, len(self._tables.cycles), _KEPT * len(self._epochs)]",
        "63: * -> /",
    ): "seconds for which there is no room are summed again: slower, the same bits",
    (
        "mcage/aging/sampling.py",
        "def draw(self, seed: int, instances: NDArray[np.int64], epochs: int = 1) "
        "-> InstanceConstants:",
        "70: 1 -> 2",
    ): "who leaves it out replaces all that differs from epoch to epoch",
    (
        "mcage/methods/rare_events/search.py",
        "length = DELAY_SMALLEST_MOVE ** self.generator.random((len(self.lives), 1))",
        "29: ** -> *",
    ): "moves of any length leave the density unchanged; they only mix faster or slower",
    (
        "mcage/gpu/exchange.py",
        "@dataclass(frozen=True)",
        "18: True -> False",
    ): "nobody assigns to a rule of exchange, and nobody hashes one",
    (
        "mcage/aging/transistors.py",
        "scores = np.where(above < 0.5, -ndtri(above), ndtri(under))",
        "26: 0.5 -> 0.75",
    ): "where neither probability is small, both have all their digits",
    (
        "mcage/lifetime/lowest_vdd.py",
        "@dataclass(frozen=True, eq=False)",
        "27: False -> True",
    ): "nobody compares weak cells, and nobody hashes them",
    (
        "mcage/geometry.py",
        "blocks = self.components / self.block_components if self.block_components > 0 else 0",
        "83: 0 -> 1",
    ): "a block of no components is refused all the same, since 8 are the fewest",
    (
        "mcage/engines/numba_engine/bounds.py",
        "_ROWS = 3 << 16",
        "10: << -> >>",
    ): "open bits for which there is no space are worked out one by one: slower, the same bits",
}
"""Why a mutant computes the same: by module, by the line without its margin, and by the change."""

SECONDS = 1800
"""How long tests of a mutant may run: one that does not end is killed."""


@dataclass(frozen=True)
class Mutant:
    """One change: text from `begin` to `end` of a line becomes `new`."""

    path: str
    line: int
    begin: int
    end: int
    old: str
    new: str
    text: str
    in_function: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """By what `EQUAL` names it: a number of the line would change with each edit above."""
        return self.path, self.text.strip(), f"{self.begin - len(self.margin)}: {self.change}"

    @property
    def margin(self) -> str:
        """Blanks before the line's text."""
        return self.text[: len(self.text) - len(self.text.lstrip())]

    @property
    def change(self) -> str:
        """Old text and new text."""
        return f"{self.old} -> {self.new or 'nothing'}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}   {self.text.strip()}"

    def write(self, checkout: Path) -> None:
        """Change the module in a copy of the checkout."""
        module = checkout / self.path
        lines = module.read_text(encoding="utf-8").splitlines(keepends=True)
        text = lines[self.line - 1]
        lines[self.line - 1] = text[: self.begin] + self.new + text[self.end :]
        module.write_text("".join(lines), encoding="utf-8")


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """All mutants of a module but those of annotations, which compute nothing."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    tree = ast.parse(source)
    skipped, in_functions = _places_of_no_value(tree), _lines_of_functions(tree)
    found = []
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if any(begin <= token.start < end for begin, end in skipped):
            continue
        if new := _other(before, token, after):
            end = after.end if (token.string, after.string) in PAIRS else token.end
            text = lines[token.start[0] - 1]
            old = text[token.start[1] : end[1]]
            name = path.relative_to(root).as_posix()
            where = name, token.start[0], token.start[1], end[1]
            found.append(Mutant(*where, old, new[0], text, token.start[0] in in_functions))
    return found


def _other(before, token, after) -> tuple[str] | None:
    """What a token becomes; None where it is neither an operator between values nor a constant."""
    text = token.string
    if token.type == tokenize.NUMBER:
        value = ast.literal_eval(text)
        return (str(value + 1) if isinstance(value, int) else repr(value * 1.5 or 1.0),)
    if token.type not in (tokenize.OP, tokenize.NAME) or (before.string, text) in PAIRS:
        return None
    if (text, after.string) in PAIRS:
        return (OTHER[f"{text} {after.string}"],)
    if text.endswith("=") and text[:-1] in ARITHMETIC:
        return (f"{OTHER[text[:-1]]}=",)
    if text in ARITHMETIC and not _ends_value(before):
        return ("",) if text == "-" else None  # a sign; stars of arguments, a decorator
    return (OTHER[text],) if text in OTHER else None


def _ends_value(token) -> bool:
    """Whether an operator after a token stands between two values."""
    if token.type == tokenize.NAME:
        return token.string not in keyword.kwlist or token.string in ("True", "False", "None")
    return token.type in (tokenize.NUMBER, tokenize.STRING) or token.string in (")", "]", "}")


def _places_of_no_value(tree) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Begins and ends of annotations, and of what lies between a loop's target and its values."""
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            begin = node.target.end_lineno, node.target.end_col_offset
            spans.append((begin, (node.iter.lineno, node.iter.col_offset)))
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if part:
                end = part.end_lineno, part.end_col_offset
                spans.append(((part.lineno, part.col_offset), end))
    return spans


def _lines_of_functions(tree) -> set[int]:
    """Lines that a call executes, and no import."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for line in range(node.body[0].lineno, node.end_lineno + 1)
    }


def drawn(root: Path, seed: int, count: int) -> list[Mutant]:
    """Mutants that a seed draws from all core modules."""
    parts = [root / "mcage" / part for part in CORE]
    modules = [path for part in parts for path in sorted(part.rglob("*.py")) or [part]]
    every = [mutant for path in modules for mutant in mutants_of(root, path)]
    return random.Random(seed).sample(every, count)


class Contexts:
    """Which tests execute what, by the data of `coverage`."""

    def __init__(self, file: Path) -> None:
        from coverage import CoverageData

        self.data = CoverageData(str(file))
        self.data.read()
        self.files = {_below(name): name for name in self.data.measured_files()}

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Tests that execute its line, or else its module; none stands for all."""
        if not mutant.in_function:
            return []
        by_line = self.data.contexts_by_lineno(self.files.get(mutant.path, mutant.path))
        of_module = {test for tests in by_line.values() for test in tests}
        for tests in (by_line.get(mutant.line, ()), of_module):
            if found := sorted({_test_of(test) for test in tests} - {""}):
                return found
        return []


def _below(name: str) -> str:
    """Path of a module below the checkout, wherever that lay."""
    return f"mcage/{name.rpartition('/mcage/')[2]}"


def _test_of(context: str) -> str:
    """A test of a context; processes that a test starts add the phase to its name."""
    return re.sub(r" \((setup|call|teardown)\)$", "", context)


def judge(mutant: Mutant, copy: Path, contexts: Contexts | None, daily: bool) -> tuple[str, str]:
    """What becomes of a mutant: "daily", "slow", "alive" or "equal", and the test or the reason."""
    if mutant.key in EQUAL:
        return "equal", EQUAL[mutant.key]
    mutant.write(copy)
    try:
        tests = contexts.tests_of(mutant) if contexts else []
        for tier, mark in {"daily": "not slow"}.items() if daily else TIERS.items():
            if failed := first_failure(mutant, copy, tests, mark):
                return tier, failed
        return "alive", f"{len(tests) or 'all'} tests"
    finally:
        subprocess.run(["git", "checkout", "-q", "--", mutant.path], cwd=copy, check=True)


TIERS = {"daily": "not slow", "slow": "slow"}


def first_failure(mutant: Mutant, copy: Path, tests: list[str], mark: str) -> str:
    """The test that fails first; empty if all pass or none is of the mark."""
    with tempfile.TemporaryDirectory() as scratch:
        chosen = Path(scratch, "tests")
        chosen.write_text("\n".join(tests), encoding="utf-8")
        files = sorted({test.partition("::")[0] for test in tests})
        command = [
            *(sys.executable, "-m", "pytest", "-x", "-n", "0", "-rfE", "--tb=no", "-m", mark),
            *("--hypothesis-profile=unshrunk", "-p", Path(__file__).stem),
            *("-p", "no:cacheprovider", "--basetemp", f"{scratch}/t"),
        ]
        environment = os.environ | {
            "PYTHONPATH": str(Path(__file__).parent),
            "MUTATED_PART": mutant.path.split("/")[1].removesuffix(".py"),
            "MUTATED_TESTS": str(chosen),
        }
        files = [file for file in files if Path(copy, file).exists()]
        with subprocess.Popen(
            [*command, *files],
            cwd=copy,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                said, _ = running.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return f"no end in {SECONDS} s"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
    if running.returncode in (0, NONE_COLLECTED):
        return ""
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else said[-200:]


NONE_COLLECTED = 5
"""Exit code of pytest."""


def pytest_collection_modifyitems(config, items):
    """Leave the tests that were chosen, those of the mutated part first: a plugin of pytest."""
    chosen = set(Path(os.environ["MUTATED_TESTS"]).read_text(encoding="utf-8").split("\n"))
    part = os.environ["MUTATED_PART"]
    if chosen != {""}:
        config.hook.pytest_deselected(items=[it for it in items if it.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]
    folders = (f"unit/{part}/", "unit/", "parity/", "validation/", "")
    items.sort(key=lambda item: [folder in item.nodeid for folder in folders].index(True))


def main() -> None:
    """Draw, judge and count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="number of the first that is judged")
    parser.add_argument("--contexts", type=Path, help="data of coverage, with contexts")
    parser.add_argument("--daily", action="store_true", help="run no slow tests")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    contexts = Contexts(options.contexts) if options.contexts else None
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        copies: Queue[Path] = Queue()
        for job in range(options.jobs):
            copies.put(Path(folder, str(job)))
            subprocess.run(["git", "clone", "-q", ROOT, Path(folder, str(job))], check=True)
        mutants = drawn(Path(folder, "0"), options.seed, options.mutants)

        def judged(mutant: Mutant) -> tuple[str, str]:
            copy = copies.get()
            try:
                return judge(mutant, copy, contexts, options.daily)
            finally:
                copies.put(copy)

        count: Counter[str] = Counter()
        results = pool.map(judged, mutants[options.first :])
        for number, (mutant, (fate, why)) in enumerate(
            zip(mutants[options.first :], results, strict=True), options.first
        ):
            count[fate] += 1
            print(f"{number:3d} {fate:5s} {mutant}\n          {why}", flush=True)
    print(", ".join(f"{fate}: {number}" for fate, number in sorted(count.items())))
    sys.exit(count["slow"] * 60 > options.mutants)


if __name__ == "__main__":
    main()
