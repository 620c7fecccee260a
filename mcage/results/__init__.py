"""Files of results: what they hold, how they are written, how they are opened."""
