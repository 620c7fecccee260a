"""Files, whatever they hold: whole or absent, ended by a checksum, and read with suspicion."""
