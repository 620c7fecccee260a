"""The figures that two papers print, beside what mcage computes on recorded traces."""
