"""How the Vmin of 8T cells differs from that of 6T cells as manufactured, at the same mismatch.

By each margin, the Vmin of cells scatters around its middle by ``sigma_mv``, and the supply of a
variant lies ``beta`` such deviations above the middle. The Vmin at which all margins are met is
taken as normal in the tail, for either cell: with the score at that supply, and the slope of the
score, which the shares of all margins give together.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import norm

COUNTED = {"6t": ("read", "write", "hold"), "8t": ("access", "write", "hold")}
"""Margins by which cells fail; of 6T cells, those that mcage knows."""

REFERENCE = "reference"


def compared(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each variant of the 8T cell: scores, shares of margins, and how Vmin differs.

    Parameters
    ----------
    rows : sequence of dict
        What `derive.row` gives of both cells.

    Returns
    -------
    list of dict
        ``shift_mv``: how much higher the Vmin of the 8T cell lies than that of the 6T cell which
        just works at the supply, both cells being as rare in the tail; ``sigma_ratio``: deviation
        of the Vmin of 8T cells over that of 6T cells; ``shares`` of the weak 8T cells by margin.
    """
    names = dict.fromkeys(row["variant"] for row in rows if row["cell"] == "8t")
    of_6t = {row["variant"] for row in rows if row["cell"] == "6t" and row["margin"] == "read"}
    results = []
    for name in names:
        eight, six = (
            _rows(rows, "8t", name),
            _rows(rows, "6t", name if name in of_6t else REFERENCE),
        )
        score, sigma_mv = _tail(eight)
        score_6t, sigma_6t_mv = _tail(six)
        shares = np.array([row["share_of_cells"] for row in eight])
        results.append(
            {
                "variant": name,
                "score": round(score, 3),
                "sigma_mv": round(sigma_mv, 2),
                "score_6t": round(score_6t, 3),
                "sigma_6t_mv": round(sigma_6t_mv, 2),
                "shift_mv": round((score_6t - score) * sigma_mv, 2),
                "sigma_ratio": round(sigma_mv / sigma_6t_mv, 3),
                "shares": dict(
                    zip(COUNTED["8t"], (shares / shares.sum()).round(4).tolist(), strict=True)
                ),
            }
        )
    return results


def _rows(rows: Sequence[dict[str, Any]], cell: str, variant: str) -> list[dict[str, Any]]:
    """Rows of a variant, in the order of COUNTED; what it leaves as it is has the reference."""
    of_cell = [row for row in rows if row["cell"] == cell]

    def of(margin: str) -> dict[str, Any]:
        of_margin = [row for row in of_cell if row["margin"] == margin]
        varied = [row for row in of_margin if row["variant"] == variant]
        return (varied or [row for row in of_margin if row["variant"] == REFERENCE])[0]

    return [of(margin) for margin in COUNTED[cell]]


def _tail(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Score at which cells fail by any margin, and the deviation of their Vmin there, mV."""
    shares = np.array([row["share_of_cells"] for row in rows])
    beta = np.array([row["beta"] for row in rows])
    sigma_mv = np.array([row["sigma_mv"] for row in rows])
    values = np.round(shares / norm.sf(beta))
    score = -float(ndtri(shares.sum()))
    density = (values * norm.pdf(beta) / sigma_mv).sum()
    return score, float(norm.pdf(score) / density)
