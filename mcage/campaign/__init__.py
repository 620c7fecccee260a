"""Any study as a campaign of shards that survives a kill and ends in one file."""
