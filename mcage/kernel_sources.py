"""Where the CUDA sources lie: inside the package of a wheel, at the top of a checkout."""

import re
from pathlib import Path

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


def kernel_text(source: str) -> str:
    """Text of a file of `KERNELS`, with the files that it includes: NVRTC need not find them.

    Parameters
    ----------
    source : str
        Name of the file.
    """
    lines = [f'#line 1 "{FOLDER}/{source}"']
    text = (KERNELS / source).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if included := _INCLUDE.match(line):
            lines += [kernel_text(included[1]), f'#line {number + 1} "{FOLDER}/{source}"']
        else:
            lines.append(line)
    return "\n".join(lines)
