"""One mutator for all inputs: it draws changes of trees and of bytes, whatever they stand for.

A tree is made of dicts, lists and leaves. How an input of some kind becomes a tree and bytes
again, and which values are of interest in it, says its grammar. Everything is a function of a
`random.Random`: the same seed gives the same inputs.
"""

import copy
import math
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CHANGES = ("value", "value", "value", "value", "near", "near", "all", "drop", "repeat", "add")
CHANGES += ("swap", "move")
NOT_WRITABLE = (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, struct.error)
"""What writers raise of a tree that nobody can write."""

Values = Sequence[Any] | Mapping[Any, Sequence[Any]]
Bytes = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Grammar:
    """How inputs of a kind are written, and what may stand in them.

    Attributes
    ----------
    sound : function
        Draws a tree that is right.
    write : function
        Makes it bytes.
    values : sequence or mapping
        What may stand in place of anything; or of the leaves that are keys of it, or lie below a
        key of it, or, as the value of ``""``, of any other. A function is called for a value.
    noise : sequence of bytes
        What may stand between lines.
    by_bytes : float
        Share of inputs whose bytes are damaged.
    """

    sound: Callable[[random.Random], Any]
    write: Callable[[Any], bytes]
    values: Values
    noise: Sequence[bytes] = ()
    by_bytes: float = 0.3

    def tree(self, rng: random.Random) -> Any:
        """A tree of which one to four things were changed."""
        tree = copy.deepcopy(self.sound(rng))
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            change(rng, tree, self.values)
        return tree

    def draw(self, rng: random.Random) -> bytes:
        """An input, changed as a tree or, once it was written, by bytes."""
        while True:
            by_bytes = rng.random() < self.by_bytes
            try:
                content = self.write(self.sound(rng) if by_bytes else self.tree(rng))
            except NOT_WRITABLE:
                continue
            if by_bytes and self.noise and rng.random() < 0.5:
                return interleaved(rng, content, self.noise)
            return damaged(rng, content) if by_bytes else content


# ---- trees -----------------------------------------------------------------------------------


def change(rng: random.Random, tree: Any, values: Values) -> None:
    """Change one thing anywhere in a tree."""
    parent, path = tree, []
    while keys := _keys(parent):
        path.append(rng.choice(keys))
        inner = parent[path[-1]]
        if not _keys(inner) or rng.random() < 0.15:
            _change(rng, tree, parent, path, values)
            return
        parent = inner


def _change(rng: random.Random, tree: Any, parent: Any, path: list, values: Values) -> None:
    key, kind = path[-1], rng.choice(CHANGES)
    content, is_list = parent[key], isinstance(parent, list)
    if kind == "value":
        parent[key] = _value(rng, values, path, content)
    elif kind == "near":
        parent[key] = near(rng, content)
    elif kind == "all":
        _replace_all(tree, content, _value(rng, values, path, content))
    elif kind == "drop":
        del parent[key]
    elif kind == "repeat" and is_list:
        piece = copy.deepcopy(parent[key : key + rng.choice((1, 1, 2, 20))])
        parent[key:key] = piece * rng.choice((1, 1, 2, 50, 300))
    elif kind == "add" and is_list:
        parent.insert(key, _value(rng, values, path, content))
    elif kind in ("repeat", "add"):
        fresh = rng.choice([near(rng, key), *(values if isinstance(values, Mapping) else ())])
        parent[fresh] = content if kind == "repeat" else _value(rng, values, [fresh], None)
    elif kind == "swap":
        other = rng.choice(_keys(parent))
        parent[key], parent[other] = parent[other], content
    else:
        place = tree[rng.choice(_keys(tree))]
        place = place if _keys(place) else tree
        place[rng.choice(_keys(place))] = copy.deepcopy(content)


def _keys(tree: Any) -> list:
    if isinstance(tree, dict):
        return [*tree]
    return [*range(len(tree))] if isinstance(tree, list) else []


def _value(rng: random.Random, values: Values, path: list, content: Any) -> Any:
    if isinstance(values, Mapping):
        names = [content] if isinstance(content, str) else []
        known = [name for name in (*names, *reversed(path), "") if name in values]
        values = values[known[0]]
    value = rng.choice(values)
    return value(rng) if callable(value) else copy.deepcopy(value)


def _replace_all(tree: Any, old: Any, new: Any) -> None:
    for key in _keys(tree):
        if type(tree[key]) is type(old) and tree[key] == old:
            tree[key] = copy.deepcopy(new)
        else:
            _replace_all(tree[key], old, new)


def near(rng: random.Random, value: Any) -> Any:
    """A value of the same type that differs a little."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        bit = 1 << rng.randrange(rng.choice((8, 32, 64)))
        return rng.choice((value - 8, value - 1, value + 1, value + 4, -value, value ^ bit))
    if isinstance(value, float):
        return rng.choice((-value, math.nextafter(value, math.inf), value * 1e9, round(value, 1)))
    if isinstance(value, bytes):
        return damaged(rng, value)
    if isinstance(value, str):
        place = rng.randrange(len(value) + 1)
        before, letter, after = value[:place], value[place : place + 1], value[place + 1 :]
        swapped = before + after[:1] + letter + after[1:]
        return rng.choice((before + after, before + 2 * letter + after, swapped, value.upper()))
    return [value]


# ---- bytes -----------------------------------------------------------------------------------


def _places(rng: random.Random, content: bytes, most: int) -> list[int]:
    """Places of 1 ... ``most`` bytes; not where HDF5 has left room, which is zero."""
    used = np.flatnonzero(np.frombuffer(content, np.uint8)).tolist() or [0]
    return [rng.choice(used) for _ in range(rng.randint(1, most))]


def _bits(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for place in _places(rng, content, rng.choice((1, 1, 4, 40))):
        changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _bytes(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for place in _places(rng, content, 4):
        changed[place] = rng.choice((0, 255, rng.randrange(256)))
    return bytes(changed)


def _cut(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content))]


def _overwrite(rng: random.Random, content: bytes) -> bytes:
    """A stretch of it taken from somewhere else in it."""
    length = rng.randint(1, min(64, len(content)))
    source, target = (rng.randrange(len(content) - length + 1) for _ in range(2))
    return content[:target] + content[source : source + length] + content[target + length :]


BYTE_MUTATIONS: dict[str, Bytes] = {
    "bits": _bits,
    "bytes": _bytes,
    "cut": _cut,
    "overwrite": _overwrite,
}
TEXT_MUTATIONS: dict[str, Bytes] = {
    "twice": lambda rng, content: content + rng.choice((b"", b"\n")) + content,
    "line ends": lambda rng, content: content.replace(
        b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b""))
    ),
    "mark": lambda rng, content: rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\0")) + content,
    "anything": lambda rng, content: rng.randbytes(rng.randrange(200)),
    "not UTF-8": lambda rng, content: interleaved(rng, content, (b"\xff", b"\xc3", b"\xed\xa0")),
}


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Content with damage of any kind, by byte."""
    kinds = [*BYTE_MUTATIONS.values()] * bool(content) * 2 + [*TEXT_MUTATIONS.values()]
    return rng.choice(kinds)(rng, content)


def interleaved(rng: random.Random, content: bytes, noise: Sequence[bytes]) -> bytes:
    """Content with something else between its lines, or inside some."""
    for _ in range(rng.choice((1, 1, 3, 30))):
        place = rng.randrange(len(content) + 1)
        if rng.random() < 0.5:
            place = content.rfind(b"\n", 0, place) + 1
        content = content[:place] + rng.choice(noise) + b"\n" + content[place:]
    return content
