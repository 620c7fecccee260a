"""Where the repository and its pages lie, for tests at any depth."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "support" / "data"
