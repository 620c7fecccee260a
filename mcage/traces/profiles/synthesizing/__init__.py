"""From a profile to a trace."""
