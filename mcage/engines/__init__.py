"""Engines: one interface, one meaning; how a trace is made ready for them."""
