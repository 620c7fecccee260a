"""Statistics of samples and lives, without a word about registers or files."""
