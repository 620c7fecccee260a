"""Profiles: what a trace is like, in a file, and traces drawn from it."""
