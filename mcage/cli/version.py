"""``mcage --version``: what computes here, as a bug report or a paper needs it."""

import platform

SHOWN = {"NumPy": "numpy", "SciPy": "scipy", "Numba": "numba", "h5py": "h5py", "CuPy": "cupy"}
"""Packages by the names that people know."""


def version_lines() -> list[str]:
    """Version of mcage, the engine that ``auto`` chooses here and why, versions of libraries."""
    return [f"mcage {_version_of_mcage()}", f"engine {_engine()}", ", ".join(_libraries())]


def _version_of_mcage() -> str:
    from mcage.version import version_text

    return version_text()


def _engine() -> str:
    from mcage.engines.select import select_engine

    engine, reason = select_engine()
    return f"{engine.name} ({reason})"


def _libraries() -> list[str]:
    from mcage.cli.doctor import versions

    # CuPy is several packages, one for each CUDA.
    installed = {name.partition("-")[0]: version for name, version in versions().items()}
    listed = (f"{name} {installed[package] or 'none'}" for name, package in SHOWN.items())
    return [f"Python {platform.python_version()}", *listed]
