"""Methods that ask many sweeps: rare events, sensitivity."""
