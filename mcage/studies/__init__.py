"""Studies that ask many sweeps or single replays: rare events, sensitivity, reproduction."""
