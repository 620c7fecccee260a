"""Results in Python: `mcage.open_results`, and what `results.mcage` computes of them."""

from mcage.analysis.accessor import Analysis
from mcage.analysis.opening import Results, open_results

__all__ = ["Analysis", "Results", "open_results"]
