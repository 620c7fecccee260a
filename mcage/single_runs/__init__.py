"""Single runs: one replay, the ACE times of a trace, fault maps, a GPU without variation."""
