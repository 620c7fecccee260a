"""Values that the papers print, and how close mcage must come to agree: ``data/published.csv``.

Where mcage disagrees, ``data/differences.toml`` says why.
"""

import csv
import math
import tomllib
from dataclasses import dataclass
from importlib.resources import files

PAPERS = {
    "000": "Valero et al., An Aging-Aware GPU Register File Design, IEEE TC 2019",
    "002": "Toca-Diaz et al., RRCD: Redireccion de Registros Basada en Compresion de Datos",
}
"""Papers on register files."""

GPU_PAPERS = {
    "003": "Chen et al., Simultaneous Aging and Power Optimization in GPGPUs, DAC 2014",
    "004": "Zhang et al., NBTI Alleviation on FinFET-Made GPUs, INTEGRATION 2015",
}
"""Papers on whole GPUs."""

NUMBERS = {
    "valero-2019": "000",
    "toca-diaz-rrcd": "002",
    "chen-2014": "003",
    "zhang-2015": "004",
}
"""Numbers of the papers, keys of `PAPERS` and `GPU_PAPERS`, by what people call them."""

MEAN, ALL = "mean", "all"
"""In place of a kernel: the mean over the ten kernels, or the kernel that is furthest off."""


@dataclass(frozen=True)
class Published:
    """A printed value of a paper.

    Attributes
    ----------
    paper, place : str
        Key of `PAPERS` or `GPU_PAPERS`, and table, figure or section.
    metric, technique, kernel, scenario : str
        What is measured, and on what; empty where it does not apply. ``kernel`` may be `MEAN` or
        `ALL`. Of papers on whole GPUs, ``technique`` is a policy or a design, and ``scenario`` age
        and NBTI model, or the structure.
    text, unit : str
        As printed.
    low, high : float
        The printed range; equal for a single value. NaN where a list is printed.
    tolerance : float
        How far outside the range a value still agrees, in the same unit.
    kind : str
        ``table``, ``text``, ``text bound``, ``text range`` or ``text approx``.
    """

    paper: str
    place: str
    metric: str
    technique: str
    kernel: str
    scenario: str
    text: str
    unit: str
    low: float
    high: float
    tolerance: float
    kind: str = "text"

    def difference(self, value: float) -> float:
        """How far a value lies above (or, negative, below) the printed range."""
        return max(value - self.high, 0.0) + min(value - self.low, 0.0)

    @property
    def tolerance_text(self) -> str:
        """What agrees, in words: around the printed value, or as what "about" is read."""
        if math.isnan(self.tolerance):
            return ""
        if self.kind == "text approx" and self.low < self.high:
            return f"{self.low:g} to {self.high:g}"
        return f"±{self.tolerance:g}"

    def agrees(self, value: float) -> bool:
        """Whether a value lies within the tolerance."""
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return abs(self.difference(value)) <= self.tolerance + slack


def published_figures(paper: str | None = None) -> list[Published]:
    """Printed values of a paper; without its key, those of all `PAPERS` on register files."""
    text = files("mcage").joinpath("data", "published.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    figures = []
    for row in csv.DictReader(lines):
        low, high, tolerance = (float(row[n] or "nan") for n in ("low", "high", "tolerance"))
        figures.append(
            Published(
                row["paper"],
                row["place"],
                row["metric"],
                row["technique"],
                row["kernel"],
                row["scenario"],
                row["published"],
                row["unit"],
                low,
                high,
                tolerance,
                row["kind"],
            )
        )
    papers = PAPERS if paper is None else (paper,)
    return [figure for figure in figures if figure.paper in papers]


@dataclass(frozen=True)
class Reasons:
    """Why mcage disagrees, in words."""

    entries: tuple[dict[str, str], ...]

    @classmethod
    def read(cls) -> "Reasons":
        """Read ``data/differences.toml``."""
        text = files("mcage").joinpath("data", "differences.toml").read_text(encoding="utf-8")
        return cls(tuple(tomllib.loads(text)["difference"]))

    def why(self, figure: Published, release: str) -> str:
        """The reason for a difference; empty if there is none.

        It is that of the first entry whose keys, except ``why``, all equal those of the printed
        value; the key ``release`` is compared with how windows are released.
        """
        columns = vars(figure) | {"release": release}
        for entry in self.entries:
            if all(columns[key] == entry[key] for key in entry if key != "why"):
                return entry["why"]
        return ""
