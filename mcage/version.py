"""Which code computes: its version with the commit, and digests of what decides results.

Git is asked only where the package lies in a checkout; a wheel carries the commit in a file that
is written when it is built (`hatch_build.py`).
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mcage import __version__
from mcage.plugins import plugin_source

# Where the CUDA sources lie: inside the package of a wheel, at the top of a checkout.

FOLDER = "kernels"

_INCLUDE = re.compile(r'#include "(.+)"$')


def shipped_folder(package: Path, name: str) -> Path:
    """Folder that a wheel holds inside of the package, and a checkout beside it.

    Parameters
    ----------
    package : Path
        Folder of a package of mcage.
    name : str
        Name of the folder.
    """
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


def kernels_of(package: Path) -> Path:
    """Folder of the CUDA sources that belong to a package of mcage."""
    return shipped_folder(package, FOLDER)


KERNELS = kernels_of(Path(__file__).resolve().parent)
"""Folder of the CUDA sources of this mcage."""


def kernel_text(source: str, constants: Mapping[str, int] | None = None) -> str:
    """Text of a file of `KERNELS`, with the files that it includes: NVRTC need not find them.

    Errors of compilers name the file and its own lines.

    Parameters
    ----------
    source : str
        Name of the file.
    constants : mapping of str to int, optional
        Macros that its kernels are compiled under.
    """
    lines = [f"#define {name} {value}" for name, value in (constants or {}).items()]
    lines.append(f'#line 1 "{FOLDER}/{source}"')
    text = (KERNELS / source).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if included := _INCLUDE.match(line):
            lines += [kernel_text(included[1]), f'#line {number + 1} "{FOLDER}/{source}"']
        else:
            lines.append(line)
    return "\n".join(lines)


PACKAGE = Path(__file__).resolve().parent
COMMIT_FILE = "commit.txt"
"""In the package of a wheel: the commit that it was built from."""

BUILD_HOOK = "hatch_build.py"
"""At the top of a checkout of mcage: what writes that file."""

SOURCES = (".py", ".cu", ".cuh", ".toml")
"""Files that decide results: code, kernels, constants. Traces enter the digest of the spec."""

ONLY_ASK_AND_PRINT = (
    "analysis",
    "cli",
    "report",
    "stats",
    "methods",
    "papers",
    "single_runs",
    "functions.py",
    "presentation",
    "presentation.py",
    "command.py",
    "figures.py",
    "data/differences.toml",
    "data/references.toml",
    "data/sensitivity.toml",
)
"""Folders and files without influence on what a sweep writes."""

DECIDE_WHEN_TO_STOP = (
    "stats/survival.py",
    "stats/estimates.py",
)
"""Files of these folders that a stopping rule uses."""

_COMMIT_DIGITS = 7
_DIGEST_BYTES = 8
_GIT_SECONDS = 10.0


@dataclass(frozen=True)
class Code:
    """Code that computes results.

    Parameters
    ----------
    version : str
        Version of mcage with its commit.
    digest : str
        Digest of all of its sources that decide results.
    plug_ins : str
        Modules of user-defined techniques, models and studies, each with a digest of its file and
        of what that imports from its folder; empty if there are none.
    """

    version: str
    digest: str
    plug_ins: str = ""

    def computes_as(self, other: "Code") -> bool:
        """Whether another code is the same in all that decides results."""
        return (self.digest, self.plug_ins) == (other.digest, other.plug_ins)

    def __str__(self) -> str:
        plug_ins = f", with {self.plug_ins}" if self.plug_ins else ""
        return f"{self.version}, digest {self.digest}{plug_ins}"


def running_code(modules: Iterable[str] = ()) -> Code:
    """Code of this process.

    Parameters
    ----------
    modules : iterable of str
        Imported user-defined modules that take part.
    """
    plug_ins = (f"{name} {_module_digest(name)}" for name in sorted(set(modules)))
    return Code(version_text(), code_digest(), ", ".join(plug_ins))


@cache
def version_text() -> str:
    """Version with the commit, such as ``0.1.0+g666b595``.

    ``.dirty`` follows where the package has uncommitted changes. Where no commit is known, it
    says so.
    """
    commit = _commit()
    return f"{__version__}+g{commit}" if commit else f"{__version__} (unknown commit)"


@cache
def code_digest() -> str:
    """Digest of all sources of mcage that decide what a sweep writes: 16 hexadecimal digits."""
    content = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in deciding_sources():
        folder = kernels_of(PACKAGE).parent if name.startswith(f"{FOLDER}/") else PACKAGE
        source = (folder / name).read_bytes()
        content.update(f"{name} {len(source)}\n".encode())
        content.update(source)
    return content.hexdigest()


def deciding_sources() -> list[str]:
    """Sources that decide results, by their paths in the package, sorted."""
    return sorted(name for name in _sources() if _decides(name))


def _decides(name: str) -> bool:
    return name in DECIDE_WHEN_TO_STOP or not {name, *name.split("/")} & set(ONLY_ASK_AND_PRINT)


def _sources() -> Iterator[str]:
    for top in (PACKAGE, kernels_of(PACKAGE)):
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(set(folders) - {"__pycache__", FOLDER})
            for name in files:
                if name.endswith(SOURCES):
                    place = Path(folder).relative_to(top) / name
                    yield (FOLDER / place if top != PACKAGE else place).as_posix()


def _module_digest(name: str) -> str:
    """Digest of a module that has been imported, and of what it imports from its folder."""
    try:
        source = plugin_source(name)
    except (KeyError, AttributeError, OSError):
        return "(no file)"
    return hashlib.blake2b(source, digest_size=_DIGEST_BYTES).hexdigest()


def _commit() -> str:
    """Commit of the package, ``.dirty`` added after changes; empty if it is not known."""
    written = PACKAGE / COMMIT_FILE
    if written.exists():
        return written.read_text(encoding="ascii").strip()
    return commit_of_checkout(PACKAGE.parent)


def commit_of_checkout(root: Path) -> str:
    """Commit of a checkout, ``.dirty`` added where its package or kernels have changed since.

    Parameters
    ----------
    root : Path
        Top folder of the checkout.

    Returns
    -------
    str
        Empty where there is no git, no commit, or no checkout of mcage with its top there.
    """
    if not ((root / ".git").exists() and (root / BUILD_HOOK).exists()):
        return ""
    # Variables by which hooks of git name another checkout than this one.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    asked = ("status", "--porcelain=v2", "--branch", "--", "mcage", "kernels")
    try:
        answer = subprocess.run(
            ("git", "--no-optional-locks", "-C", str(root), *asked),
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=_GIT_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    commit = re.search("^# branch.oid ([0-9a-f]+)$", answer, re.MULTILINE)
    if commit is None:
        return ""
    is_dirty = re.search("^[^#]", answer, re.MULTILINE)
    return commit[1][:_COMMIT_DIGITS] + (".dirty" if is_dirty else "")
