"""Formats of other tools: in each module a `Format` called ``FORMAT``, listed in `catalogue`."""
