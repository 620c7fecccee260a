"""Tables of a results file, for people and for scripts."""
