"""How fast is text of other tools imported, on one core, and in how much memory?

    python scripts/benchmarks/bench_import.py [--megabytes 256] [--format NAME ...]

Text of each format is made of the samples of the tests, again and again at later times. For each
format it prints the speed of two floors (reading the file; splitting it into lines, which every
importer does) and of the whole import, in MB of text per second of processor time, and the largest
memory of the process.
"""

import argparse
import contextlib
import re
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import zstandard

TESTS = Path(__file__).parents[2] / "tests"
sys.path.insert(0, str(TESTS / "support"))

from plain_files import plain_table  # noqa: E402

from mcage.traces import bundled_trace  # noqa: E402

PART = """
import json, resource, sys, time
from pathlib import Path
from mcage.tracing.importing.sources import ImportOptions
from mcage.tracing.importing.run import import_traces
paths = [Path(path) for path in sys.argv[3:]]
begin = time.process_time()
import_traces(paths, sys.argv[1], Path(sys.argv[2]), ImportOptions(values="after"))
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([seconds, peak * 1024]))
"""


def sample(name):
    content = (TESTS / "samples" / name).read_bytes()
    return zstandard.ZstdDecompressor().decompressobj().decompress(content)


def shifted(pattern, text):
    """Function that gives the text again, with the numbers of a pattern later by its length."""
    pieces = re.split(pattern, text, flags=re.M)
    numbers = [int(piece) for piece in pieces[1::2]]
    step = max(numbers) - min(numbers) + 1000

    def again(turn):
        moved = [b"%d" % (number + turn * step) for number in numbers]
        whole = [piece for pair in zip(pieces[::2], moved, strict=False) for piece in pair]
        return b"".join([*whole, pieces[-1]])

    return again


def same(text, turn):
    return text


def inputs():
    """File names and functions that give their content at a turn, by format."""
    table = plain_table(bundled_trace("Reduction")).encode()
    head, rows = table[: table.index(b"\n0,") + 1], table[table.index(b"\n0,") + 1 :]
    again = shifted(rb"^(\d+)(?=,)", rows)
    text = "multi2sim/matrixtranspose-detailed-real"
    return {
        "csv": {"run.csv": lambda turn: again(turn) if turn else head + again(0)},
        "gem5": {"run.txt": shifted(rb"^(\d+)(?=: )", sample("gem5/reduction-vrf-only.txt.zst"))},
        "multi2sim": {
            "run.txt": partial(same, sample(f"{text}.txt.zst")),
            "run.m2s": shifted(rb"(?<=^c clk=)(\d+)", sample(f"{text}.m2s-trace.zst")),
        },
        "cutracer": {"run.ndjson": partial(same, sample("cutracer/reduction-after.ndjson.zst"))},
        "nvbit": {"run.txt": partial(same, sample("nvbit/scanlargearrays-two-kernels.txt.zst"))},
        "mgpusim": {
            "isa_GPU[1].CU1.debug": partial(same, sample("mgpusim/isa_GPU[1].CU1.debug.zst"))
        },
    }


def write(path, content, size):
    """Write a file of about that size; how many turns that took."""
    turn = 0
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(content(turn))
            turn += 1
    return turn


def floors(path):
    """Seconds to read a file, and to split it into lines."""
    begin = time.process_time()
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass
    read = time.process_time()
    from mcage.tracing.importing.sources import Source

    for _ in Source(path).lines():
        pass
    return read - begin, time.process_time() - read


def measure(name, files, size):
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / file for file in files]
        turns = write(paths[0], files[paths[0].name], size)
        for path in paths[1:]:
            with path.open("wb") as file:
                for turn in range(turns):
                    file.write(files[path.name](turn))
        total = sum(path.stat().st_size for path in paths) / 1e6
        parts = [floors(path) for path in paths]
        read, lines = (sum(part[k] for part in parts) for k in (0, 1))
        command = [sys.executable, "-c", PART, name.split(",")[0], f"{folder}/out"]
        done = subprocess.run([*command, *paths], capture_output=True, text=True)
        if done.returncode:
            print(f"{name}: {done.stderr.strip().splitlines()[-1]}")
            return
        with contextlib.suppress(ValueError):
            seconds, peak = map(float, done.stdout.strip("[]\n").split(","))
            print(
                f"{name:24s} {total:7.0f} MB, read {total / read:6.0f}, lines "
                f"{total / lines:4.0f}, import {total / seconds:4.0f} MB/s, {peak / 1e6:5.0f} MB",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=256, help="of text for each format")
    parser.add_argument("--format", action="append", help="repeat; default: all")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, files in inputs().items():
        if not options.format or name in options.format:
            measure(name, files, options.megabytes * 1_000_000)


if __name__ == "__main__":
    main()
