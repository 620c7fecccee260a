"""Makers of traces: an emulator of AMD GPUs, and importers of files of other tools."""
