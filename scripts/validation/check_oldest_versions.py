"""Does mcage work with the oldest versions of its dependencies that pyproject.toml declares?

    python3.11 scripts/validation/check_oldest_versions.py [pytest arguments]

Installs mcage with exactly these versions into a new environment and runs `tests/unit` there, or
whatever pytest is given. Needs the oldest Python that mcage supports, since the oldest versions of
its dependencies know no later one, and takes ten minutes on two cores.
"""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
EXTRAS = "import", "netcdf", "distributed"
"""Extras of users; those of contributors get whatever is newest."""


def oldest_versions(project: dict) -> list[str]:
    """Constraint of pip for each dependency of users: its lower bound, and nothing else."""
    optional = project["optional-dependencies"]
    declared = [*project["dependencies"], *(text for extra in EXTRAS for text in optional[extra])]
    constraints = []
    for requirement in declared:
        bound = re.fullmatch(r"([\w.-]+)(?:\[[\w,.-]+\])?>=([\d.]+)", requirement)
        if bound is None:
            sys.exit(f"{requirement}: a lower bound is needed, and nothing else")
        constraints.append("{}=={}".format(*bound.groups()))
    return constraints


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = project["requires-python"].removeprefix(">=")
    if sys.version_info[:2] != tuple(map(int, needed.split("."))):
        sys.exit(f"Python {needed} is needed, the oldest that mcage supports")
    with TemporaryDirectory() as folder:
        environment, constraints = Path(folder, "venv"), Path(folder, "constraints.txt")
        constraints.write_text("\n".join(oldest_versions(project)))
        venv.create(environment, with_pip=True)
        extras = ",".join(("test", *EXTRAS))
        install = ["-m", "pip", "install", "-q", "-c", str(constraints), f".[{extras}]"]
        tests = sys.argv[1:] or ["-n", "2", "tests/unit"]
        for program, arguments in (("python", install), ("pytest", tests)):
            command = [environment / "bin" / program, *arguments]
            done = subprocess.run(command, cwd=ROOT, check=False)
            if done.returncode:
                sys.exit(done.returncode)


if __name__ == "__main__":
    main()
