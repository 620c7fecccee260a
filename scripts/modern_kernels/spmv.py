"""A step of PageRank on a graph of 1,024 pages: a row holds the links to a page, their number
follows a power law (Pareto, exponent 1.5, at least 8, at most 128), and they come from popular
pages more often; each is 1 / (links of the page it comes from). Ranks are exponential, of sum 1.
"""

import numpy as np

TITLE = "sparse matrix by vector, f32, CSR, 16 lanes a row"
ROWS = 1024
GRID = (ROWS // 16, 1, 1)
BLOCK = (256, 1, 1)
TOLERANCE = 2e-6


def arguments(random: np.random.Generator) -> dict:
    lengths = np.clip(8 * (1 + random.pareto(1.5, ROWS)), 8, 128).astype(int)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    pages = (ROWS * random.random(start[-1]) ** 2).astype(np.int32)
    row = np.repeat(np.arange(ROWS), lengths)
    column = pages[np.lexsort((pages, row))]
    links = np.bincount(column, minlength=ROWS)
    rank = random.exponential(1, ROWS)
    return {
        "start": start,
        "column": column,
        "value": (1 / links[column]).astype(np.float32),
        "x": (rank / rank.sum()).astype(np.float32),
        "y": np.zeros(ROWS, np.float32),
        "rows": ROWS,
    }


def expected(start, column, value, x, y, rows) -> dict[str, np.ndarray]:
    product = value.astype(float) * x[column]
    return {"y": np.add.reduceat(product, start[:-1])}
