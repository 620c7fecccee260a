"""What users write themselves, as docs/importing.md describes it: a table, or arrays."""
