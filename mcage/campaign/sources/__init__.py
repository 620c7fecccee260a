"""Files that hold finished instances: shards, results files, and what is whole of damaged ones."""
