"""Files, whatever they hold: whole or absent, sealed by a checksum, and read with suspicion."""
