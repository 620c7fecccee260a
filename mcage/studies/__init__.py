"""Studies, a folder each: spec, computing, measures, figures, command."""
