"""Where the CUDA sources lie: inside the package of a wheel, at the top of a checkout."""

from pathlib import Path

FOLDER = "kernels"


def kernels_of(package: Path) -> Path:
    """Folder of the CUDA sources that belong to a package of mcage.

    Parameters
    ----------
    package : Path
        Folder of the package.
    """
    inside = package / FOLDER
    return inside if inside.is_dir() else package.parent / FOLDER


KERNELS = kernels_of(Path(__file__).resolve().parent)
"""Folder of the CUDA sources of this mcage."""
