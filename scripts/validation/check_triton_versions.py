"""Do kernels in Triton run with the oldest and the newest version that pyproject.toml allows?

    python scripts/validation/check_triton_versions.py [--version 3.8.0 ...] [--arch gfx90a ...]

Installs each version (0.2 to 0.8 GB) into a folder of its own, which is removed afterwards, and
there compiles, emulates and checks a kernel of a few lines and those of
``scripts/modern_kernels/triton_*.py``. Needs pip and what `mcage trace emulate` needs, for gfx1100
llvm-objdump of LLVM 22, and takes a minute a version.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from mcage.errors import UserError
from mcage.tracing.emulation.program import Program
from mcage.tracing.emulation.record import record_kernel

ROOT = Path(__file__).parents[2]
ARCHITECTURES = "gfx90a", "gfx942", "gfx1100"
SMALL = """
import numpy as np
import triton
import triton.language as tl

GRID, OPTIONS, TOLERANCE = (2,), {"num_warps": 1}, 0


@triton.autotune([triton.Config({"STEP": 64})], key=["count"])
@triton.jit
def halves(source, target, count, STEP: tl.constexpr):
    for first in range(tl.program_id(0) * STEP, count, tl.num_programs(0) * STEP):
        place = first + tl.arange(0, STEP)
        inside = place < count
        tl.store(target + place, 0.5 * tl.load(source + place, mask=inside), mask=inside)


def arguments(random):
    source = random.normal(size=150).astype("f4")
    return {"source": source, "target": np.zeros(150, "f4"), "count": 150, "STEP": 64}


def expected(source, target, count, STEP):
    return {"target": source / 2}
"""


def supported(project: dict) -> tuple[str, str]:
    """Requirements of pip for the oldest and the newest Triton that a project allows."""
    texts = project["optional-dependencies"]["triton"]
    newest = next(text.partition(";")[0] for text in texts if text.startswith("triton"))
    oldest = re.fullmatch(r"triton>=(\d+\.\d+),<[\d.]+", newest)
    if oldest is None:
        sys.exit(f"{newest}: a lower and an upper bound are needed")
    return f"triton=={oldest[1]}.0", newest


def check(folder: Path, architectures: list[str]) -> bool:
    """Run all kernels with the Triton that this process imports; whether all are right."""
    import triton

    small = folder / "halves.py"
    small.write_text(SMALL)
    right = True
    for path in (small, *sorted(ROOT.glob("scripts/modern_kernels/triton_*.py"))):
        for arch in architectures:
            try:
                recorded = record_kernel(Program.of(path, arch))
                errors = recorded.errors.items()
                said = ", ".join(f"{name} {error:.1e}" for name, error in errors)
                said += f" (at most {recorded.tolerance:g})"
            except UserError as error:
                said, right = f"FAILS: {error}", False
            print(f"Triton {triton.__version__}: {path.stem} {arch}: {said}", flush=True)
    return right


def check_version(wanted: str, architectures: list[str]) -> bool:
    """Install a version of Triton, and run all kernels with it in another process."""
    with TemporaryDirectory() as folder:
        installed = Path(folder, "installed")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(installed), wanted]
        subprocess.run(pip, check=True)
        path = os.pathsep.join([str(installed), str(ROOT)])
        command = [sys.executable, __file__, "--installed", folder]
        command += [word for arch in architectures for word in ("--arch", arch)]
        variables = {"PYTHONPATH": path, "TRITON_CACHE_DIR": f"{folder}/cache"}
        return not subprocess.run(command, env=os.environ | variables, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="append")
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES)
    parser.add_argument("--installed", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    architectures = options.arch or list(ARCHITECTURES)
    if options.installed:
        sys.exit(not check(options.installed, architectures))
    wanted = [f"triton=={version}" for version in options.version or []]
    if not wanted:
        wanted += supported(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    right = [check_version(each, architectures) for each in wanted]
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
