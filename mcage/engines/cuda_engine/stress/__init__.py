"""Stress times on a device: epochs are logged, and cells worked out where bounds leave it open."""
