"""Mutated files of other tools, given to the importers, and a judge of what these do.

Input number n of a format depends on the seed, the format and n alone.
"""

import random
import re
import signal
from functools import cache
from pathlib import Path

import damaged_files
import numpy as np
import zstandard
from cutracer_text import old_version
from import_samples import NAMES, files_of
from multi2sim_text import multi2sim_files
from plain_files import plain_table
from small_traces import small_trace

from mcage.errors import UserError
from mcage.tracing.importing.run import FORMATS, import_traces
from mcage.tracing.importing.sources import LONGEST_LINE, Options

SECONDS = 10
PEAK_BYTES = 1_000_000_000
MOST_LINES, MOST_LETTERS = 2, 1000
EXCERPT_BYTES = 30_000

FORMAT_NAMES = [known.name for known in FORMATS]
NUMBERS = (
    *(b"", b"0", b"-1", b"1", b"31", b"32", b"63", b"64", b"255", b"256", b"65535", b"4096"),
    *(b"2147483647", b"4294967295", b"4294967296", b"9223372036854775807", b"1e400", b"nan"),
    *(b"18446744073709551616", b"9" * 5000, b"0x", b"0xffffffffffffffffff", b"1_0", b"\xd9\xa3"),
)
NOISE = (
    *(b"", b"\0", b"hello from the program", b"[", b"]", b"{}", b"{", b'"', b"\xff\xfe\xfd"),
    *(b"\x1b[31m", b"warn: something", b"," * 300, b"(" * 3000, b"[" * 3000, b" " * 5000),
)


class SlowError(Exception):
    """An import takes too long."""


def complaint(format_name, number, seed, folder):
    """What an import of a mutated input does wrong; None if nothing."""
    rng = random.Random(f"{seed} {format_name} {number}")
    paths = write_mutated(format_name, rng, folder)
    before = {path.name for path in folder.iterdir()}
    taken = _forget_peak()
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(SECONDS)
    message = None
    try:
        import_traces(paths, *_options(format_name, rng, folder))
    except UserError as error:
        message = str(error)
    except SlowError:
        return f"takes more than {SECONDS} seconds"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
    peak = _memory("VmHWM") - taken
    left = {path.name for path in folder.iterdir()} - before
    traces = [path.name for path in folder.glob("out/*")] if "out" in left else []
    complaints = (
        (peak > PEAK_BYTES, f"{peak / 1e6:.0f} MB"),
        (left - {"out"}, f"leaves {left}"),
        (message is not None and traces, "refuses, and leaves traces"),
        (message is None and not traces, "writes nothing"),
        (message == "", "refuses without a word"),
        (message and len(message) > MOST_LETTERS, "a long message"),
        (message and message.count("\n") >= MOST_LINES, "a message of many lines"),
        (message and not _names_a_file(message, paths), message),
    )
    return next((words for is_so, words in complaints if is_so), None)


def _forget_peak():
    """Let the peak of this process's memory begin anew; the memory that it has now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(line):
    """Bytes of a line of what the system says of this process."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{line}:\s+(\d+) kB$", text, re.MULTILINE)[1]) * 1024


def write_mutated(format_name, rng, folder):
    """Write the files of an input; their paths."""
    paths = []
    inputs = excerpts(format_name)
    files = [(name, content) for name, content in rng.choice(inputs)]
    victim = rng.randrange(len(files))
    for place, (name, text) in enumerate(files):
        content = text
        if place == victim:
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                content = rng.choice(MUTATIONS)(rng, content)
        path = folder / name
        if rng.random() < 0.1:
            content = zstandard.compress(content)
            content = _damaged(rng, content) if rng.random() < 0.5 else content
            path = folder / f"{name}.zst"
        path.write_bytes(content)
        paths.append(path)
    return paths


def _options(format_name, rng, folder):
    """Format, folder and options of an import."""
    windows = rng.choice((1, 3)) if rng.random() < 0.1 else None
    period = rng.choice((None, None, 1, 1000))
    chosen = "auto" if rng.random() < 0.2 else format_name
    values = rng.choice(("before", "after", None))
    return chosen, folder / "out", Options(windows, period=period, values=values)


@cache
def excerpts(format_name):
    """Small sound inputs of a format: lists of names and contents of files."""
    if format_name == "csv":
        return [[("run.csv", plain_table(small_trace()).encode())]]
    inputs = []
    if format_name == "multi2sim":
        text, timing = multi2sim_files(small_trace())
        inputs.append([("run.txt", text.encode()), ("run.m2s", timing.encode())])
    for name in NAMES:
        files = files_of(name)
        if name.split("/")[0] == format_name == "multi2sim" and len(files) == 2:
            inputs.append(_beginning(*files))
        elif name.split("/")[0] == format_name:
            inputs.append([(path.stem, _excerpt(path)) for path in files])
    return inputs + [
        [(name, older)]
        for ((name, content), *_) in inputs
        for older in _other_versions(format_name, content)
    ]


def _other_versions(format_name, content):
    """The same in other versions of its tool."""
    if format_name == "cutracer" and content.startswith(b"{"):
        yield b"".join(old_version(content, numbered=True))
        yield b"".join(old_version(content, addresses=False))


def _excerpt(path):
    """First and last lines of a sample, of few lanes."""
    text = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    lines = re.sub(rb"(?m)^.*v\[\d+\]\[(?:[4-9]|\d\d)\] = .*\n", b"", text).split(b"\n")
    kept, size = [], 0
    for line in lines:
        size += len(line)
        if size > EXCERPT_BYTES:
            break
        kept.append(line)
    return b"\n".join([*kept, *lines[len(kept) :][-5:]])


def _beginning(timing, text):
    """First lines of a text of Multi2Sim, and of its timing what belongs to them."""
    texts = [
        zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
        for path in (timing, text)
    ]
    blocks = texts[1][:EXCERPT_BYTES].rpartition(b"\n ")[0] + b"\n"
    fetched = [match.start() for match in re.finditer(rb"(?m)^ *si.new_inst", texts[0])]
    end = [*fetched, len(texts[0])][blocks.count(b"// 0")]
    return [(timing.stem, texts[0][:end]), (text.stem, blocks)]


def _names_a_file(message, paths):
    return "trace" in message or any(path.stem in message for path in paths)


def _too_slow(number, frame):
    raise SlowError


# ---- mutations -------------------------------------------------------------------------------


def _damaged(rng, content):
    mutate = damaged_files.BYTE_MUTATIONS[rng.choice(sorted(damaged_files.BYTE_MUTATIONS))]
    if len(content) < 200:
        return content
    return mutate(content, np.random.default_rng(rng.getrandbits(64)))


def _number(rng, content):
    """Another number in place of one or all of its kind."""
    places = [match.span() for match in re.finditer(rb"\d+", content)]
    if not places:
        return content
    first, last = rng.choice(places)
    number = rng.choice(NUMBERS)
    if rng.random() < 0.1:
        return content.replace(content[first:last], number[:40])
    return content[:first] + number + content[last:]


def _by_lines(change):
    def mutate(rng, content):
        lines = content.split(b"\n")
        return b"\n".join(change(rng, lines))

    return mutate


def _drop(rng, lines):
    first = rng.randrange(len(lines))
    return lines[:first] + lines[first + rng.choice((1, 1, 2, 10, 100)) :]


def _repeat(rng, lines):
    first = rng.randrange(len(lines))
    piece = lines[first : first + rng.choice((1, 2, 20))]
    return lines[:first] + piece * rng.choice((2, 3, 50)) + lines[first:]


def _move(rng, lines):
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return lines


def _interleave(rng, lines):
    """Lines of something else, between the lines or inside one."""
    for _ in range(rng.choice((1, 3, 30))):
        place, noise = rng.randrange(len(lines)), rng.choice(NOISE)
        if rng.random() < 0.5:
            lines.insert(place, noise)
        else:
            cut = rng.randrange(len(lines[place]) + 1)
            lines[place] = lines[place][:cut] + noise + b"\n" + lines[place][cut:]
    return lines


def _headless(rng, lines):
    return lines[rng.choice((1, 2, 5, 20, len(lines) // 2)) :] or [b""]


def _long_name(rng, lines):
    """Five kilobytes in place of a word."""
    name = rng.choice((b"void f<int, ", b"x - grid size 1,1,1 - ", b'\\"{,', b"\xc3\xa4")) * 400
    place = rng.randrange(min(len(lines), 40))
    words = lines[place].split(b" ")
    words[rng.randrange(len(words))] = name
    lines[place] = b" ".join(words)
    return lines


def _long_line(rng, content):
    if rng.random() < 0.9:
        return content
    place = rng.randrange(len(content) + 1)
    return content[:place] + b"x" * (LONGEST_LINE + 5) + content[place:]


def _line_ends(rng, content):
    return content.replace(b"\n", rng.choice((b"\r\n", b"\r\n", b"\r", b"\n\n", b"")))


def _twice(rng, content):
    return content + rng.choice((b"", b"\n")) + content


MUTATIONS = (
    *(_damaged, _damaged, _number, _number, _number, _line_ends, _long_line, _twice),
    *map(_by_lines, (_drop, _drop, _repeat, _move, _interleave, _interleave, _headless)),
    _by_lines(_long_name),
)
