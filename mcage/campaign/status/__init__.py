"""What a campaign is doing, in a file beside its shards that any terminal can read."""
