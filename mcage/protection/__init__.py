"""Protection of stored words by codes: what check bits a code adds, and what it makes of faults."""
