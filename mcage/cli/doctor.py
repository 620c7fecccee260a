"""``mcage doctor|cache|--version``: what this machine computes with, and if engines agree."""

from __future__ import annotations

import json as json_module
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcage.concurrency import usable_cores
from mcage.engines import select_engine
from mcage.errors import UserError
from mcage.plain_text import visible
from mcage.techniques import TECHNIQUES
from mcage.techniques import technique as named_technique
from mcage.version import PACKAGE, version_text

if TYPE_CHECKING:
    from mcage.engines.cuda_engine.opening import Driver
    from mcage.engines.interface import Engine
    from mcage.techniques import Technique
    from mcage.traces import Trace


PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "h5py", "xarray", "pydantic")
CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
INSTANCES = 3
"""Slices of the self-test: without faults, with some, with so many that registers spill."""


def doctor(
    technique: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Try this technique alone, on every bundled kernel: one that ships, or a "
            "user-defined one as module:NAME.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show engines, devices and versions, and test that all engines agree.

    That takes ten seconds, and half a minute with --technique; the first run also compiles, which
    takes a minute. Exit code 1: an engine disagrees or fails.
    """
    from mcage.engines.cuda_engine.opening import ask_driver

    chosen = named_technique(technique) if technique else None

    driver = ask_driver()
    engines, missing = _open_engines(driver)
    report: dict[str, Any] = {
        "engines": [
            {"engine": name, "available": name in engines, "why_not": missing.get(name)}
            for name in ("numpy", "numba", "cuda")
        ],
        "cores": usable_cores(),
        "driver_cuda": driver.cuda_version,
        "devices": [asdict(card) for card in driver.cards],
        "versions": versions(),
    }
    if not json:
        _print_machine(report)
        tried = "every technique" if chosen is None else f"{technique} on every bundled kernel"
        print(f"Self-test: {tried}, each engine against the reference (numpy).")
    report["self_test"] = []
    started = time.perf_counter()
    for row in self_test(engines, chosen):
        report["self_test"].append(row)
        if not json:
            print(f"  {'ok  ' if row['agrees'] else 'FAIL'}  {_result(row)}", flush=True)
    report["self_test_seconds"] = time.perf_counter() - started
    bad = [row for row in report["self_test"] if not row["agrees"]]
    failed = all(row["failed"] for row in bad)
    report["verdict"] = (
        "all is well" if not bad else "engines fail" if failed else "engines disagree"
    )
    if json:
        print(json_module.dumps(report, indent=2))
    else:
        _print_verdict(report, bad)
    if bad:
        raise typer.Exit(1)


def versions() -> dict[str, str | None]:
    """Versions of Python, mcage and the packages that compute; None for what is not installed."""
    installed: dict[str, str | None] = {
        "python": platform.python_version(),
        "mcage": version_text(),
    }
    installed |= {package: _version(package) for package in PACKAGES}
    cupy = [(package, _version(package)) for package in CUPY_PACKAGES if _version(package)]
    return installed | (dict(cupy) or {"cupy": None})


def self_test(
    engines: dict[str, Engine], chosen: Technique | None = None
) -> Iterator[dict[str, Any]]:
    """Hold each engine against the reference: under every technique, or one on every kernel.

    Raises
    ------
    UserError
        The technique has a program that fails, or answers what cannot be.
    """
    from mcage.engines.parity import ask, ask_passes, compare, demanding_maps, excerpt
    from mcage.replays.prepare import ProgrammedReplay, prepare
    from mcage.traces import KERNELS, bundled_trace, first_generations

    cases: Iterator[tuple[dict[str, Any], Trace, Technique]]
    fault_maps, able = demanding_maps(INSTANCES), dict(engines)
    reference = able.pop("numpy")
    if chosen is None:
        trace = excerpt()
        cases = (({"technique": each.name}, trace, each) for each in TECHNIQUES.values())
    else:
        for name, engine in list(able.items()):
            try:
                engine.check(chosen)
            except UserError as error:
                del able[name]
                row = {"technique": chosen.name, "engine": name, "trace": "none"}
                yield row | {"agrees": True, "failed": False, "result": f"left out: {error}"}
        cases = (
            (
                {"technique": chosen.name, "trace": kernel},
                first_generations(bundled_trace(kernel), 1),
                chosen,
            )
            for kernel in KERNELS
        )
    for case, trace, technique in cases:
        replay = prepare(trace, technique)
        asked: Any = ask_passes if isinstance(replay, ProgrammedReplay) else ask
        meant = asked(reference, replay, fault_maps)
        for name, engine in able.items():
            row = case | {"engine": name, "agrees": False, "failed": True}
            try:
                parity = compare(asked(engine, replay, fault_maps), meant)
            except Exception as error:  # the others are to be heard, too
                yield row | {"result": _in_words(error)}
            else:
                yield row | {
                    **{"agrees": parity.agrees, "failed": False},
                    "result": parity.in_words,
                }


def _open_engines(driver: Driver) -> tuple[dict[str, Engine], dict[str, str]]:
    """Engines that can compute here, and what is missing: engines, or some of their devices."""
    engines, missing = {}, {}
    for name in ("numpy", "numba"):
        try:
            engines[name] = select_engine(name)[0]
        except Exception as error:  # whatever a broken installation raises
            missing[name] = _why_not(name, error, driver)
    try:
        from mcage.engines.cuda_engine import CudaEngine
        from mcage.engines.cuda_engine.opening import ask_devices

        devices = ask_devices()
        engines["cuda"] = CudaEngine(devices.usable)
        if devices.refused_in_words:
            missing["cuda"] = f"left out: {devices.refused_in_words}"
    except Exception as error:  # whatever a broken installation raises
        missing["cuda"] = _why_not("cuda", error, driver)
    return engines, missing


def _why_not(name: str, error: Exception, driver: Driver) -> str:
    from mcage.engines.cuda_engine.devices import NoDeviceError

    if not isinstance(error, NoDeviceError):
        return _in_words(error)
    why = str(error).removeprefix(f"engine '{name}': ")
    return f"{driver.problem}; {why}" if driver.problem else why


def _in_words(error: Exception) -> str:
    kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _result(row: dict[str, Any]) -> str:
    of_trace = f" {row['trace']:20}" if "trace" in row else ""
    return f"{row['engine']:6} {row['technique']:12}{of_trace} {row['result']}"


def _print_machine(report: dict[str, Any]) -> None:
    print("Engines")
    for row in report["engines"]:
        state = "available" if row["available"] else "not available"
        why_not = f": {row['why_not']}" if row["why_not"] else ""
        print(f"  {row['engine']:6} {state}{why_not}")
    print(f"Cores that may be used: {report['cores']}")
    print(f"CUDA of the driver: {report['driver_cuda'] or 'none'}")
    for number, card in enumerate(report["devices"]):
        print(
            f"  device {number}: {card['name']}, compute capability {card['compute_capability']}, "
            f"{card['memory_bytes'] / 2**30:.1f} GiB"
        )
    listed = (
        f"{name} {version or 'not installed'}" for name, version in report["versions"].items()
    )
    print(f"Versions: {', '.join(listed)}")


def _print_verdict(report: dict[str, Any], bad: list[dict[str, Any]]) -> None:
    tests, seconds = len(report["self_test"]), report["self_test_seconds"]
    if bad:
        names = ", ".join(sorted({row["engine"] for row in bad}))
        of_tests = f"{len(bad)} of {tests} tests"
        if report["verdict"] == "engines fail":
            print(f"ENGINES FAIL: {names} in {of_tests}, as said above. The others may be used.")
        else:
            print(
                f"ENGINES DISAGREE: {names} in {of_tests}. "
                "Do not use these results; this is a defect of mcage or of the installation."
            )
    else:
        print(f"All is well: {tests} comparisons agree ({seconds:.1f} s).")


# ``mcage --version``: what computes here, as a bug report or a paper needs it.

SHOWN = {"NumPy": "numpy", "SciPy": "scipy", "Numba": "numba", "h5py": "h5py", "CuPy": "cupy"}
"""Packages by the names that people know."""


def version_lines() -> list[str]:
    """Version of mcage, the engine that ``auto`` chooses here and why, versions of libraries."""
    engine, reason = select_engine()
    # CuPy is several packages, one for each CUDA.
    installed = {name.partition("-")[0]: version for name, version in versions().items()}
    listed = (f"{name} {installed[package] or 'none'}" for name, package in SHOWN.items())
    libraries = ", ".join([f"Python {platform.python_version()}", *listed])
    return [f"mcage {version_text()}", f"engine {engine.name} ({reason})", libraries]


# ``mcage cache``: where mcage keeps what is costly to compute, how large it is, and its end.


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove what is kept.")] = False,
) -> None:
    """Show what is kept on disk for later runs: where, how many, and how large it is.

    These are arrays, such as replays of kernels, and the machine code of the numba engine. Both are
    made again when they are needed. MCAGE_CACHE=FOLDER keeps arrays elsewhere, MCAGE_CACHE=off
    keeps none.
    """
    from mcage.files import disk_cache

    user = disk_cache.user_folder()
    places = (
        ("files of arrays", disk_cache.cache_folder(), disk_cache.array_files),
        (
            "folders of machine code",
            PACKAGE / "engines" / "numba_engine" / "__pycache__",
            disk_cache.code_folders,
        ),
        ("folders of machine code", user, disk_cache.code_folders),
    )
    for what, place, listed in places:
        if place is None:
            continue
        kept = listed(place)
        size = sum(map(disk_cache.size_of, kept))
        cleared = clear and bool(kept) and all([disk_cache.remove(path) for path in kept])
        done = ", removed" if cleared else ""
        typer.echo(visible(f"{place}: {what}: {len(kept)}, {size / 1e6:,.1f} MB{done}"))
    typer.echo(
        f"Arrays take {disk_cache.MOST_BYTES >> 30} GiB at most; a place has machine code of at "
        f"most {disk_cache.MOST_CODE_FOLDERS} versions of mcage."
    )
