"""Figures of results files, as a paper shows them: a file for each figure, and what they share."""
