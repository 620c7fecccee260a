"""What aging-critical structures are made of, and what wakes them (Zhang et al., 2015)."""
