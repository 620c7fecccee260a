"""From a trace to its profile."""
